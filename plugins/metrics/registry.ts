/** prom-client's registry with the figures of the app. */
import type { FastifyInstance } from 'fastify'
import type { Kysely } from 'kysely'
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client'
import { type CacheStore, everyTenant } from '../../lib/cache/store.js'
import { type CachedProbeOptions, createCachedProbe } from '../../lib/concurrency/cached-probe.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { optional } from '../../lib/plugin/define.js'
import { version } from '../../lib/version.js'
import { createJobList } from '../queue/list.js'
import { countRequests, createTenantSeries } from './requests.js'

const omitted = [
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

let processRegistry: Registry | undefined

/** Adds the metrics of the process to a registry. The observers of the process exist once, for any number of apps. */
function addProcessMetrics (registry: Registry): void {
  if (processRegistry === undefined) {
    processRegistry = new Registry()
    collectDefaultMetrics({ register: processRegistry })
    for (const name of omitted) processRegistry.removeSingleMetric(name)
  }
  for (const { name } of processRegistry.getMetricsAsArray()) {
    const metric = processRegistry.getSingleMetric(name)
    if (metric !== undefined) registry.registerMetric(metric)
  }
}

/** @param maxTenants the number of tenants with their own series; null without a label for tenants */
export function openRegistry (app: FastifyInstance, maxTenants: number | null, now: (() => number) | undefined): Registry {
  const registry = new Registry()
  const options: CachedProbeOptions = { now, onError: (err) => app.log.debug({ err }, 'values are missing from the metrics') }
  const present = async (ids: readonly string[]): Promise<string[]> => {
    const found = await app.db.selectFrom('tenantry.tenants').select('id').where('id', 'in', ids).where('status', '<>', 'deleting').execute()
    return found.map(({ id }) => id)
  }
  addProcessMetrics(registry)
  const tenants = maxTenants === null ? null : createTenantSeries({ registry, max: maxTenants, present, ...options })
  countRequests(app, registry, tenants)
  // Other plugins may be registered later.
  app.addHook('onReady', async () => addFigures(app, registry, options))
  return registry
}

function addFigures (app: FastifyInstance, registry: Registry, options: CachedProbeOptions): void {
  const registers = [registry]
  const [engine, cache, queue] = [optional(app, 'engine')(), optional(app, 'cache')(), optional(app, 'queue')()]

  new Gauge({ name: 'tenantry_info', help: 'The server. The value is 1.', labelNames: ['version', 'engine'], registers })
    .set({ version, engine: engine?.kind ?? 'none' }, 1)

  if (engine !== null) {
    addGauge('tenantry_database_connections', 'Connections of this process to the database.', ['state'], (gauge) => {
      const { total, idle } = engine.status()
      gauge.set({ state: 'idle' }, idle)
      gauge.set({ state: 'used' }, total - idle)
    })
    addGauge(
      'tenantry_database_pending_requests',
      'Statements and transactions of this process that wait for a connection.',
      [],
      (gauge) => {
        gauge.set(engine.status().waiting)
      }
    )
  }
  if (cache !== null) addCache(cache)
  if (queue !== null) addQueue(app.db)

  function addGauge<Label extends string> (
    name: string,
    help: string,
    labelNames: Label[],
    collect: (gauge: Gauge<Label>) => void | Promise<void>
  ): void {
    const gauge: Gauge<Label> = new Gauge({ name, help, labelNames, registers, collect: () => collect(gauge) })
  }

  function addCache (cache: CacheStore): void {
    const probe = createCachedProbe(async () => await cache.stats(everyTenant), options)
    const requests: Counter<'result'> = new Counter({
      name: 'tenantry_cache_requests_total',
      help: 'Look-ups of this process in the cache.',
      labelNames: ['result'],
      registers,
      async collect () {
        const stats = await probe()
        // The previous figure stays until there is a new one.
        if (stats === null) return
        requests.reset()
        requests.inc({ result: 'hit' }, stats.hits)
        requests.inc({ result: 'miss' }, stats.misses)
      }
    })
    addGauge('tenantry_cache_items', 'Items in the cache, of all tenants.', [], async (gauge) => set(gauge, (await probe())?.items))
    addGauge('tenantry_cache_bytes', 'Bytes that the items of the cache take.', [], async (gauge) => set(gauge, (await probe())?.bytes))
  }

  function addQueue (db: Kysely<SystemTables>): void {
    const list = createJobList(db)
    const probe = createCachedProbe(() => list.counts(), options)
    addGauge(
      'tenantry_queue_jobs',
      'Background jobs in the database, of all processes, each figure up to 100,000.',
      ['task', 'state'],
      async (gauge) => {
        const names = await probe() ?? []
        gauge.reset()
        for (const { name, states } of names) for (const [state, jobs] of Object.entries(states)) gauge.set({ task: name, state }, jobs)
      }
    )
    addGauge(
      'tenantry_queue_oldest_waiting_seconds',
      'Age of the oldest job that is due and not running, in seconds since it was sent; 0 without one.',
      [],
      async (gauge) => {
        const names = await probe()
        set(gauge, names === null ? undefined : Math.max(0, ...names.map(({ oldestWaiting }) => oldestWaiting ?? 0)))
      }
    )
  }
}

/** An unknown figure is left out. */
function set (gauge: Gauge<never>, value: number | undefined): void {
  if (value === undefined) gauge.remove()
  else gauge.set(value)
}
