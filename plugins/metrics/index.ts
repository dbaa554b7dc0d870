/**
 * Figures for Prometheus: `app.metrics`, prom-client's registry, to which an app may add its own (DESIGN 11). A service plugin
 * (fp): it counts the requests of every route of the app; register it first, so that a request that another plugin refuses is
 * counted as well. Figures of the database, the cache and the queue are there where these plugins are.
 * `metricsRoutes`, beside it, is its endpoint.
 */
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type {} from './metrics.js'
import type { FastifyInstance } from 'fastify'
import type { LookOptions } from '../../lib/look.js'
import fp from 'fastify-plugin'
import { Registry } from 'prom-client'
import { defaultMetricTenants, maxMetricTenants } from '../../lib/config/schema/system.js'
import { requireDecorator, requireWhole } from '../../lib/plugin/requirement.js'
import { addFigures } from './figures.js'
import { addProcessMetrics } from './process.js'
import { countRequests } from './requests.js'
import { createTenantSeries } from './tenants.js'

export { default as metricsRoutes } from './routes.js'

/** The document's `plugins.system.metrics`. */
export interface MetricsOptions {
  /** Requests are told by tenant, too. Default: false. */
  readonly perTenant?: boolean | undefined
  /** Tenants that are told apart, 1 to 1000, the first that come; the others are told as one. Default: 100. */
  readonly maxTenants?: number | undefined
  /** The clock of figures that are asked for seldom, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

export async function metrics (app: FastifyInstance, { perTenant = false, maxTenants = defaultMetricTenants, now }: MetricsOptions): Promise<void> {
  requireWhole('maxTenants', maxTenants, 1, maxMetricTenants)
  const registry = new Registry()
  const options: LookOptions = { now, onError: (err) => app.log.debug({ err }, 'figures are missing from the metrics') }
  app.decorate('metrics', registry)
  addProcessMetrics(registry)
  countRequests(app, registry, perTenant ? createTenantSeries({ registry, max: maxTenants, present: presentIn(app), ...options }) : null)

  app.addHook('onReady', async () => {
    if (perTenant) requireDecorator(app, 'tenants', 'tenancy', 'metrics')
    addFigures(app, registry, options)
  })
}

function presentIn (app: FastifyInstance) {
  return async (tenants: readonly string[]): Promise<string[]> => {
    const found = await app.db.selectFrom('tenantry.tenants').select('id').where('id', 'in', tenants).where('status', '<>', 'deleting').execute()
    return found.map(({ id }) => id)
  }
}

export default fp(metrics, { name: 'tenantry-metrics', fastify: '5.x' })
