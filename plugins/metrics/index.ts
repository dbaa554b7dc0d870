/**
 * Figures for Prometheus: `app.metrics`, which is prom-client's registry, and `GET /metrics`. An app may add its own
 * figures. Figures of the database, the cache and the queue need these plugins.
 */
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type {} from './metrics.js'
import type { FastifyInstance } from 'fastify'
import type { LookOptions } from '../../lib/look.js'
import { Registry } from 'prom-client'
import { defaultMetricTenants, maxMetricTenants } from '../../lib/config/schema/system.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { callback, flag, whole } from '../../lib/plugin/options.js'
import { addFigures } from './figures.js'
import { addProcessMetrics } from './process.js'
import { countRequests } from './requests.js'
import { createTenantSeries } from './tenants.js'
import { requirePlugin } from '../../lib/plugin/dependencies.js'
import { metricsRoutes } from './routes.js'

/** The document's `plugins.system.metrics`. */
export interface MetricsOptions {
  /** Requests are told by tenant, too. Default: false. */
  readonly perTenant?: boolean | undefined
  /** Tenants that are told apart, 1 to 1000, the first that come; the others are told as one. Default: 100. */
  readonly maxTenants?: number | undefined
  /** The clock of figures that are asked for seldom, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

export default definePlugin<MetricsOptions>({
  name: 'metrics',
  routeDependencies: ['auth'],
  optional: ['database', 'tenancy', 'cache', 'queue'],
  options: { perTenant: flag, maxTenants: whole(1, maxMetricTenants), now: callback },
  setup (app, { perTenant = false, maxTenants = defaultMetricTenants, now }) {
    const registry = new Registry()
    const options: LookOptions = { now, onError: (err) => app.log.debug({ err }, 'figures are missing from the metrics') }
    app.decorate('metrics', registry)
    addProcessMetrics(registry)
    countRequests(app, registry, perTenant ? createTenantSeries({ registry, max: maxTenants, present: presentIn(app), ...options }) : null)

    app.addHook('onReady', async () => {
      if (perTenant) requirePlugin(app, 'tenancy', 'metrics')
      addFigures(app, registry, options)
    })
    return metricsRoutes
  }
})

function presentIn (app: FastifyInstance) {
  return async (tenants: readonly string[]): Promise<string[]> => {
    const found = await app.db.selectFrom('tenantry.tenants').select('id').where('id', 'in', tenants).where('status', '<>', 'deleting').execute()
    return found.map(({ id }) => id)
  }
}
