/** The number of processes that ended while running a job: after two the job is set aside. */
import type { SystemMigration } from './system-migration.js'

export const queueLosses: SystemMigration = {
  description: 'queue_losses',
  tables: [],
  statements: () => ['alter table tenantry_queue.job add column lost integer not null default 0']
}
