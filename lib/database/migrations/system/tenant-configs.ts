/** The documents that tenants saved. */
import type { SystemMigration } from './system-migration.js'
import { noSecurity, policyStatements } from '../policies.js'

const tables = ['tenantry.tenant_configs']

export const tenantConfigs: SystemMigration = {
  description: 'tenant_configs',
  tables,
  statements: ({ policies }) => [
    // `settings` beside the document, which has up to 1 MB: every look at a tenant reads them, and from it that takes milliseconds.
    `create table tenantry.tenant_configs (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  version integer not null,
  document json not null,
  settings json generated always as (document -> 'settings') stored,
  created_at timestamptz not null default now(),
  created_by text not null,
  primary key (tenant_id, version)
)`,
    ...policies ? tables.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
