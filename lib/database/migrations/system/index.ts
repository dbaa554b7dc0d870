/**
 * The migrations of the server's own tables, in order. One that was released is never changed. Its number is given when
 * it is applied, since the document's tables have migrations in the same order; `description` is what tells it apart.
 */
import { systemTables } from './system-tables.js'

export interface SystemMigration {
  readonly description: string
  /** The tables that it makes, with their schema. */
  readonly tables: readonly string[]
  readonly statements: (options: { policies: boolean }) => readonly string[]
}

export const systemMigrations: readonly SystemMigration[] = [systemTables]
