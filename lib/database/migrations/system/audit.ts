/** The audit log, and indexes for its filters. */
import { systemMigration } from './system-migration.js'

export const auditLog = systemMigration('audit_log', ['tenantry.audit_log'], [
  // The empty tenant is the platform.
  `create table tenantry.audit_log (
  id bigint generated always as identity primary key,
  uuid uuid not null default gen_random_uuid(),
  tenant_id text not null,
  action text not null,
  user_id text,
  address text,
  target text,
  outcome text not null default 'success' check (outcome in ('success', 'failure')),
  count bigint not null default 1,
  hour timestamptz,
  details jsonb,
  created_at timestamptz not null default now()
)`,
  // For one tenant: pages of all entries, of a user's and of an action's entries, and the sweep.
  'create index on tenantry.audit_log (tenant_id, created_at, id)',
  'create index on tenantry.audit_log (tenant_id, user_id, created_at, id)',
  'create index on tenantry.audit_log (tenant_id, action, created_at, id)',
  // For a user's action, and for a target: their order differs, so that PostgreSQL chooses no other index for such a page.
  'create index on tenantry.audit_log (tenant_id, user_id, action, created_at desc nulls last, id desc nulls last)',
  'create index on tenantry.audit_log (tenant_id, target, action, created_at desc nulls last, id desc nulls last)',
  // For all tenants: the same pages for the platform's administrators.
  'create index on tenantry.audit_log (created_at, id)',
  'create index on tenantry.audit_log (user_id, created_at, id)',
  'create index on tenantry.audit_log (action, created_at, id)',
  // One entry per hour counts the uses of a secret.
  "create unique index on tenantry.audit_log (tenant_id, target, hour) where action = 'secret.access'"
])

/** Audit entries of deleted tenants, each with the time at which it is removed. */
export const auditKeptUntil = systemMigration('audit_kept_until', [], [
  'alter table tenantry.audit_log add column kept_until timestamptz',
  'create index audit_log_kept_until on tenantry.audit_log (kept_until) where kept_until is not null'
])

/** Indexes for the filters of `GET /tenants` and `GET /audit`. */
export const listFilters = systemMigration('list_filters', [], [
  'create index tenants_status on tenantry.tenants (status, id)',
  'create index tenants_plan on tenantry.tenants (plan, id)',
  // Most entries are successes, so the other indexes find a page of them.
  "create index audit_log_failures on tenantry.audit_log (tenant_id, created_at, id) where outcome = 'failure'",
  // For all tenants, for the platform's administrators.
  "create index audit_log_all_failures on tenantry.audit_log (created_at, id) where outcome = 'failure'",
  'create index audit_log_target on tenantry.audit_log (target, created_at, id)'
])
