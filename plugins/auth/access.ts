/** Access: the requirements of a route, and the permissions of a caller. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Claims } from '../../lib/expressions/types.js'
import type { IncomingHttpHeaders } from 'node:http'
import type { RoleSource } from './sources.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import { whenKnown } from '../../lib/concurrency/when-known.js'
import { tokenInvalid } from './errors.js'
import { covers, noPermissions, type PermissionSet } from './permissions.js'
import { ownProvider, providerOf } from './providers/claims.js'

/**
 * What a route asks of its caller:
 * - `public`: nothing; a token or key is not looked at
 * - `open`: nothing; a token or key that is sent must be valid
 * - `partial`: a partial token, as bearer or as `partialToken` in the body, and nothing else
 * - `user`: a valid token or key
 * - `tenant-admin`: the role `admin`, of the tenant or of the platform, or the route's `permission`
 * - `platform-admin`: the role `admin` in a token of no tenant, or the platform's API key; no permission replaces it
 */
export const accessLevels = ['public', 'open', 'partial', 'user', 'tenant-admin', 'platform-admin'] as const
export type Access = typeof accessLevels[number]

/** What is looked at of a request: who calls, and the app that knows what its role gives. */
export interface CallerRequest {
  readonly auth: Claims | null
  /** That of the request, which a gateway may have named and not the token. Without the plugin tenancy there is none. */
  readonly tenant?: { readonly id: Owner } | null
  readonly server: { readonly auth: { readonly permissionsOf: RoleSource['permissionsOf'] } }
}

/** 401: no token was sent (RFC 6750: no error code where none was). */
export function tokenMissing (message?: string): TenantryError {
  return failure('tokenMissing', { ...message !== undefined && { message }, headers: { 'www-authenticate': 'Bearer' } })
}

/** The claims of the caller; throws `tokenMissing` for a stranger. */
export function callerOf ({ auth }: { readonly auth: Claims | null }): Claims {
  if (!isKnown(auth)) throw tokenMissing()
  return auth
}

/** Throws `tokenInvalid` for the owner of a token that is not of this provider; owners of API keys pass. */
export function requireProvider (
  { auth, headers }: { readonly auth: Claims | null, readonly headers: IncomingHttpHeaders },
  provider = ownProvider
): void {
  if (auth !== null && providerOf(auth) !== provider && headers['x-api-key'] === undefined) throw tokenInvalid()
}

/** An `onRequest` hook of endpoints for users alone. The message says what an API key lacks, such as "An API key has no password". */
export function refuseApiKeys (lack: string): ({ headers }: { readonly headers: IncomingHttpHeaders }) => Promise<void> {
  return async ({ headers }) => {
    if (headers['x-api-key'] !== undefined) throw failure('forbidden', { message: `${lack}: send the token of a user` })
  }
}

/** 403: the caller is known and may not. */
export function insufficientPermissions (): TenantryError {
  return failure('forbidden')
}

/**
 * Throws, or rejects, unless the caller, already identified, satisfies the access level: 401 where there is none, 403
 * where it lacks the role. Waits for nothing where what the role gives is known.
 *
 * @param permission what a caller without the role `admin` must hold on a `tenant-admin` route; without it only administrators pass
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
      if (permission === undefined) throw insufficientPermissions()
      return requirePermissions(request, [permission])
    case 'platform-admin':
      if (!isPlatformAdmin(callerOf(request))) throw insufficientPermissions()
      return
    default:
      return access satisfies never
  }
}

/**
 * Throws, or rejects, unless the caller holds every one of the permissions: 401 for a stranger, 403 for a caller that
 * does not. Waits for nothing where what the role gives is known.
 */
export function requirePermissions (request: CallerRequest, permissions: readonly string[]): void | Promise<void> {
  if (permissions.length === 0) return
  const caller = callerOf(request)
  const own = caller.permissions
  // What the token itself gives need not be looked for among roles.
  if (own !== undefined && coversAll(ownSet(own), permissions)) return
  const held = holdings(request)
  return whenKnown(held, (set) => requireAll(set, permissions, caller))
}

/** The caller holds the permission: by name, by `resource:*` or by `*`. At once where what its role gives is known. */
export function holds (request: CallerRequest, permission: string): boolean | Promise<boolean> {
  const held = holdings(request)
  return whenKnown(held, (set) => covers(set, permission))
}

/**
 * All that the caller holds: everything for the role `admin`, what it may reach ends at its tenant all the same; else
 * its own `permissions` and what its role gives. Nothing for a stranger.
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

/** The role `admin` in a token that names no tenant, or the platform's API key. */
export function isPlatformAdmin (auth: Claims): boolean {
  return auth.role === 'admin' && auth.tenant_id === undefined
}

const everything: PermissionSet = { has: () => true, values: () => ['*'] }

function ownSet (permissions: readonly string[]): PermissionSet {
  return { has: (permission) => permissions.includes(permission), values: () => permissions }
}

function withOwn (permissions: readonly string[], given: PermissionSet): PermissionSet {
  return {
    has: (permission) => permissions.includes(permission) || given.has(permission),
    values: () => [...permissions, ...given.values()]
  }
}

function requireAll (held: PermissionSet, permissions: readonly string[], caller: Claims): void {
  const missing = permissions.filter((permission) => !covers(held, permission))
  if (missing.length === 0) return
  // Callers of no tenant learn nothing of the permissions of one.
  if (caller.tenant_id === undefined) throw insufficientPermissions()
  throw failure('forbidden', {
    extras: { details: missing.map((permission) => ({ path: '', message: `needs the permission "${permission}"`, keyword: 'permission' })) }
  })
}

function coversAll (held: PermissionSet, permissions: readonly string[]): boolean {
  for (const permission of permissions) {
    if (!covers(held, permission)) return false
  }
  return true
}

/** Without the plugin auth there is no caller, rather than null. */
function isKnown (auth: Claims | null | undefined): auth is Claims {
  return auth !== null && auth !== undefined
}
