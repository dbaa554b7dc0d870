/** The tables of the platform's roles, in the schema `tenantry`, with the names from the document. */

export interface RoleTables {
  readonly roles: string
  readonly permissions: string
  readonly userRoles: string
}

export const defaultRoleTables: RoleTables = Object.freeze({ roles: 'roles', permissions: 'permissions', userRoles: 'user_roles' })

/** The permissions of roles, with a fixed name. */
export const rolePermissions = 'role_permissions'
