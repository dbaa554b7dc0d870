/** Who may call: what a route asks of its caller, and which permissions a caller holds (DESIGN 5). */
import type { FastifyRequest } from 'fastify'
import type { Claims } from '../../lib/compiler/types.js'
import { failure, type TenantryError } from '../../lib/errors.js'

/**
 * What a route asks of its caller:
 * - `public`: nothing; a token is not looked at
 * - `open`: nothing; a token that is sent must be valid
 * - `user`: a valid token
 * - `tenant-admin`: the role `admin`, of the tenant or of the platform, or the route's `permission`
 * - `platform-admin`: the role `admin` in a token of no tenant
 */
export const accessLevels = ['public', 'open', 'user', 'tenant-admin', 'platform-admin'] as const
export type Access = typeof accessLevels[number]

/** 401: no token was sent (RFC 6750: no error code where none was). */
export function tokenMissing (): TenantryError {
  return failure('tokenMissing', { headers: { 'www-authenticate': 'Bearer' } })
}

/** 403: the caller is known and may not. */
export function insufficientPermissions (): TenantryError {
  return failure('forbidden')
}

/**
 * Throws unless the caller, already identified, satisfies the access level: 401 where there is none, 403 where it lacks the role.
 *
 * @param permission what a caller without the role `admin` must hold on a `tenant-admin` route; without it only administrators pass
 */
export function requireCaller (request: Pick<FastifyRequest, 'auth'>, access: Access, permission?: string): void {
  switch (access) {
    case 'public':
    case 'open':
      return
    case 'user':
      if (request.auth === null) throw tokenMissing()
      return
    case 'tenant-admin':
      if (request.auth === null) throw tokenMissing()
      if (request.auth.role === 'admin') return
      if (permission === undefined || !holds(request.auth, permission)) throw insufficientPermissions()
      return
    case 'platform-admin':
      if (request.auth === null) throw tokenMissing()
      if (!isPlatformAdmin(request.auth)) throw insufficientPermissions()
      return
    default:
      return access satisfies never
  }
}

/** Throws unless the caller holds every one of the permissions: 401 for a caller without a token, 403 for another. */
export function requirePermissions (auth: Claims | null, permissions: readonly string[]): void {
  if (permissions.length === 0) return
  if (auth === null) throw tokenMissing()
  for (const permission of permissions) {
    if (!holds(auth, permission)) throw insufficientPermissions()
  }
}

/**
 * The caller holds the permission: by name, by `resource:*` or by `*`. The role `admin` holds every one; what it may
 * reach ends at its tenant all the same.
 */
export function holds (auth: Claims, permission: string): boolean {
  if (auth.role === 'admin') return true
  const { permissions } = auth
  if (permissions === undefined) return false
  if (permissions.includes(permission) || permissions.includes('*')) return true
  const colon = permission.indexOf(':')
  return colon > 0 && permissions.includes(`${permission.slice(0, colon)}:*`)
}

/** The role `admin` in a token that names no tenant. */
export function isPlatformAdmin (auth: Claims): boolean {
  return auth.role === 'admin' && auth.tenant_id === undefined
}
