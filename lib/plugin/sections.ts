/** The sections of a document that an embedding app gives to other plugins than those that compile documents. */
import type { FastifyInstance } from 'fastify'
import type { ConfigInput } from '../configuration/index.js'
import { optional } from './define.js'

/** The options of the plugins tenancy and cache, as sections of a document. */
export function sectionsOf (app: FastifyInstance): Pick<ConfigInput, 'tenancy' | 'cache'> {
  const [tenancy, cache] = [optional(app, 'tenancy')(), optional(app, 'cacheDefaults')()]
  return {
    ...tenancy !== null && { tenancy: tenancy.section },
    // The store is that of the plugin.
    ...cache !== null && { cache: { ...cache, provider: 'memory' } }
  }
}
