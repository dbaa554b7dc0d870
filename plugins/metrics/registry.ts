/** prom-client's registry with the figures of the app. */
import type {} from '../database/index.js'
import type { FastifyInstance } from 'fastify'
import type { CachedProbeOptions } from '../../lib/concurrency/cached-probe.js'
import { Registry } from 'prom-client'
import { addFigures } from './figures.js'
import { addProcessMetrics } from './process.js'
import { countRequests } from './requests.js'
import { createTenantSeries } from './tenants.js'

export interface RegistryOptions {
  readonly perTenant: boolean
  readonly maxTenants: number
  readonly now: (() => number) | undefined
}

export function openRegistry (app: FastifyInstance, { perTenant, maxTenants, now }: RegistryOptions): Registry {
  const registry = new Registry()
  const options: CachedProbeOptions = { now, onError: (err) => app.log.debug({ err }, 'figures are missing from the metrics') }
  addProcessMetrics(registry)
  countRequests(app, registry, perTenant ? createTenantSeries({ registry, max: maxTenants, present: presentIn(app), ...options }) : null)
  // Other plugins may be registered later.
  app.addHook('onReady', async () => addFigures(app, registry, options))
  return registry
}

function presentIn (app: FastifyInstance) {
  return async (tenants: readonly string[]): Promise<string[]> => {
    const found = await app.db.selectFrom('tenantry.tenants').select('id').where('id', 'in', tenants).where('status', '<>', 'deleting')
      .execute()
    return found.map(({ id }) => id)
  }
}
