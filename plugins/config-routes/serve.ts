/** Serves one request on a compiled route: validation, permissions, cache, statements, body (DESIGN, "The way of a request"). */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { Scope } from '../../lib/compiler/types.js'
import type { Engine } from '../../lib/database/engine.js'
import type { CacheStore } from '../cache/store.js'
import { holds, requirePermissions } from '../auth/access.js'
import { runRoute } from './run.js'

const contentType = 'application/json; charset=utf-8'

/** What serving needs besides the route. */
export interface Serving {
  readonly engine: Engine
  /** null where no route is cached. */
  readonly cache: CacheStore | null
  /** A permission that a tenant's own callers must hold to bypass field exclusion by naming their tenant in X-Tenant-ID. */
  readonly dashboardPermission: string | undefined
}

export async function serveRoute (route: CompiledRoute, serving: Serving, request: FastifyRequest, reply: FastifyReply): Promise<string> {
  route.request.validate(request)
  if (route.permissions.length > 0) requirePermissions(request.auth ?? null, route.permissions)
  const scope = scopeOf(request, serving.dashboardPermission)
  reply.code(route.status).header('content-type', contentType)
  if (route.cache === null || serving.cache === null) return runRoute(route, serving.engine, scope)

  const { url } = request
  const mark = url.indexOf('?')
  const target = { method: route.method, path: mark < 0 ? url : url.slice(0, mark), query: mark < 0 ? '' : url.slice(mark + 1) }
  const key = route.cache.key(scope, target)
  const tenant = scope.tenant?.id ?? ''
  const stored = await serving.cache.get(tenant, key)
  reply.header('x-cache', stored === undefined ? 'MISS' : 'HIT')
  if (stored !== undefined) return stored
  const body = await runRoute(route, serving.engine, scope)
  await serving.cache.set(tenant, key, body, route.cache.ttlMs)
  return body
}

function scopeOf (request: FastifyRequest, dashboardPermission: string | undefined): Scope {
  return {
    body: request.body,
    params: Object(request.params),
    query: Object(request.query),
    headers: request.headers,
    auth: request.auth ?? null,
    tenant: request.tenant ?? null,
    results: {},
    fullAccess: hasFullAccess(request, dashboardPermission)
  }
}

/** SPEC, "Behaviour of route configuration" 2: administrators, and a tenant's own callers that name their tenant by header. */
function hasFullAccess ({ auth, headers }: FastifyRequest, dashboardPermission: string | undefined): boolean {
  if (auth === null || auth === undefined) return false
  if (auth.role === 'admin') return true
  return auth.tenant_id !== undefined && headers['x-tenant-id'] === auth.tenant_id &&
    (dashboardPermission === undefined || holds(auth, dashboardPermission))
}
