/** The usage of tenants, and the instances that count it. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const tables = ['tenantry.usage_counters', 'tenantry.usage_gauges', 'tenantry.usage_reservations']

export const usage: SystemMigration = {
  description: 'usage',
  tables: ['tenantry.usage_instances', ...tables],
  statements: ({ policies }) => [
    // Free space in each page, because rows are updated every second.
    `create table tenantry.usage_counters (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  counter text not null,
  period text not null,
  amount bigint not null,
  primary key (tenant_id, counter, period)
) with (fillfactor = 70)`,
    `create table tenantry.usage_instances (
  id uuid primary key,
  seen_at timestamptz not null default now(),
  last_batch bigint not null
)`,
    `create table tenantry.usage_gauges (
  instance_id uuid not null references tenantry.usage_instances (id) on delete cascade,
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  gauge text not null,
  value bigint not null,
  written bigint not null,
  written_at timestamptz not null default now(),
  primary key (tenant_id, gauge, instance_id)
)`,
    'create index on tenantry.usage_gauges (instance_id)',
    `create table tenantry.usage_reservations (
  id uuid primary key,
  instance_id uuid not null,
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  counter text not null,
  period text not null,
  amount bigint not null,
  booked bigint,
  created_at timestamptz not null default now(),
  resolved_at timestamptz
)`,
    'create index on tenantry.usage_reservations (tenant_id, counter) where booked is null',
    'create index on tenantry.usage_reservations (instance_id)',
    ...policies ? tables.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
