/**
 * Moves the notices of new jobs from a trigger to the sender (plugins/queue/insert.ts, notices.ts), which sends one notice for
 * several jobs. With the trigger, every transaction with new jobs sent a notice, and PostgreSQL commits such transactions one
 * after the other ("NOTIFY"). Adds indexes for lists of jobs, and for counts of a tenant's waiting jobs.
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
