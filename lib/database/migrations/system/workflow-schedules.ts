/** The next run of workflows with a schedule. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const table = 'tenantry.workflow_schedules'

export const workflowSchedules: SystemMigration = {
  description: 'workflow_schedules',
  tables: [table],
  statements: ({ policies }) => [
    `create table ${table} (
  tenant_id text not null,
  workflow text not null,
  schedule text not null,
  next_at timestamptz not null,
  last_run uuid,
  primary key (tenant_id, workflow)
)`,
    `create index on ${table} (next_at)`,
    ...policies ? policyStatements(table, 'text', noSecurity) : []
  ]
}
