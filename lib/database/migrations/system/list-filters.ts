/** Indexes for the filters of `GET /tenants` and `GET /audit`. */
import type { SystemMigration } from './system-migration.js'

export const listFilters: SystemMigration = {
  description: 'list_filters',
  tables: [],
  statements: () => [
    'create index tenants_status on tenantry.tenants (status, id)',
    'create index tenants_plan on tenantry.tenants (plan, id)',
    // Most entries are successes, so the other indexes find a page of them.
    "create index audit_log_failures on tenantry.audit_log (tenant_id, created_at, id) where outcome = 'failure'",
    // For all tenants, for the platform's administrators.
    "create index audit_log_all_failures on tenantry.audit_log (created_at, id) where outcome = 'failure'",
    'create index audit_log_target on tenantry.audit_log (target, created_at, id)'
  ]
}
