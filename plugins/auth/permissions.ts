/** Permissions: `resource:action`, `resource:*` for every action of a resource, and `*` for all. */
import { Type } from 'typebox'
import { failure } from '../../lib/errors.js'

/** A valid permission in a tenant's roles and keys. */
export const Permission = Type.String({
  maxLength: 128,
  pattern: '^(?:\\*|[A-Za-z0-9_.-]+:(?:\\*|[A-Za-z0-9_.:-]+))$',
  expected: '`resource:action`, `resource:*` or `*`',
  description: 'A permission: `resource:action`, `resource:*` or `*`.'
})

/** The permissions of a caller. A Set of texts fits this interface. */
export interface PermissionSet {
  has(permission: string): boolean
  /** All permissions, possibly with repetitions. */
  values(): Iterable<string>
}

export const noPermissions: PermissionSet = new Set<string>()

/** Whether the set contains the permission: by its name, by `resource:*` or by `*`. */
export function grants (held: PermissionSet, permission: string): boolean {
  if (held.has(permission) || held.has('*')) return true
  const colon = permission.indexOf(':')
  return colon > 0 && held.has(`${permission.slice(0, colon)}:*`)
}

export function unionOf (sets: readonly PermissionSet[]): PermissionSet {
  return {
    has (permission) {
      for (const set of sets) {
        if (set.has(permission)) return true
      }
      return false
    },
    * values () {
      for (const set of sets) yield * set.values()
    }
  }
}

/** Throws `grantExceeds` with the missing permission, unless all are held. Administrators hold everything. */
export function requireGrant (held: PermissionSet, permissions: Iterable<string>): void {
  for (const permission of permissions) {
    if (grants(held, permission)) continue
    throw failure('grantExceeds', {
      message: `You do not have the permission "${permission}", so you cannot grant it`,
      extras: { permission }
    })
  }
}
