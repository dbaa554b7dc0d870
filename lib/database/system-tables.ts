/** The tables of the `tenantry` schema, as kysely sees them. Each migration that adds a table adds its type here. */
import type { ColumnType, Generated } from 'kysely'

type Timestamp = ColumnType<Date, Date | string | undefined, Date | string>

export interface MigrationsTable {
  /** `<nnn>_<description>`. */
  name: string
  /** Of the server's own tables, or of those that a document declares. */
  kind: Generated<'system' | 'tables'>
  applied_at: Generated<Timestamp>
}

/** Document-style collections of configured routes (`firebaseQueries` on the SQL database). */
export interface DocumentsTable {
  /** Empty for documents of no tenant. */
  tenant_id: string
  collection: string
  id: string
  data: Record<string, unknown>
  created_at: Generated<Timestamp>
  updated_at: Generated<Timestamp>
}

export interface SystemTables {
  'tenantry.migrations': MigrationsTable
  'tenantry.documents': DocumentsTable
}
