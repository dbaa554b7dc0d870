/** The roles of a tenant and their permissions. */
import { failure } from '../../lib/errors.js'
import { noPermissions, type PermissionSet, unionOf } from '../auth/permissions.js'

export const maxRoles = 200 // of a tenant
export const maxPermissions = 200 // of a role, without those of its parents
export const maxPermissionsInAll = 5000 // of a tenant: every server with requests of its users holds them in memory

const maxParents = 16 // in a chain above a role

/** Plain data; a changed role is a new object. */
export interface Role {
  readonly name: string
  readonly description: string | null
  readonly permissions: readonly string[]
  /** The parent, whose permissions it inherits. */
  readonly parentRole: string | null
}

export interface RbacConfig {
  /** false: roles give no permissions. */
  readonly enabled: boolean
  /** The role of users without one, or with an unknown one. */
  readonly defaultRole: string | null
  /** By name. */
  readonly roles: ReadonlyMap<string, Role>
}

/** For a tenant that has saved none. */
export const noRbac: RbacConfig = Object.freeze({ enabled: false, defaultRole: null, roles: new Map<string, Role>() })

/** Throws `roleInvalid` with the reason for a configuration that cannot be saved. */
export function checkRbac ({ roles, defaultRole }: RbacConfig): void {
  if (roles.size > maxRoles) throw invalid(`A tenant has at most ${maxRoles} roles`)
  let permissions = 0
  for (const role of roles.values()) {
    if (role.name === 'admin') throw invalid('"admin" is the role of administrators: a role of a tenant cannot have this name')
    if (role.parentRole !== null && !roles.has(role.parentRole)) {
      throw invalid(`The role "${role.name}" inherits from "${role.parentRole}", which is not a role of the tenant`)
    }
    permissions += role.permissions.length
  }
  if (permissions > maxPermissionsInAll) {
    throw invalid(
      `The roles of a tenant have at most ${maxPermissionsInAll} permissions in total: do not repeat those of a parent, or use "resource:*"`
    )
  }
  refuseParents(roles)
  if (defaultRole !== null && !roles.has(defaultRole)) throw invalid(`The default role "${defaultRole}" is not a role of the tenant`)
}

/** Throws if a role inherits from itself, or has a longer chain of parents than each change of roles may follow. */
function refuseParents (roles: RbacConfig['roles']): void {
  for (const start of roles.keys()) {
    const way = new Set<string>()
    for (const { name, parentRole } of withParents(roles, start)) {
      if (way.has(name)) throw invalid(`The role "${name}" inherits from itself through "${parentRole}"`)
      if (way.size > maxParents) throw invalid(`The role "${start}" has more than ${maxParents} ancestors`)
      way.add(name)
    }
  }
}

/** The role and its parents, the nearest first; nothing for an unknown role. Infinite for a cycle. */
export function * withParents (roles: RbacConfig['roles'], name: string | null): Generator<Role> {
  for (let role = roles.get(name ?? ''); role !== undefined; role = roles.get(role.parentRole ?? '')) yield role
}

/** The permissions of the role that a token names, including its parents', if the roles are enabled. */
export type RolePermissions = (role: string | undefined) => PermissionSet

/** Resolved once. Memory grows with the declared permissions, not with the inherited ones. */
export function resolveRoles ({ defaultRole, roles }: RbacConfig): RolePermissions {
  const resolved = new Map<string, PermissionSet>()
  for (const start of roles.keys()) {
    const missing: Role[] = []
    let set: PermissionSet | undefined
    for (const role of withParents(roles, start)) {
      set = resolved.get(role.name)
      if (set !== undefined) break
      missing.push(role)
    }
    for (const { name, permissions } of missing.reverse()) {
      const own = new Set(permissions)
      set = set === undefined ? own : unionOf([own, set])
      resolved.set(name, set)
    }
  }
  const others = resolved.get(defaultRole ?? '') ?? noPermissions
  return (role) => role === undefined ? others : resolved.get(role) ?? others
}

function invalid (message: string): Error {
  return failure('roleInvalid', { message })
}

/** The approximate size of a tenant's roles in memory, in bytes. */
export function weightOf ({ roles }: RbacConfig): number {
  let weight = 500
  for (const { name, permissions } of roles.values()) {
    weight += 300 + name.length
    for (const permission of permissions) weight += 64 + permission.length
  }
  return weight
}
