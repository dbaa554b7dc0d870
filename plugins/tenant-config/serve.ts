/** Serves the requests that match no route of the server: those to tenants' own routes. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { whenKnown } from '../../lib/cache/async-cache.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import { failure } from '../../lib/errors.js'
import { prefixOf } from '../../lib/http/prefix.js'
import { localTarget } from '../../lib/http/request-target.js'
import { methodNotAllowed, routePathsOf } from '../../lib/http/route-paths.js'
import type { RouteReply } from '../../lib/http/route-reply.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import { RouteRequest } from '../../lib/runtime/route-request.js'
import type { RouteServices } from '../../lib/runtime/services.js'
import { requireProvider, tokenMissing } from '../auth/access.js'
import { readinessOf } from '../config-routes/routes.js'
import { type Serving, servingCalls, servingOf } from '../config-routes/serving.js'
import { keepSignedBodies } from '../config-routes/signed-body.js'
import { webhookDeduplicationOf } from '../config-routes/webhook-deduplication.js'
import { acceptForms, formOf } from '../files/multipart.js'
import type { LoadedDocuments } from './loaded-documents.js'
import { placedExpression, type TenantRoute, type TenantRoutes } from './tenant-routes.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The tenant's route that the request matches; null on every route of the server. */
    tenantRoute: TenantRoute | null
  }
}

export interface TenantServing {
  readonly loaded: LoadedDocuments
  readonly dashboardPermission: string | undefined
  readonly appUrl: string | undefined
}

/** Runs a tenant's route for a call within this process. */
export type ServeTenantCall = (route: TenantRoute, call: RouteCall, reply: RouteReply) => Promise<string>

/** Mounts one wildcard route. Every route of the server has precedence over it. */
export async function serveTenantRoutes (
  app: FastifyInstance,
  { loaded, dashboardPermission, appUrl }: TenantServing
): Promise<ServeTenantCall> {
  const readiness = await readinessOf(app.engine, app.log)
  const deduplication = webhookDeduplicationOf(app)
  const prefix = prefixOf(app)
  const paths = routePathsOf(app)
  app.decorateRequest('tenantRoute', null)

  function pathOf (request: FastifyRequest): string {
    const url = localTarget(request.url)
    const mark = url.indexOf('?')
    return url.slice(prefix.length, mark === -1 ? undefined : mark)
  }

  /** Sets the request's route and returns whether there is one. Throws if the route does not accept the caller. */
  function assignRoute (request: FastifyRequest, reply: FastifyReply, { find, methodsOf }: TenantRoutes): boolean | Promise<boolean> {
    const path = pathOf(request)
    const match = find(request.method, path)
    if (match === null) {
      // A caller without a token sees only the tenant's routes that need none, and only if it names the tenant in the header.
      const isAnonymous = request.auth === null
      if (isAnonymous && request.headers['x-tenant-id'] === undefined) return false
      const own = methodsOf(path, ({ declared }) => !isAnonymous || !asksForToken(declared))
      if (own.size > 0) throw methodNotAllowed(new Set([...own, ...paths.methodsOf(request.url)].sort()), request)
      return false
    }
    const { value: route, params } = match
    // The tenant was named in the query, which only webhooks accept.
    if (route.declared.webhook === undefined && request.auth === null && request.headers['x-tenant-id'] === undefined) return false
    if (request.auth === null && asksForToken(route.declared)) throw tokenMissing()
    requireProvider(request, route.declared.authProvider)
    request.params = params
    request.tenantRoute = route
    // The server's own limit has already counted the request. The tenant's limit counts in addition.
    const counted = route.limit === null ? undefined : app.rateLimiter.check(request, reply, route.limit)
    return counted === undefined ? true : counted.then(() => true)
  }

  // The plugins that provide the services may be registered after this one.
  let serving: Serving
  let calls: RouteServices<RouteCall, RouteReply>
  app.addHook('onReady', async () => {
    serving = servingOf(app, { dashboardPermission, appUrl, deduplication, prefix })
    calls = servingCalls(serving)
  })

  function compiledOf (route: TenantRoute): CompiledRoute {
    const compiled = route.compiled()
    if (compiled === null) throw readiness.schemaChanged()
    return compiled
  }

  await app.register(async (own) => {
    keepSignedBodies(
      own,
      ({ tenantRoute }) => tenantRoute?.declared.webhook !== undefined,
      ({ tenantRoute }) => tenantRoute?.declared.multipart === true
    )
    await acceptForms(own)
    own.setErrorHandler((error, { tenantRoute }) => {
      throw tenantRoute === null ? error : placedExpression(error, tenantRoute.placeOf)
    })
    own.route({
      method: ['GET', 'DELETE', 'POST', 'PUT', 'PATCH'],
      url: '/*',
      config: { access: 'open', openapi: false, tenantInQuery: true, fallback: true, streamsBody: 'form' },
      onRequest (request, reply, done) {
        const { tenant } = request
        if (tenant === null) return reply.callNotFound()
        const settle = (isFound: boolean) => isFound ? done() : reply.callNotFound()
        const found = whenKnown(loaded.get(tenant.id), (routes) => assignRoute(request, reply, routes))
        if (found instanceof Promise) found.then(settle).catch(done)
        else settle(found)
      },
      preHandler (request, _reply, done) {
        const isRefused = formOf(request) !== undefined && request.tenantRoute?.declared.multipart !== true
        done(isRefused ? failure('mediaTypeUnsupported') : undefined)
      },
      handler: (request, reply) =>
        readiness.whenMigrated(() => {
          const { tenantRoute } = request
          if (tenantRoute === null) throw readiness.schemaChanged()
          return new RouteRequest(compiledOf(tenantRoute), serving, request, reply, tenantRoute).serve()
        })
    })
  })

  return async (route, call, reply) => {
    try {
      return await readiness.whenMigrated(() => new RouteRequest(compiledOf(route), calls, call, reply, route).handle())
    } catch (error) {
      throw placedExpression(error, route.placeOf)
    }
  }
}

/** The route rejects callers without a token. Known before the route is compiled, and equal to the compiled value. */
export function asksForToken ({ requireAuth, requiredPermissions = [], public: isPublic = true }: TenantRoute['declared']): boolean {
  return (requireAuth ?? requiredPermissions.length > 0) || !isPublic
}
