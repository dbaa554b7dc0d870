/** Tokens that let a caller without credentials read the status of its own run. */
import type { SystemMigration } from './system-migration.js'

export const workflowStatusTokens: SystemMigration = {
  description: 'workflow_status_tokens',
  tables: [],
  statements: () => ['alter table tenantry.workflow_runs add column status_token_hash bytea']
}
