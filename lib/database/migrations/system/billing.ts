/** The subscriptions of tenants at payment providers, and the events of these providers. */
import { systemMigration } from './system-migration.js'

export const billing = systemMigration('billing', [
  'tenantry.billing_tenants',
  'tenantry.billing_subscriptions',
  'tenantry.billing_events',
  'tenantry.billing_unclaimed'
], [
  `create table tenantry.billing_tenants (
  tenant_id text primary key references tenantry.tenants (id) on delete cascade,
  plan text,
  due_at timestamptz,
  pulled_at timestamptz,
  tried_at timestamptz
)`,
  // For the scheduler.
  'create index on tenantry.billing_tenants (due_at) where due_at is not null',
  `create table tenantry.billing_subscriptions (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  provider text not null,
  id text not null,
  as_of timestamptz,
  customer_id text,
  product_ids text[] not null default '{}',
  plan text,
  cycle text,
  status text,
  started_at timestamptz,
  period_start timestamptz,
  period_end timestamptz,
  cancel_at_period_end boolean not null default false,
  ended_at timestamptz,
  past_due_since timestamptz,
  payment_method text,
  payment_method_as_of timestamptz,
  unsure boolean not null default false,
  asked_at timestamptz,
  primary key (tenant_id, provider, id),
  check (as_of is null or (customer_id is not null and status is not null and started_at is not null and period_start is not null and period_end is not null))
)`,
  // For events that name no tenant.
  'create index on tenantry.billing_subscriptions (provider, id)',
  'create index on tenantry.billing_subscriptions (provider, customer_id)',
  `create table tenantry.billing_events (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  provider text not null,
  id text not null,
  received_at timestamptz not null,
  primary key (provider, id)
)`,
  'create index on tenantry.billing_events (tenant_id)',
  'create index on tenantry.billing_events (received_at)',
  // Not tenant-scoped: the tenant in the event does not exist.
  `create table tenantry.billing_unclaimed (
  provider text not null,
  id text not null,
  place bigint generated always as identity unique,
  tenant text,
  subscription_id text,
  customer_id text,
  event jsonb not null,
  received_at timestamptz not null,
  primary key (provider, id)
)`,
  'create index on tenantry.billing_unclaimed (tenant)',
  'create index on tenantry.billing_unclaimed (provider, subscription_id) where tenant is null',
  'create index on tenantry.billing_unclaimed (provider, customer_id) where tenant is null',
  'create index on tenantry.billing_unclaimed (received_at)'
], ['tenantry.billing_unclaimed'])
