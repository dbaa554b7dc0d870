/** The audit log. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const auditLog: SystemMigration = {
  description: 'audit_log',
  tables: ['tenantry.audit_log'],
  statements: ({ policies }) => [
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
    "create unique index on tenantry.audit_log (tenant_id, target, hour) where action = 'secret.access'",
    ...policies ? policyStatements('tenantry.audit_log', 'text', noSecurity) : []
  ]
}
