/**
 * The tables of the platform's roles. The document gives their names, so each table has a
 * migration of its own, which its name is a part of: a document that names another table gets that one beside those that
 * are there, and a server knows the migrations of documents that are not its own.
 *
 * No table has a foreign key to another: `role_permissions` serves whichever tables the document names, and what a row
 * belongs to is removed with it in one transaction (plugins/rbac). A table of another use that has the name already makes
 * the migration fail.
 */
import type { RoleTables } from '../../role-tables.js'
import type { SystemMigration } from './system-migration.js'
import { rolePermissions } from '../../role-tables.js'
import { identifier } from '../../sql.js'
import { noSecurity, policyStatements } from '../policies.js'

const named = /^(?:roles|permissions|user_roles)_table_[a-z_][a-z0-9_]*$/

/** The migration is one of these, of whatever document. */
export function isOfRoleTables (description: string): boolean {
  return description === rolePermissions || named.test(description)
}

export function roleTableMigrations ({ roles, permissions, userRoles }: RoleTables): SystemMigration[] {
  return [listMigration('roles', roles), listMigration('permissions', permissions), rolePermissionsMigration, userRolesMigration(userRoles)]
}

/** Roles and permissions are alike: a name, and what it is for. */
function listMigration (kind: 'roles' | 'permissions', name: string): SystemMigration {
  return {
    description: `${kind}_table_${name}`,
    tables: [`tenantry.${name}`],
    statements: () => [`create table tenantry.${identifier(name)} (
  id uuid primary key default gen_random_uuid(),
  name text not null unique,
  description text,
  created_at timestamptz not null default now()
)`]
  }
}

const rolePermissionsMigration: SystemMigration = {
  description: rolePermissions,
  tables: [`tenantry.${rolePermissions}`],
  statements: () => [
    `create table tenantry.${rolePermissions} (
  role_id uuid not null,
  permission_id uuid not null,
  primary key (role_id, permission_id)
)`,
    // For the deletion of a permission.
    `create index on tenantry.${rolePermissions} (permission_id)`
  ]
}

function userRolesMigration (name: string): SystemMigration {
  const table = `tenantry.${identifier(name)}`
  return {
    description: `user_roles_table_${name}`,
    tables: [`tenantry.${name}`],
    statements: ({ policies }) => [
      // The empty tenant is the platform, whose own users are theirs alone.
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
