/** The responses of the migration endpoints. */
import type { Actor } from '../../lib/database/audit.js'
import type { Engine } from '../../lib/database/engine.js'
import type { MigrationPlan } from '../../lib/database/migrations/migration.js'
import { hasLoneStatements, planSql } from '../../lib/database/migrations/plan.js'

export type MigrationService = ReturnType<typeof createMigrationService>

const quickFixWarning = 'For development only: without row-level security only the server itself separates the rows of tenants.'

export function createMigrationService ({ migration }: Pick<Engine, 'migration'>, rules?: string) {
  return {
    /** The missing changes, as a script. */
    async overview (): Promise<{ sql: string, tables: string[], instructions: string, rules?: string }> {
      const plan = await migration.plan()
      const tables = [...new Set(plan.migrations.flatMap((one) => one.tables))]
      return { sql: planSql(plan), tables, instructions: instructionsOf(plan), ...rules !== undefined && { rules } }
    },
    /** Whether routes can be served, and which of the needed tables exist. */
    async status (): Promise<{ ready: boolean, tables: Record<string, boolean> }> {
      const { migrations, tables } = await migration.plan()
      return { ready: !migrations.some(({ required }) => required), tables }
    },
    /** The same script without row-level security. */
    async quickFix (): Promise<{ sql: string, warning: string }> {
      return { sql: planSql(await migration.plan({ policies: false })), warning: quickFixWarning }
    },
    /** Names of the applied migrations, in order; they are in the platform's audit log. */
    apply: (actor: Actor): Promise<string[]> => migration.apply(actor)
  }
}

function instructionsOf (plan: MigrationPlan): string {
  if (plan.migrations.length === 0) return ['Nothing is missing.', ...notesOf(plan)].join('\n')
  const names = plan.migrations.map(({ name }) => name).join(', ')
  return [
    `To apply ${names}: run "tenantry migrate", send POST /migration/apply, or run the SQL as the owner of the tables with "psql -v ON_ERROR_STOP=1". A statement fails if another session locks its table. "tenantry migrate" and POST /migration/apply retry it; with psql, retrieve the SQL again and run the rest.`,
    ...hasLoneStatements(plan)
      ? [
          'The SQL has statements that cannot run in a transaction, such as "create index concurrently": run it without "--single-transaction".'
        ]
      : [],
    ...notesOf(plan)
  ].join('\n')
}

function notesOf ({ warnings }: MigrationPlan): string[] {
  return warnings.map((warning) => `Note: ${warning}.`)
}
