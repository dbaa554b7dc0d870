/**
 * Jobs that are sent together are noticed together: no longer by a trigger, which made of every commit one of those that
 * PostgreSQL commits one after the other ("NOTIFY"), but by who sends them (plugins/queue/insert.ts, notices.ts). And the
 * indexes by which jobs are listed, and those of a tenant that wait are counted.
 */
import type { SystemMigration } from './system-migration.js'

export const queueLists: SystemMigration = {
  description: 'queue_lists',
  tables: [],
  statements: () => [
    'drop trigger job_notify_workers on tenantry_queue.job',
    'drop function tenantry_queue.notify_workers()',
    'drop index tenantry_queue.job_tenant',
    'create index job_of_tenant on tenantry_queue.job (tenant_id, state, created_on, id)',
    'create index job_of_task on tenantry_queue.job (task, state, created_on, id)'
  ]
}
