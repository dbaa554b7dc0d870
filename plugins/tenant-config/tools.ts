/** The tools among a tenant's routes. */
import { methodOf } from '../../lib/compiler/route-parts.js'
import { toolOf } from '../../lib/document/rules/tools.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { ownProvider } from '../auth/providers/claims.js'
import type { TenantTools, ToolRoute } from '../tools/index.js'
import { asksForToken, type ServeTenantCall } from './serve.js'
import type { TenantRoute, TenantRoutes } from './tenant-routes.js'

const known = new WeakMap<TenantRoutes, TenantTools>()

/**
 * The tools of a loaded document, created at the first use. null without tools.
 * @param prefix the prefix of the paths of tenants' routes
 * @param serve undefined if the server has no routes of tenants
 */
export function toolsOf (tenant: Owner, loaded: TenantRoutes, prefix: string, serve: ServeTenantCall | undefined): TenantTools | null {
  const [first] = loaded.routes
  if (first === undefined) return null
  const tools = known.get(loaded) ??
    { key: `${tenant} ${first.generation}`, routes: loaded.routes.flatMap((route) => toolRouteOf(route, prefix, serve) ?? []) }
  known.set(loaded, tools)
  return tools.routes.length === 0 ? null : tools
}

function toolRouteOf (route: TenantRoute, prefix: string, serve: ServeTenantCall | undefined): ToolRoute | undefined {
  const { authProvider = ownProvider, requiredPermissions: permissions = [] } = route.declared
  const declared = toolOf(route.declared)
  if (declared === undefined) return undefined
  return {
    declared,
    method: methodOf(route.declared),
    path: prefix + route.declared.path,
    access: asksForToken(route.declared) ? 'user' : 'open',
    authProvider,
    permissions,
    documentation: () => route.documentation(),
    serve: serve === undefined || route.declared.multipart === true ? undefined : (call, reply) => serve(route, call, reply),
    limit: () => route.limit
  }
}
