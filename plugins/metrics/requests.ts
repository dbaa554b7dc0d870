/**
 * Counts requests and their durations: by method, route and status, and optionally by tenant. A request is counted once, when its response
 * has been sent or its connection has ended. Callers cannot create series: paths are the patterns of their routes.
 */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type {} from '../tenancy/index.js'
import type { TenantRoute } from '../tenant-config/tenant-routes.js'
import type {} from '../tenant-config/serve.js'
import type { TenantSeries } from './tenants.js'
import { Histogram, type Registry } from 'prom-client'
import { endStatusOf, whenEnded } from '../../lib/plugin/request-end.js'

const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] // s

/** Unknown paths. */
const unknownRoute = '(unknown)'
const tenantRoutes = '(tenant)'
const otherMethod = '_OTHER'
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'])

/**
 * Counts the requests of every route of the app.
 *
 * @param tenants null without a label for tenants
 */
export function countRequests (app: FastifyInstance, registry: Registry, tenants: TenantSeries | null): void {
  const durations = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Requests by route and status, and the time until their response was sent.',
    labelNames: ['method', 'route', 'status_code'],
    buckets,
    registers: [registry]
  })
  const catchAll = `${app.prefix}/*`

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
    const method = methods.has(request.method) ? request.method : otherMethod
    durations.observe({ method, route: routeOf(request), status_code: endStatusOf(request, reply) }, seconds)
    // Absent without the plugin tenancy.
    const tenant: Owner | undefined = request.tenant?.id
    if (tenant !== undefined) tenants?.observe(tenant, seconds)
  })
}
