/** Names and literals in SQL text, for migrations, which cannot have parameters; and parts of statements that several stores share. */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Owner } from '../identity/tenant-ref.js'
import type { SystemTables } from './system-tables.js'

export function identifier (name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** The quoted name of a table, or of another object, with its schema. */
export function qualified (schema: string, name: string): string {
  return `${identifier(schema)}.${identifier(name)}`
}

/** Several quoted identifiers, separated by commas. */
export function identifiers (names: readonly string[]): string {
  return names.map(identifier).join(', ')
}

export function literal (text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`
  return text.includes('\\') ? `E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

/** The column `tenant_id` of a system table, for a select list. */
export const tenantColumn = sql<Owner>`tenant_id`.as('tenant')

/** For times on which several processes act: their own clocks may differ, or be set wrong for a while. */
export async function databaseTime (db: Kysely<SystemTables>): Promise<Date> {
  const { rows: [row] } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
  if (row === undefined) throw new Error('the database has returned no time')
  return row.now
}

/** One of the columns contains the text, in any case, without wildcards such as the `%` of `like`. */
export function containsText (search: string, ...columns: readonly string[]): RawBuilder<boolean> {
  return sql<boolean>`(${sql.join(columns.map((column) => sql`strpos(lower(${sql.ref(column)}), lower(${search})) > 0`), sql` or `)})`
}
