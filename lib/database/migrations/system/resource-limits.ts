/** Limits of tenants for their users, and the users' consumption. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const tables = ['tenantry.resource_usage', 'tenantry.resource_limits']

/** For each kind of period: the start of the last counted period (null without one), and the amount used in it. */
const periods = ['minute', 'hour', 'day', 'week', 'month', 'total']

export const resourceLimits: SystemMigration = {
  description: 'resource_limits',
  tables,
  statements: ({ policies }) => [
    `create table tenantry.resource_limits (
  tenant_id text primary key references tenantry.tenants (id) on delete cascade,
  rules json not null,
  counters integer not null default 0,
  updated_at timestamptz not null default now()
)`,
    // All periods in one row, so that one statement takes from all of them or from none.
    `create table tenantry.resource_usage (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  user_id text not null,
  resource text not null,
  metric text not null,
${periods.map((period) => `  ${period}_start timestamptz,\n  ${period}_amount bigint not null default 0,\n`).join('')}  ends_at timestamptz not null,
  primary key (tenant_id, user_id, resource, metric)
)`,
    // For the sweep of ended periods.
    'create index on tenantry.resource_usage (ends_at)',
    ...policies ? tables.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
