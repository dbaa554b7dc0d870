/** Tenants with their documents, roles and limits. */
import { systemMigration } from './system-migration.js'

/** Tenants, and the ids of deleted tenants. */
export const tenants = systemMigration('tenants', ['tenantry.tenants', 'tenantry.deleted_tenants'], [
  `create table tenantry.tenants (
  id text primary key check (id ~ '^[A-Za-z0-9_-]{1,64}$'),
  name text not null,
  plan text not null default 'free',
  status text not null default 'active' check (status in ('active', 'suspended', 'deleting')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
)`,
  `create table tenantry.deleted_tenants (
  id text primary key,
  deleted_at timestamptz not null default now()
)`
], ['tenantry.tenants', 'tenantry.deleted_tenants'])

/** The saved documents of tenants. */
export const tenantConfigs = systemMigration('tenant_configs', ['tenantry.tenant_configs'], [
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
)`
])

/** Tenants' roles for their users. */
export const tenantRbac = systemMigration('tenant_rbac', ['tenantry.tenant_rbac', 'tenantry.tenant_roles'], [
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
)`
])

/** For each kind of period: the start of the last counted period (null without one), and the amount used in it. */
const periods = ['minute', 'hour', 'day', 'week', 'month', 'total']

/** Limits of tenants for their users, and the users' consumption. */
export const resourceLimits = systemMigration('resource_limits', ['tenantry.resource_usage', 'tenantry.resource_limits'], [
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
  'create index on tenantry.resource_usage (ends_at)'
])
