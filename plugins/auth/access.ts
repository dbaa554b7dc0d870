/** Access: the requirements of a route, and the permissions of a caller. */
import type { IncomingHttpHeaders } from 'node:http'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { isOfLogin } from '../../lib/identity/session-claims.js'
import { isPlatformAdmin, type Owner, tenantOfToken, tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { isOfApiKey } from './callers.js'
import { tokenInvalid } from './errors.js'
import { grants, noPermissions, type PermissionSet } from './permissions.js'
import { ownProvider, providerOf } from './providers/claims.js'
import type { RoleSource } from './sources.js'

export { isPlatformAdmin } from '../../lib/identity/tenant-ref.js'

/**
 * The callers that a route accepts:
 * - `public`: all; a token or key is ignored
 * - `open`: all; a sent token or key must be valid
 * - `partial`: callers with a partial token, as bearer or as `partialToken` in the body
 * - `user`: callers with a valid token or key
 * - `tenant-admin`: the role `admin`, of the tenant or of the platform, or the route's `permission`
 * - `platform-admin`: the role `admin` in a token without a tenant, or the platform's API key; no permission replaces it
 */
export const accessLevels = ['public', 'open', 'partial', 'user', 'tenant-admin', 'platform-admin'] as const
export type Access = typeof accessLevels[number]

/** The parts of a request that access checks use: the caller, and the app with the permissions of roles. */
export interface CallerRequest {
  readonly auth: Claims | null
  /** The request's tenant, which a gateway may have named instead of the token. Absent without the plugin tenancy. */
  readonly tenant?: { readonly id: Owner } | null
  readonly server: { readonly auth: { readonly permissionsOf: RoleSource['permissionsOf'] } }
}

/** 401: no token was sent (RFC 6750: then without an error code). */
export function tokenMissing (message?: string): TenantryError {
  return failure('tokenMissing', { ...message !== undefined && { message }, headers: { 'www-authenticate': 'Bearer' } })
}

/** The claims of the caller; throws `tokenMissing` without credentials. */
export function callerOf ({ auth }: { readonly auth: Claims | null }): Claims {
  if (!isKnown(auth)) throw tokenMissing()
  return auth
}

/**
 * The caller's own tenant. A gateway may name it for tokens from elsewhere. The platform's administrators and those who logged in at the
 * platform stay its users, whichever tenant they act on.
 */
export function tenantOfCaller ({ auth, tenant }: Pick<CallerRequest, 'auth' | 'tenant'>): Owner {
  const caller = callerOf({ auth })
  const isOwn = caller.tenant_id !== undefined || isPlatformAdmin(caller) || (providerOf(caller) === ownProvider && isOfLogin(caller))
  return isOwn ? tenantOfToken(caller) : tenantOrPlatform(tenant)
}

/** Throws `tokenInvalid` for a token of another provider; API keys pass. */
export function requireProvider ({ auth }: { readonly auth: Claims | null }, provider = ownProvider): void {
  if (auth !== null && providerOf(auth) !== provider && !isOfApiKey(auth)) throw tokenInvalid()
}

/** An `onRequest` hook of endpoints for users only. The message says why API keys are refused, such as "An API key has no password". */
export function refuseApiKeys (lack: string): ({ headers }: { readonly headers: IncomingHttpHeaders }) => Promise<void> {
  return async ({ headers }) => {
    if (headers['x-api-key'] !== undefined) throw failure('forbidden', { message: `${lack}: send the token of a user` })
  }
}

/** 403: the caller is known but not allowed. `needs` says who is, such as `the role "admin"`. */
export function insufficientPermissions (needs: string): TenantryError {
  return failure('forbidden', { extras: { details: [{ path: '', message: `needs ${needs}`, keyword: 'role' }] } })
}

/** 403 of endpoints for administrators of the platform. */
export function platformOnly (): TenantryError {
  return insufficientPermissions('an administrator of the platform: the role "admin" in a token without `tenant_id`')
}

/**
 * Throws, or rejects, unless the identified caller satisfies the access level: 401 without a caller, 403 without the role. With the role's
 * permissions in memory, it returns synchronously.
 *
 * @param permission the alternative to the role `admin` on a `tenant-admin` route; without it only administrators pass
 */
export function requireCaller (request: CallerRequest, access: Access, permission?: string): void | Promise<void> {
  switch (access) {
    case 'public':
    case 'open':
      return
    // Every caller with an identity.
    case 'partial':
    case 'user':
      callerOf(request)
      return
    case 'tenant-admin':
      if (callerOf(request).role === 'admin') return
      if (permission === undefined) throw insufficientPermissions('the role "admin"')
      return requirePermissions(request, [permission])
    case 'platform-admin':
      if (!isPlatformAdmin(callerOf(request))) throw platformOnly()
      return
    default:
      return access satisfies never
  }
}

/**
 * Throws, or rejects, unless the caller holds every permission: 401 without credentials, 403 otherwise. With the role's permissions in
 * memory, it returns synchronously.
 */
export function requirePermissions (request: CallerRequest, permissions: readonly string[]): void | Promise<void> {
  if (permissions.length === 0) return
  const caller = callerOf(request)
  const own = caller.permissions
  // Permissions in the token itself need no look-up of roles.
  if (own !== undefined && holdsAll(own, permissions)) return
  return whenKnown(holdings(request), (held) => requireAll(held, permissions, caller))
}

/** Whether the caller holds the permission: by name, by `resource:*` or by `*`. Synchronous if its role's permissions are in memory. */
export function hasPermission (request: CallerRequest, permission: string): boolean | Promise<boolean> {
  return whenKnown(holdings(request), (held) => grants(held, permission))
}

/** Whether the caller holds every permission. Synchronous if its role's permissions are in memory. */
export function hasPermissions (request: CallerRequest, permissions: readonly string[]): boolean | Promise<boolean> {
  if (permissions.length === 0) return true
  return whenKnown(holdings(request), (held) => permissions.every((permission) => grants(held, permission)))
}

/**
 * All permissions of the caller: everything for the role `admin`, within its tenant; else its own `permissions` and those of its role. None
 * without credentials.
 */
export function holdings (request: CallerRequest): PermissionSet | Promise<PermissionSet> {
  const { auth, tenant } = request
  if (!isKnown(auth)) return noPermissions
  if (auth.role === 'admin') return everything
  const given = request.server.auth.permissionsOf(auth, tenant?.id)
  const { permissions } = auth
  if (permissions === undefined || permissions.length === 0) return given
  return whenKnown(given, (set) => withOwn(permissions, set))
}

const everything: PermissionSet = { has: () => true, values: () => ['*'] }

function withOwn (permissions: readonly string[], given: PermissionSet): PermissionSet {
  return {
    has: (permission) => permissions.includes(permission) || given.has(permission),
    values: () => [...permissions, ...given.values()]
  }
}

function requireAll (held: PermissionSet, permissions: readonly string[], caller: Claims): void {
  const missing = permissions.filter((permission) => !grants(held, permission))
  if (missing.length === 0) return
  // A caller without a tenant must not see a tenant's permissions.
  if (caller.tenant_id === undefined) throw failure('forbidden')
  throw failure('forbidden', {
    extras: { details: missing.map((permission) => ({ path: '', message: `needs the permission "${permission}"`, keyword: 'permission' })) }
  })
}

function holdsAll (own: readonly string[], permissions: readonly string[]): boolean {
  const held: PermissionSet = { has: (permission) => own.includes(permission), values: () => own }
  return permissions.every((permission) => grants(held, permission))
}

/** Undefined, not null, without the plugin auth. */
function isKnown (auth: Claims | null | undefined): auth is Claims {
  return auth !== null && auth !== undefined
}
