/** Notes that a step has made a call that is charged: after a crash it is not made again. */
import type { SystemMigration } from './system-migration.js'

export const workflowStepCalls: SystemMigration = {
  description: 'workflow_step_calls',
  tables: [],
  statements: () => ['alter table tenantry.workflow_steps add column sent_at timestamptz']
}
