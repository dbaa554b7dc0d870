/**
 * Counts requests and their durations: by method, route and status, and optionally by tenant. A request is counted once, when its response
 * has been sent or its connection has ended. Callers cannot create series: paths are the patterns of their routes.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Histogram, type Registry } from 'prom-client'
import { type CachedProbeOptions, createCachedProbe } from '../../lib/concurrency/cached-probe.js'
import { prefixOf } from '../../lib/http/prefix.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { endStatusOf, whenEnded } from '../../lib/plugin/request-end.js'
import type { TenantRoute } from '../tenant-config/tenant-routes.js'

const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] // s

/** Unknown paths. */
const unknownRoute = '(unknown)'
const tenantRoutes = '(tenant)'
/** The first stands for other methods. */
const methods = ['_OTHER', 'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT']
const statuses = 1000 // more than any status

const name = 'http_request_duration_seconds'
const help = 'Requests by route and status, and the time until their response was sent.'

interface Series {
  readonly sharedLabels: object
  /** Of each bucket, and of longer durations. */
  readonly counts: number[]
  sum: number
}

/** `add` counts, not `observe`: prom-client would look up the series by a text of its labels. Measured: 5 % of a short request. */
class Durations extends Histogram {
  /** Of each route, by method and status. */
  readonly #routes = new Map<string, Series[]>()

  add (method: string, route: string, status: number, seconds: number): void {
    const index = Math.max(0, methods.indexOf(method))
    let ofRoute = this.#routes.get(route)
    if (ofRoute === undefined) this.#routes.set(route, ofRoute = [])
    const series = ofRoute[index * statuses + status] ??= {
      sharedLabels: { method: methods[index], route, status_code: status },
      counts: Array.from({ length: buckets.length + 1 }, () => 0),
      sum: 0
    }
    const bucket = buckets.findIndex((bound) => seconds <= bound)
    series.counts[bucket < 0 ? buckets.length : bucket]! += 1
    series.sum += seconds
  }

  /** The constructor of prom-client calls it too. */
  override reset (): void {
    if (#routes in this) this.#routes.clear()
  }

  /** prom-client calls it for a report. */
  async getForPromString () {
    const series = [...this.#routes.values()].flatMap((ofRoute) => Object.values(ofRoute))
    return { name, help, type: 'histogram', aggregator: 'sum', values: series.flatMap(samplesOf) }
  }
}

/** The lines of a report. The count of a bucket includes all lower ones. */
function samplesOf ({ sharedLabels, counts, sum }: Series) {
  let count = 0
  const sample = (suffix: string, value: number, labels: object = {}) => ({ metricName: `${name}_${suffix}`, labels, sharedLabels, value })
  const lines = counts.map((inBucket, index) => {
    count += inBucket
    return sample('bucket', count, { le: buckets[index] ?? '+Inf' })
  })
  return [...lines, sample('sum', sum), sample('count', count)]
}

/** Counts the requests of every route of the app. `observeTenant`: null without a label for tenants. */
export function countRequests (app: FastifyInstance, registry: Registry, observeTenant: ObserveTenant | null): void {
  const durations = new Durations({ name, help, labelNames: ['method', 'route', 'status_code'], buckets, registers: [registry] })
  const catchAll = `${prefixOf(app)}/*`

  function routeOf (request: FastifyRequest): string {
    // Absent without the plugin tenant-config.
    const tenantRoute: TenantRoute | null | undefined = request.tenantRoute
    if (tenantRoute !== null && tenantRoute !== undefined) return tenantRoutes
    const { url } = request.routeOptions
    // Unknown paths also reach that plugin's fallback route.
    return url === undefined || (tenantRoute === null && url === catchAll) ? unknownRoute : url
  }

  whenEnded(app, (request, reply, ms) => {
    const seconds = ms / 1000
    durations.add(request.method, routeOf(request), endStatusOf(request, reply), seconds)
    // Absent without the plugin tenancy.
    const tenant: Owner | undefined = request.tenant?.id
    if (tenant !== undefined) observeTenant?.(tenant, seconds)
  })
}

const tenantBuckets = [0.1, 0.5, 1, 5] // s; few, since each is a series of every tenant

/** Tenants beyond the bound. No tenant has this id. */
const others = '(other)'

/** Counts a request of a tenant. */
type ObserveTenant = (tenant: Owner, seconds: number) => void

export interface TenantSeriesOptions extends CachedProbeOptions {
  readonly registry: Registry
  /** The highest number of tenants. */
  readonly max: number
  /** Which of these tenants exist. */
  readonly present: (tenants: readonly string[]) => Promise<readonly string[]>
}

/** Requests by tenant: the first tenants have their own series, the others share one until one of those is deleted. */
export function createTenantSeries ({ registry, max, present, ...options }: TenantSeriesOptions): ObserveTenant {
  const known = new Set<Owner>()
  // Runs before the series are reported, since the notices of some deletions may be lost.
  const probe = createCachedProbe(async () => {
    if (known.size === 0) return
    const there = new Set<string>(await present([...known]))
    for (const tenant of known) if (!there.has(tenant)) drop(tenant)
  }, options)

  const durations = new Histogram({
    name: 'tenantry_tenant_request_duration_seconds',
    help: 'Requests by tenant, and the time until their response was sent.',
    labelNames: ['tenant'],
    buckets: tenantBuckets,
    registers: [registry],
    collect: async () => {
      await probe()
    }
  })

  function drop (tenant: Owner): void {
    known.delete(tenant)
    durations.remove({ tenant })
  }

  return (tenant, seconds) => {
    if (known.size < max) known.add(tenant)
    durations.observe({ tenant: known.has(tenant) ? tenant : others }, seconds)
  }
}
