/** Requests of tenants and the bytes of their bodies, counted together: one row per day, and one write instead of two. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const table = 'tenantry.usage_requests'

export const usageRequests: SystemMigration = {
  description: 'usage_requests',
  tables: [table],
  statements: ({ policies }) => [
    // Free space in each page, because rows are updated every second.
    `create table ${table} (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  day text not null,
  api_calls bigint not null,
  bandwidth_bytes bigint not null,
  primary key (tenant_id, day)
) with (fillfactor = 70)`,
    // The figures belong to all tenants. Without the setting, policies would hide them from a script that is run by hand.
    "set local app.tenant_id = '*'",
    `with moved as (delete from tenantry.usage_counters where counter in ('api_calls', 'bandwidth_bytes') returning *)
  insert into ${table} select tenant_id, period, coalesce(max(amount) filter (where counter = 'api_calls'), 0), coalesce(max(amount) filter (where counter = 'bandwidth_bytes'), 0)
  from moved group by tenant_id, period`,
    ...policies ? policyStatements(table, 'text', noSecurity) : []
  ]
}
