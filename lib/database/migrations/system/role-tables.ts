/**
 * The tables of the platform's roles. The document names them, so each table has its own migration, whose name includes the
 * table's. A document with another name adds another table, and a server accepts migrations of other documents. The tables have
 * no foreign keys to each other, because `role_permissions` serves whichever tables the document names. plugins/rbac deletes
 * dependent rows in the same transaction. The migration fails if the name belongs to a table with another purpose.
 */
import { rolePermissions, type RoleTables } from '../../declared-tables.js'
import { identifier } from '../../sql.js'
import { noSecurity, policyStatements } from '../policies.js'
import { type SystemMigration, systemMigration } from './system-migration.js'

const named = /^(?:roles|permissions|user_roles)_table_[a-z_][a-z0-9_]*$/

/** Whether the migration creates such a table, for any document. */
export function isOfRoleTables (description: string): boolean {
  return description === rolePermissions || named.test(description)
}

export function roleTableMigrations ({ roles, permissions, userRoles }: RoleTables): SystemMigration[] {
  return [listMigration('roles', roles), listMigration('permissions', permissions), rolePermissionsMigration, userRolesMigration(userRoles)]
}

/** Roles and permissions have the same columns: a name and a description. */
function listMigration (kind: 'roles' | 'permissions', name: string): SystemMigration {
  const table = `tenantry.${name}`
  return systemMigration(`${kind}_table_${name}`, [table], [
    `create table tenantry.${identifier(name)} (
  id uuid primary key default gen_random_uuid(),
  name text not null unique,
  description text,
  created_at timestamptz not null default now()
)`
  ], [table])
}

const rolePermissionsMigration = systemMigration(rolePermissions, [`tenantry.${rolePermissions}`], [
  `create table tenantry.${rolePermissions} (
  role_id uuid not null,
  permission_id uuid not null,
  primary key (role_id, permission_id)
)`,
  // For the deletion of a permission.
  `create index on tenantry.${rolePermissions} (permission_id)`
], [`tenantry.${rolePermissions}`])

function userRolesMigration (name: string): SystemMigration {
  const table = `tenantry.${identifier(name)}`
  return {
    description: `user_roles_table_${name}`,
    tables: [`tenantry.${name}`],
    statements: ({ policies }) => [
      // The empty tenant is the platform, with its own users.
      `create table ${table} (
  tenant_id text not null default '',
  user_id text not null,
  role_id uuid not null,
  primary key (tenant_id, user_id, role_id)
)`,
      // For the deletion of a role.
      `create index on ${table} (role_id)`,
      ...policies ? policyStatements(table, 'text', noSecurity) : []
    ]
  }
}
