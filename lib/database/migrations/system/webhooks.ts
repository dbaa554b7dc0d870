/** Outbound webhooks: events, written in the transaction of their changes, and their deliveries. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const events = 'tenantry.webhook_events'
const others = ['tenantry.webhook_deliveries', 'tenantry.webhook_secrets']

export const webhooks: SystemMigration = {
  description: 'webhooks',
  tables: [events, ...others],
  statements: ({ policies }) => [
    // The empty tenant is the platform.
    `create table tenantry.webhook_events (
  place bigint generated always as identity primary key,
  id uuid not null default gen_random_uuid(),
  tenant_id text collate "C" not null,
  type text not null,
  subject text not null,
  data json not null,
  at timestamptz not null,
  fanned_out boolean not null default false
)`,
    // Events without deliveries, by tenant.
    'create index webhook_events_new on tenantry.webhook_events (tenant_id, place) where not fanned_out',
    'create index on tenantry.webhook_events (tenant_id)',
    'create index on tenantry.webhook_events (at)',
    `create table tenantry.webhook_deliveries (
  id uuid primary key default gen_random_uuid(),
  tenant_id text collate "C" not null,
  event bigint not null references tenantry.webhook_events (place) on delete cascade,
  type text not null,
  subject text not null,
  endpoint text not null,
  url text not null,
  sealed bytea,
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  attempts integer not null default 0,
  last_status integer,
  last_error text,
  next_attempt_at timestamptz,
  holder uuid,
  give_up_at timestamptz not null,
  created_at timestamptz not null,
  delivered_at timestamptz,
  unique (event, tenant_id, endpoint)
)`,
    // Due deliveries by tenant, and the time of the next one.
    'create index webhook_deliveries_due on tenantry.webhook_deliveries (tenant_id, next_attempt_at) where next_attempt_at is not null',
    'create index webhook_deliveries_next on tenantry.webhook_deliveries (next_attempt_at) where next_attempt_at is not null',
    // Deliveries of one subject run one after the other.
    "create index webhook_deliveries_order on tenantry.webhook_deliveries (tenant_id, endpoint, subject, event) where status = 'pending'",
    // Pages of the log: all deliveries, those with one final status, and those of an event. Waiting deliveries have their own order above.
    'create index on tenantry.webhook_deliveries (tenant_id, created_at, id)',
    "create index on tenantry.webhook_deliveries (tenant_id, status, created_at, id) where status <> 'pending'",
    'create index on tenantry.webhook_deliveries (tenant_id, type, created_at, id)',
    // For the change of the master key.
    'create index on tenantry.webhook_deliveries (id) where sealed is not null',
    `create table tenantry.webhook_secrets (
  tenant_id text primary key,
  secret bytea not null,
  created_at timestamptz not null
)`,
    ...policies ? [events, ...others].flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
