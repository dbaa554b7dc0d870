/** Tenants' roles for their users. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const tables = ['tenantry.tenant_rbac', 'tenantry.tenant_roles']

export const tenantRbac: SystemMigration = {
  description: 'tenant_rbac',
  tables,
  statements: ({ policies }) => [
    `create table tenantry.tenant_rbac (
  tenant_id text primary key references tenantry.tenants (id) on delete cascade,
  enabled boolean not null,
  default_role text
)`,
    `create table tenantry.tenant_roles (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  name text not null,
  description text,
  permissions text[] not null,
  parent_role text,
  primary key (tenant_id, name)
)`,
    ...policies ? tables.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
