/** The API keys of providers: the platform's, or each tenant's own. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { KeyOwner } from '../../lib/models/failures.js'
import type { Secrets } from '../secrets/service.js'
import { secretOf } from '../../lib/document/rules/agent.js'
import { failure } from '../../lib/errors.js'

export interface ModelKeys {
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
