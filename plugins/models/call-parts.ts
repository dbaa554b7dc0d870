/** Parts that calls of all models share, their failures, and the API keys of providers. */
import type { FastifyBaseLogger } from 'fastify'
import type { Warned } from '../../lib/cache/warned.js'
import { secretOf } from '../../lib/document/rules/agent.js'
import { failure, TenantryError } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { type KeyOwner, unreadable } from '../../lib/models/failures.js'
import type { Connections } from '../../lib/models/provider-request.js'
import type { ProviderModels } from '../../lib/models/providers.js'
import type { ModelInfo } from '../../lib/models/types.js'
import type { Secrets } from '../secrets/service.js'
import type { FindsTenants } from '../tenancy/tenant.js'
import type { Calls } from './calls.js'
import type { Charges, ModelFigures } from './charges.js'

export interface CallParts {
  readonly provider: ProviderModels
  readonly connections: Connections
  readonly keys: ModelKeys
  readonly tenants: FindsTenants
  readonly calls: Calls
  readonly charges: Charges
  readonly figures: ModelFigures
  readonly log: FastifyBaseLogger
  readonly warned: Warned
}

/** Counts and logs the failure, and returns the error for the caller. Neither contains text from the provider. */
export function failedCall (
  thrown: unknown,
  info: ModelInfo,
  tenant: Owner,
  { figures, log, warned }: Pick<CallParts, 'figures' | 'log' | 'warned'>
): TenantryError {
  const error = thrown instanceof TenantryError ? thrown : unreadable(thrown)
  figures.failed(info, error.code)
  const { code, message: reason, cause } = error
  const level = warned.levelOf(tenant, info.provider, info.id, code)
  // An error that is not `err` has no text in the log.
  const shown = cause instanceof Error ? { cause: cause.message } : {}
  log[level]({ tenant, provider: info.provider, model: info.id, code, reason, ...shown }, 'a call of a model failed')
  return error
}

interface ModelKeys {
  readonly owner: KeyOwner
  /** Rejects with `secretRequired` if the tenant has not stored its key. */
  of(tenant: Owner): Promise<string>
}

/** `apiKey` as in the document. Throws if it names a secret and the app has no secrets. */
export function createKeys (apiKey: string | undefined, secrets: () => Pick<Secrets, 'values' | 'accessed'> | null): ModelKeys {
  const name = apiKey === undefined ? null : secretOf(apiKey)
  if (name === null) return { owner: 'platform', of: async () => apiKey ?? '' }
  return {
    owner: 'tenant',
    async of (tenant) {
      const found = secrets()
      if (found === null) throw new Error('the key of a model is a secret of tenants: register the plugin "tenantry/plugins/secrets"')
      const value = (await found.values(tenant)).get(name)
      if (value === undefined || value === null) {
        const state = value === null ? 'has expired' : 'is missing'
        throw failure('secretRequired', {
          message: `The tenant's secret "${name}" ${state}: store it with POST /tenant/secrets`,
          extras: { secret: name }
        })
      }
      // A header can contain no other characters.
      if (!/^[\x21-\x7e]{1,1000}$/.test(value)) throw failure('providerKeyRefused')
      found.accessed(tenant, [name])
      return value
    }
  }
}
