/** Audit entries of deleted tenants, each with the time at which it is removed. */
import type { SystemMigration } from './system-migration.js'

export const auditKeptUntil: SystemMigration = {
  description: 'audit_kept_until',
  tables: [],
  statements: () => [
    'alter table tenantry.audit_log add column kept_until timestamptz',
    'create index audit_log_kept_until on tenantry.audit_log (kept_until) where kept_until is not null'
  ]
}
