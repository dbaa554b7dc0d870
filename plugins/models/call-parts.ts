/** Parts that calls of all models share, and their failures. */
import type { FastifyBaseLogger } from 'fastify'
import type { Connections } from '../../lib/models/provider-request.js'
import type { ProviderModels } from '../../lib/models/providers.js'
import type { Calls } from './calls.js'
import type { Charges } from './charges.js'
import type { ModelFigures } from './figures.js'
import type { ModelKeys } from './keys.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { ModelInfo } from '../../lib/models/types.js'
import { TenantryError } from '../../lib/errors.js'
import { unreadable } from '../../lib/models/failures.js'

export interface CallParts {
  readonly provider: ProviderModels
  readonly connections: Connections
  readonly keys: ModelKeys
  readonly calls: Calls
  readonly charges: Charges
  readonly figures: ModelFigures
  readonly log: FastifyBaseLogger
}

/** Counts and logs the failure, and returns the error for the caller. Neither contains text from the provider. */
export function failedCall (
  thrown: unknown,
  info: ModelInfo,
  tenant: Owner,
  { figures, log }: { readonly figures: ModelFigures, readonly log: FastifyBaseLogger }
): TenantryError {
  const error = thrown instanceof TenantryError ? thrown : unreadable(thrown)
  figures.failed(info, error.code)
  log.warn({ tenant, provider: info.provider, model: info.id, code: error.code, cause: error.cause }, 'a call of a model failed')
  return error
}
