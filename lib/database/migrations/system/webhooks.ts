/** Webhooks, and requests that must run only once. */
import { systemMigration } from './system-migration.js'

/** Outbound webhooks: events, written in the transaction of their changes, and their deliveries. */
export const webhooks = systemMigration('webhooks', [
  'tenantry.webhook_events',
  'tenantry.webhook_deliveries',
  'tenantry.webhook_secrets'
], [
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
)`
])

/** Deliveries of inbound webhooks, so that each is handled only once. */
export const webhookReceipts = systemMigration('webhook_receipts', ['tenantry.webhook_receipts'], [
  // The empty tenant is the platform.
  `create table tenantry.webhook_receipts (
  tenant_id text not null,
  path text not null,
  id text not null,
  holder uuid not null,
  held_until timestamptz,
  received_at timestamptz not null,
  primary key (tenant_id, path, id)
)`,
  'create index on tenantry.webhook_receipts (received_at)'
])

/** In the platform's deliveries, the tenants of the events take turns, and the events of one tenant never wait for those of another. */
export const webhookSources = systemMigration('webhook_sources', [], [
  'alter table tenantry.webhook_deliveries add column source text collate "C" not null default \'\'',
  `update tenantry.webhook_deliveries d set source = e.tenant_id from tenantry.webhook_events e
where e.place = d.event and d.tenant_id = '' and d.status = 'pending' and e.tenant_id <> ''`,
  'drop index tenantry.webhook_deliveries_due',
  'drop index tenantry.webhook_deliveries_order',
  'create index webhook_deliveries_due on tenantry.webhook_deliveries (tenant_id, source, next_attempt_at) where next_attempt_at is not null',
  // An expression, so that the planner never uses this index for the deliveries of one tenant and source, and reads those of all.
  'drop index tenantry.webhook_deliveries_next',
  "create index webhook_deliveries_next on tenantry.webhook_deliveries ((next_attempt_at at time zone 'UTC')) where next_attempt_at is not null",
  "create index webhook_deliveries_order on tenantry.webhook_deliveries (tenant_id, source, endpoint, subject, event) where status = 'pending'"
])

/** The number of webhooks that led to an event, which bounds webhooks that start each other. */
export const webhookDepths = systemMigration('webhook_depths', [], ['alter table tenantry.webhook_events add column depth smallint not null default 0'])

/** For the sweep, which counts the deliveries of each tenant and source. */
export const webhookLines = systemMigration('webhook_lines', [], [
  'create index webhook_deliveries_line on tenantry.webhook_deliveries (tenant_id, source, created_at, id)'
])

/** Idempotency keys of requests, with the responses to replay. */
export const idempotencyKeys = systemMigration('idempotency_keys', ['tenantry.idempotency_keys'], [
  // The empty tenant is the platform.
  `create table tenantry.idempotency_keys (
  tenant_id text not null,
  id bytea not null,
  holder uuid not null,
  state text not null check (state in ('running', 'written', 'answered')),
  stranger boolean not null,
  encrypted boolean not null,
  content bytea not null,
  status smallint,
  headers jsonb,
  leased_until timestamptz not null,
  expires_at timestamptz not null,
  primary key (tenant_id, id)
)`,
  // For the sweep.
  'create index on tenantry.idempotency_keys (expires_at)'
])
