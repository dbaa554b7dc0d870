/** prom-client's registry with the figures of the app. */
import type {} from '../database/index.js'
import type { FastifyInstance } from 'fastify'
import type { CachedProbeOptions } from '../../lib/concurrency/cached-probe.js'
import { Registry, collectDefaultMetrics } from 'prom-client'
import { addFigures } from './figures.js'
import { countRequests } from './requests.js'
import { createTenantSeries } from './tenants.js'

const left = [
  // Gauges with the names of counters, and two that read Node's internals; `nodejs_active_resources` has the same figures.
  'nodejs_active_handles',
  'nodejs_active_handles_total',
  'nodejs_active_requests',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  // NaN, or a huge number, if nothing was measured since the last scrape.
  'nodejs_eventloop_lag_min_seconds',
  'nodejs_eventloop_lag_mean_seconds',
  'nodejs_eventloop_lag_stddev_seconds'
]

let process: Registry | undefined

/** Adds them to a registry. The observers of the process exist once, for any number of apps. */
function addProcessMetrics (registry: Registry): void {
  process ??= collected()
  for (const { name } of process.getMetricsAsArray()) {
    const metric = process.getSingleMetric(name)
    if (metric !== undefined) registry.registerMetric(metric)
  }
}

function collected (): Registry {
  const register = new Registry()
  collectDefaultMetrics({ register })
  for (const name of left) register.removeSingleMetric(name)
  return register
}

export interface RegistryOptions {
  readonly perTenant: boolean
  readonly maxTenants: number
  readonly now: (() => number) | undefined
}

export function openRegistry (app: FastifyInstance, { perTenant, maxTenants, now }: RegistryOptions): Registry {
  const registry = new Registry()
  const options: CachedProbeOptions = { now, onError: (err) => app.log.debug({ err }, 'values are missing from the metrics') }
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
