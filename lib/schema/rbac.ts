/** Roles of the platform, kept in the database. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

export const maxRoleName = 100 // characters

/** A name of a role: no control characters, no halves of characters, of which a database has none, and no space at its ends. */
export const roleNamePattern = '^(?! )[^\\u0000-\\u001f\\u007f\\ud800-\\udfff]*[^\\u0000-\\u0020\\u007f\\ud800-\\udfff]$'

/** A table of the schema `tenantry`. It becomes a part of a migration's name. */
const TableName = (name: string, holds: string) =>
  Type.Optional(Type.String({
    pattern: '^[a-z_][a-z0-9_]{0,62}$',
    expected: '1 to 63 of `a-z 0-9 _`, and no digit first',
    default: name,
    description: `The table of ${holds}, in the schema \`tenantry\`. Another name is another table, which is empty at first.`
  }))

export const Rbac = Section({
  enabled: Type.Boolean({ description: 'Whether there are such roles: what they give, and the endpoints under `/rbac`.' }),
  defaultRole: Type.Optional(Type.String({
    minLength: 1,
    maxLength: maxRoleName,
    pattern: roleNamePattern,
    expected: 'the name of a role',
    description:
      'The role of users who have none, by its name. The start fails where there is no such role: add it with `POST /rbac/roles` first, without this member.'
  })),
  rolesTable: TableName('roles', 'roles'),
  permissionsTable: TableName('permissions', 'permissions'),
  userRolesTable: TableName('user_roles', 'who has which role')
}, { default: { enabled: false }, description: 'Roles that the platform gives to users, of any tenant and of none.' })
export type Rbac = Static<typeof Rbac>
