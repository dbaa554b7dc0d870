/**
 * The migrations of the server's own tables, in order. One that was released is never changed. Its number is given when
 * it is applied, since the document's tables have migrations in the same order; `description` is what tells it apart.
 */
import type { SystemMigration } from './system-migration.js'
import { systemTables } from './system-tables.js'

export const systemMigrations: readonly SystemMigration[] = [systemTables]
