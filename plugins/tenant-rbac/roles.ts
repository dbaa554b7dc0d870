/** The roles of a tenant and their permissions. */
import { failure } from '../../lib/errors.js'
import { noPermissions, type PermissionSet } from '../auth/permissions.js'

export const maxRoles = 200 // of one tenant
export const maxPermissions = 200 // of one role, those of its parents not counted
export const maxPermissionsInAll = 5000 // of one tenant: every server that meets its users holds them in memory

export const maxParents = 16 // above a role, one on top of the other

/** Plain data; one that was changed is another object. */
export interface Role {
  readonly name: string
  readonly description: string | null
  readonly permissions: readonly string[]
  /** Whose permissions it has too. */
  readonly parentRole: string | null
}

export interface RbacConfig {
  /** Where it is false, roles give nothing. */
  readonly enabled: boolean
  /** The role of users who have none, or one that is not among the roles. */
  readonly defaultRole: string | null
  /** By name. */
  readonly roles: ReadonlyMap<string, Role>
}

/** That of a tenant which has saved none. */
export const noRbac: RbacConfig = Object.freeze({ enabled: false, defaultRole: null, roles: new Map<string, Role>() })

/** Throws `roleInvalid`, which says what is wrong, for a configuration that cannot be saved. */
export function checkRbac ({ roles, defaultRole }: RbacConfig): void {
  if (roles.size > maxRoles) throw invalid(`A tenant has at most ${maxRoles} roles`)
  let permissions = 0
  for (const role of roles.values()) {
    if (role.name === 'admin') throw invalid('"admin" is the role of administrators: no role of a tenant has this name')
    if (role.parentRole !== null && !roles.has(role.parentRole)) {
      throw invalid(`The role "${role.name}" inherits from "${role.parentRole}", which is not a role of the tenant`)
    }
    permissions += role.permissions.length
  }
  if (permissions > maxPermissionsInAll) {
    throw invalid(
      `The roles of a tenant have at most ${maxPermissionsInAll} permissions in all: name those of a parent once, or use "resource:*"`
    )
  }
  refuseParents(roles)
  if (defaultRole !== null && !roles.has(defaultRole)) throw invalid(`The default role "${defaultRole}" is not a role of the tenant`)
}

/** Throws where a role inherits from itself, or from more parents than are looked at for each change of roles. */
function refuseParents (roles: RbacConfig['roles']): void {
  for (const start of roles.keys()) {
    const way = new Set<string>()
    for (const { name, parentRole } of withParents(roles, start)) {
      if (way.has(name)) throw invalid(`The role "${name}" inherits from itself, by way of "${parentRole}"`)
      if (way.size > maxParents) throw invalid(`The role "${start}" has more than ${maxParents} parents above it`)
      way.add(name)
    }
  }
}

/** The role and those that it inherits from, the nearest first; nothing for an unknown one. Without end where they have a cycle. */
export function * withParents (roles: RbacConfig['roles'], name: string | null): Generator<Role> {
  for (let role = roles.get(name ?? ''); role !== undefined; role = roles.get(role.parentRole ?? '')) yield role
}

/** What a role holds, its parents' permissions included, by the role that a token names. */
export type RolePermissions = (role: string | undefined) => PermissionSet

/** Resolved once; takes memory for what the roles declare, not for what they inherit. */
export function resolveRoles ({ enabled, defaultRole, roles }: RbacConfig): RolePermissions {
  if (!enabled) return givesNothing
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
      set = inheriting(new Set(permissions), set)
      resolved.set(name, set)
    }
  }
  const others = resolved.get(defaultRole ?? '') ?? noPermissions
  return (role) => role === undefined ? others : resolved.get(role) ?? others
}

const givesNothing: RolePermissions = () => noPermissions

function inheriting (own: ReadonlySet<string>, parent: PermissionSet | undefined): PermissionSet {
  return parent === undefined
    ? own
    : { has: (permission) => own.has(permission) || parent.has(permission), values: () => [...own, ...parent.values()] }
}

function invalid (message: string): Error {
  return failure('roleInvalid', { message })
}

/** What a tenant's roles take in memory, in bytes, about. */
export function weightOf ({ roles }: RbacConfig): number {
  let weight = 500
  for (const { name, permissions } of roles.values()) {
    weight += 300 + name.length
    for (const permission of permissions) weight += 64 + permission.length
  }
  return weight
}
