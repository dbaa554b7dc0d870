/** The callers with full access, who can read and write the fields of `excludeFields`. */
import type { RouteCall } from './route-call.js'
import type { Access } from './services.js'

/**
 * Whether the caller is an administrator, or one of a tenant's own callers that names its tenant by header. The latter must also hold the
 * permission, if it is set (`tenancy.dashboardPermission`).
 */
export function hasFullAccess (
  request: RouteCall,
  dashboardPermission: string | undefined,
  access: Pick<Access, 'hasPermission'>
): boolean | Promise<boolean> {
  const { auth, headers } = request
  // Undefined without the plugin auth.
  if (auth === null || auth === undefined) return false
  if (auth.role === 'admin') return true
  if (auth.tenant_id === undefined || headers['x-tenant-id'] !== auth.tenant_id) return false
  return dashboardPermission === undefined || access.hasPermission(request, dashboardPermission)
}
