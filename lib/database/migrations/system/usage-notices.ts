/** Limits that tenants have reached. Each sends one event in a period. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const table = 'tenantry.usage_notices'

export const usageNotices: SystemMigration = {
  description: 'usage_notices',
  tables: [table],
  statements: ({ policies }) => [
    `create table ${table} (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  metric text not null,
  period text not null,
  at timestamptz not null,
  primary key (tenant_id, metric, period)
)`,
    `create index on ${table} (at)`,
    ...policies ? policyStatements(table, 'text', noSecurity) : []
  ]
}
