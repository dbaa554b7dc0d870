/**
 * Figures for Prometheus: `app.metrics`, which is prom-client's registry, and `GET /metrics`. An app may add its own figures. Figures of
 * the database, the cache and the queue need these plugins.
 */
import { definePlugin, requirePlugin } from '../../lib/plugin/define.js'
import { callback, flag, whole } from '../../lib/plugin/options.js'
import { defaultMetricTenants, maxMetricTenants } from '../../lib/schema/plugins.js'
import { metricsRoutes } from './routes.js'

export type {} from './counter.js'

/** The document's `plugins.system.metrics`. */
export interface MetricsOptions {
  /** Requests have the tenant as a label. Default: false. */
  readonly perTenant?: boolean | undefined
  /** The number of tenants with their own label, 1 to 1000, the first ones; the others share one. Default: 100. */
  readonly maxTenants?: number | undefined
  /** The clock of cached figures, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

export default definePlugin<MetricsOptions>({
  name: 'metrics',
  routeDependencies: ['auth'],
  optional: ['database', 'tenancy', 'cache', 'queue'],
  options: { perTenant: flag, maxTenants: whole(1, maxMetricTenants), now: callback },
  async setup (app, { perTenant = false, maxTenants = defaultMetricTenants, now }) {
    // prom-client has many modules, which a server without metrics does not load.
    const { openRegistry } = await import('./registry.js')
    app.decorate('metrics', openRegistry(app, perTenant ? maxTenants : null, now))
    if (perTenant) app.addHook('onReady', async () => requirePlugin(app, 'tenancy', 'metrics'))
    return metricsRoutes
  }
})
