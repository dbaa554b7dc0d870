/** In the platform's deliveries, the tenants of the events take turns, and the events of one tenant never wait for those of another. */
import type { SystemMigration } from './system-migration.js'

const deliveries = 'tenantry.webhook_deliveries'

export const webhookSources: SystemMigration = {
  description: 'webhook_sources',
  tables: [],
  statements: () => [
    `alter table ${deliveries} add column source text collate "C" not null default ''`,
    `update ${deliveries} d set source = e.tenant_id from tenantry.webhook_events e
where e.place = d.event and d.tenant_id = '' and d.status = 'pending' and e.tenant_id <> ''`,
    'drop index tenantry.webhook_deliveries_due',
    'drop index tenantry.webhook_deliveries_order',
    `create index webhook_deliveries_due on ${deliveries} (tenant_id, source, next_attempt_at) where next_attempt_at is not null`,
    // An expression, so that the planner never uses this index for the deliveries of one tenant and source, and reads those of all.
    'drop index tenantry.webhook_deliveries_next',
    `create index webhook_deliveries_next on ${deliveries} ((next_attempt_at at time zone 'UTC')) where next_attempt_at is not null`,
    `create index webhook_deliveries_order on ${deliveries} (tenant_id, source, endpoint, subject, event) where status = 'pending'`
  ]
}
