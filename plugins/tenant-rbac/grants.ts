/**
 * The permissions that a change of roles gives to users. Its author must hold them. Inactive roles count too, since another administrator
 * may activate them later.
 */
import { grants, type PermissionSet, requireGrant } from '../auth/permissions.js'
import { type RbacConfig, type Role, withParents } from './roles.js'

/** Throws `grantExceeds` if the change gives a user a permission that its author does not hold. */
export function requireRbacGrant (held: PermissionSet, before: RbacConfig, after: RbacConfig): void {
  const excess = excessOf(held, after.roles)
  if (excess.size === 0) return
  // Roles that were off are activated with all of their permissions.
  if (after.enabled && !before.enabled) requireGrant(held, excess)
  for (const role of after.roles.values()) {
    const known = before.roles.get(role.name)
    if (role === known) continue
    const given = added(role, known, after)
    requireGain(given, before, role.name)
  }
  if (after.defaultRole === null) return
  const byDefault = [...withParents(after.roles, after.defaultRole)]
  if (after.defaultRole !== before.defaultRole) requireGain(byDefault, before, before.defaultRole)
  // Users of a removed role have the default role from now on.
  for (const name of before.roles.keys()) {
    if (!after.roles.has(name)) requireGain(byDefault, before, name)
  }

  /** Users of the first role get the permissions of these roles. */
  function requireGain (given: readonly Role[], { roles }: RbacConfig, name: string | null): void {
    const wanted = given.flatMap(({ permissions }) => permissions.filter((permission) => excess.has(permission)))
    if (wanted.length === 0) return
    const had = new Set([...withParents(roles, name)].flatMap(({ permissions }) => permissions))
    requireGrant(held, wanted.filter((permission) => !grants(had, permission)))
  }
}

/** Declared permissions that are not held. */
function excessOf (held: PermissionSet, roles: RbacConfig['roles']): Set<string> {
  const excess = new Set<string>()
  for (const { permissions } of roles.values()) {
    for (const permission of permissions) {
      if (!excess.has(permission) && !grants(held, permission)) excess.add(permission)
    }
  }
  return excess
}

/**
 * The roles that may have gained permissions: those above the changed role, if its parent is new, and itself. Gains of an
 * unchanged parent were checked by the change of that parent.
 */
function added (role: Role, known: Role | undefined, { roles }: RbacConfig): readonly Role[] {
  return known !== undefined && known.parentRole === role.parentRole ? [role] : [...withParents(roles, role.name)]
}
