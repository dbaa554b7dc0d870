/** The saved documents of tenants. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const tables = ['tenantry.tenant_configs']

export const tenantConfigs: SystemMigration = {
  description: 'tenant_configs',
  tables,
  statements: ({ policies }) => [
    // `settings` is a separate column because every look-up of a tenant reads it. A document has up to 1 MB, and extracting the
    // settings would take milliseconds.
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
