/** The audit log. */
import type { SystemMigration } from './system-migration.js'
import { noSecurity, policyStatements } from '../policies.js'

export const auditLog: SystemMigration = {
  description: 'audit_log',
  tables: ['tenantry.audit_log'],
  statements: ({ policies }) => [
    // The empty tenant is the platform.
    `create table tenantry.audit_log (
  id bigint generated always as identity primary key,
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
    // For pages of it, those of one user, of one action and of one target, and for the sweep.
    'create index on tenantry.audit_log (tenant_id, created_at)',
    'create index on tenantry.audit_log (tenant_id, id)',
    'create index on tenantry.audit_log (tenant_id, user_id, id)',
    'create index on tenantry.audit_log (tenant_id, action, id)',
    'create index on tenantry.audit_log (tenant_id, target, id)',
    // The one entry an hour that counts the uses of a secret.
    "create unique index on tenantry.audit_log (tenant_id, target, hour) where action = 'secret.access'",
    ...policies ? policyStatements('tenantry.audit_log', 'text', noSecurity) : []
  ]
}
