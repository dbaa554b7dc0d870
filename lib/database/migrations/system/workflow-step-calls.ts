/** Records a step's call that is charged, so that it is not repeated after a crash. */
import type { SystemMigration } from './system-migration.js'

export const workflowStepCalls: SystemMigration = {
  description: 'workflow_step_calls',
  tables: [],
  statements: () => ['alter table tenantry.workflow_steps add column sent_at timestamptz']
}
