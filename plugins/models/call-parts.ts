/** Parts that calls of all models share. */
import type { FastifyBaseLogger } from 'fastify'
import type { Connections } from '../../lib/models/provider-request.js'
import type { ProviderModels } from '../../lib/models/providers.js'
import type { Calls } from './calls.js'
import type { Charges } from './charges.js'
import type { ModelFigures } from './figures.js'
import type { ModelKeys } from './keys.js'

export interface CallParts {
  readonly provider: ProviderModels
  readonly connections: Connections
  readonly keys: ModelKeys
  readonly calls: Calls
  readonly charges: Charges
  readonly figures: ModelFigures
  readonly log: FastifyBaseLogger
}
