/** Roles of the platform, kept in the database. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

export const maxRoleName = 100 // characters

/** A role's name: no control characters, no lone surrogates, which a database cannot store, and no space at its ends. */
export const roleNamePattern = '^(?! )[^\\u0000-\\u001f\\u007f\\ud800-\\udfff]*[^\\u0000-\\u0020\\u007f\\ud800-\\udfff]$'

/** A table of the schema `tenantry`. A migration's name contains its name. */
const TableName = (name: string, holds: string) =>
  Type.Optional(Type.String({
    pattern: '^[a-z_][a-z0-9_]{0,62}$',
    expected: '1 to 63 of `a-z 0-9 _`, not starting with a digit',
    default: name,
    description: `The table of ${holds}, in the schema \`tenantry\`. A new name creates a new, empty table.`
  }))

export const Rbac = Section({
  enabled: Type.Boolean({ description: 'Enables platform roles and the endpoints under `/rbac`.' }),
  defaultRole: Type.Optional(Type.String({
    minLength: 1,
    maxLength: maxRoleName,
    pattern: roleNamePattern,
    expected: 'the name of a role',
    description:
      'The name of the role of users without a role. The start fails if the role does not exist: start without this member, and create the role with `POST /rbac/roles`.'
  })),
  rolesTable: TableName('roles', 'roles'),
  permissionsTable: TableName('permissions', 'permissions'),
  userRolesTable: TableName('user_roles', 'the assignments of roles to users')
}, { default: { enabled: false }, description: 'Roles that the platform assigns to users of any tenant, and to its own users.' })
export type Rbac = Static<typeof Rbac>
