/** The tables of the platform's roles, in the schema `tenantry`, under the names that the document gives them. */

export interface RoleTables {
  readonly roles: string
  readonly permissions: string
  readonly userRoles: string
}

export const defaultRoleTables: RoleTables = Object.freeze({ roles: 'roles', permissions: 'permissions', userRoles: 'user_roles' })

/** Which role holds which permission; no document names it. */
export const rolePermissions = 'role_permissions'
