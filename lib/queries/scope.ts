/** The conditions on every row of every query: it belongs to the request's tenant, and is not soft-deleted. */
import { tenantColumn, type Table } from '../database/catalogue.js'
import { columnOf, bindTenant, type Placeholders } from './sql.js'

/**
 * The conditions on a table's rows under an alias. `withDeleted` includes soft-deleted rows. They come before the query's own conditions:
 * PostgreSQL evaluates conditions of equal cost in order, and a condition that fails must not read another tenant's row.
 */
export function rowConditions (table: Table, alias: string, placeholders: Placeholders, { withDeleted = false } = {}): string[] {
  const conditions = []
  if (table.tenantScoped) conditions.push(`${columnOf(alias, tenantColumn)} = ${tenantPlaceholder(table, placeholders)}`)
  if (table.softDelete && !withDeleted) {
    // A partial index `where deleted = false` serves only the plain form; a nullable column needs the other form.
    const deleted = columnOf(alias, 'deleted')
    conditions.push(table.columns.get('deleted')?.notNull === true ? `${deleted} = false` : `${deleted} is not true`)
  }
  return conditions
}

/** The request's tenant, cast to the type of the table's `tenant_id`. */
export function tenantPlaceholder (table: Table, placeholders: Placeholders): string {
  return placeholders.add(bindTenant, table.columns.get(tenantColumn)!.type)
}

/** ` where a and b`, or nothing. */
export function where (conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`
}
