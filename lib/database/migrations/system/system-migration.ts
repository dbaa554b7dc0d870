/** A migration of the server's own tables. */
import { noSecurity, policyStatements } from '../policies.js'

export interface SystemMigration {
  /** In snake_case; the migration's name is its number and this description. */
  readonly description: string
  /** The created tables, with their schema. */
  readonly tables: readonly string[]
  readonly statements: (options: { policies: boolean }) => readonly string[]
}

/** The policies of the created tables come last. `withoutTenants`: tables without a `tenant_id`. */
export function systemMigration (
  description: string,
  tables: readonly string[],
  statements: readonly string[],
  withoutTenants: readonly string[] = []
): SystemMigration {
  const secured = tables.filter((table) => !withoutTenants.includes(table))
  return {
    description,
    tables,
    statements: ({ policies }) =>
      policies ? [...statements, ...secured.flatMap((table) => policyStatements(table, 'text', noSecurity))] : statements
  }
}
