/** Names and literals in SQL text, for migrations, which cannot have parameters; and conditions that several stores share. */
import { type RawBuilder, sql } from 'kysely'
import type { Owner } from '../identity/tenant-ref.js'

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

/** One of the columns contains the text, in any case, without wildcards such as the `%` of `like`. */
export function containsText (search: string, ...columns: readonly string[]): RawBuilder<boolean> {
  return sql<boolean>`(${sql.join(columns.map((column) => sql`strpos(lower(${sql.ref(column)}), lower(${search})) > 0`), sql` or `)})`
}
