/** The conditions that every row must meet, whatever the query says: of the request's tenant, and not soft-deleted. */
import type { Table } from '../database/catalogue.js'
import { tenantColumn } from '../database/catalogue.js'
import { columnOf } from './identifiers.js'
import { bindTenant, type Placeholders } from './sql.js'

/**
 * The conditions of a table's rows under an alias. `withDeleted`: soft-deleted rows too. They stand before the query's own
 * conditions: PostgreSQL evaluates those of one cost in order, and one that fails must not see another tenant's row.
 */
export function rowConditions (table: Table, alias: string, placeholders: Placeholders, { withDeleted = false } = {}): string[] {
  const conditions = []
  if (table.tenantScoped) conditions.push(`${columnOf(alias, tenantColumn)} = ${tenantPlaceholder(table, placeholders)}`)
  if (table.softDelete && !withDeleted) {
    // A partial index `where deleted = false` serves the plain form only; a column that may be null needs the other.
    const deleted = columnOf(alias, 'deleted')
    conditions.push(table.columns.get('deleted')?.notNull === true ? `${deleted} = false` : `${deleted} is not true`)
  }
  return conditions
}

/** The tenant of the request, as the table's `tenant_id` has it. */
export function tenantPlaceholder (table: Table, placeholders: Placeholders): string {
  return placeholders.add(bindTenant, table.columns.get(tenantColumn)!.type)
}

/** ` where a and b`, or nothing. */
export function where (conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`
}
