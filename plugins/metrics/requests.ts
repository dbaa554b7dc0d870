/**
 * Counts requests and their durations: by method, route and status, and optionally by tenant. A request is counted once, when its response
 * has been sent or its connection has ended. Callers cannot create series: paths are the patterns of their routes.
 */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Registry } from 'prom-client'
import type {} from '../tenancy/index.js'
import type { TenantRoute } from '../tenant-config/tenant-routes.js'
import type {} from '../tenant-config/serve.js'
import type { TenantSeries } from './tenants.js'
import { endStatusOf, whenEnded } from '../../lib/plugin/request-end.js'
import { Durations, type Series } from './durations.js'

const bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] // s

/** Unknown paths. */
const unknownRoute = '(unknown)'
/** All routes of tenants. */
const tenantRoutes = '(tenant)'
const otherMethod = '_OTHER'
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'])

/**
 * Counts the requests of every route of the app.
 *
 * @param tenants null without a label for tenants
 */
export function countRequests (app: FastifyInstance, registry: Registry, tenants: TenantSeries | null): void {
  const durations = new Durations({
    name: 'http_request_duration_seconds',
    help: 'Requests by route and status, and how long they took until their answer was sent.',
    labels: ['method', 'route', 'status_code'],
    bounds,
    registry
  })
  const routes = new WeakMap<object, RouteSeries>()
  const unknown = new RouteSeries(durations, unknownRoute)
  const ofTenants = new RouteSeries(durations, tenantRoutes)
  const catchAll = `${app.prefix}/*`

  function routeOf (request: FastifyRequest): RouteSeries {
    // Absent without the plugin tenant-config.
    const tenantRoute: TenantRoute | null | undefined = request.tenantRoute
    if (tenantRoute !== null && tenantRoute !== undefined) return ofTenants
    const { url, config } = request.routeOptions
    // Unknown paths also reach that plugin's fallback route.
    if (url === undefined || (tenantRoute === null && url === catchAll)) return unknown
    let series = routes.get(config)
    if (series === undefined) routes.set(config, series = new RouteSeries(durations, url))
    return series
  }

  whenEnded(app, (request, reply, ms) => {
    const seconds = ms / 1000
    routeOf(request).of(request.method, endStatusOf(request, reply)).observe(seconds)
    // Absent without the plugin tenancy.
    const tenant: Owner | undefined = request.tenant?.id
    if (tenants !== null && tenant !== undefined) tenants.of(tenant).observe(seconds)
  })
}

/** The series of one route, created when they are first needed. */
class RouteSeries {
  readonly #durations: Durations<'method' | 'route' | 'status_code'>
  readonly #route: string
  /** By method and status. */
  readonly #series = new Map<string, Series[]>()

  constructor (durations: Durations<'method' | 'route' | 'status_code'>, route: string) {
    this.#durations = durations
    this.#route = route
  }

  of (method: string, status: number): Series {
    return this.#series.get(method)?.[status] ?? this.#made(method, status)
  }

  #made (sent: string, status: number): Series {
    const method = methods.has(sent) ? sent : otherMethod
    const series = this.#durations.series(method, this.#route, String(status))
    // Node accepts only a few dozen methods.
    const ofMethod = this.#series.get(sent) ?? []
    ofMethod[status] = series
    this.#series.set(sent, ofMethod)
    return series
  }
}
