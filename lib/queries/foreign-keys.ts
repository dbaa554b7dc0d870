/**
 * PostgreSQL checks that a foreign key's row exists, not whose it is. A write of such a column answers its row only if
 * the row that it refers to is of the request's tenant; otherwise the statement fails and nothing is written.
 */
import type { Catalogue, ForeignKey, Table } from '../database/catalogue.js'
import { tenantColumn } from '../database/catalogue.js'
import { columnOf, tableName } from './identifiers.js'
import { tenantPlaceholder } from './scope.js'
import type { Placeholders } from './sql.js'

/** The foreign keys of a table whose rows could be another tenant's. */
export function tenantKeys (table: Table, { tables }: Catalogue): readonly ForeignKey[] {
  return table.foreignKeys.filter((key) => {
    const checkedAlready = key.columns.some((column, index) => column === tenantColumn && key.referencedColumns[index] === tenantColumn)
    return tables.get(key.referencedTable)?.tenantScoped === true && !checkedAlready
  })
}

/**
 * A condition that is true for a written row whose references are of its tenant, and otherwise ends the statement with
 * SQLSTATE 21000 (the one way to raise an error in plain SQL), which the engines answer as `constraintViolated`.
 */
export function referencesOwnTenant (
  keys: readonly ForeignKey[],
  table: Table,
  catalogue: Catalogue,
  written: string,
  alias: string,
  placeholders: Placeholders
): string[] {
  return keys.map((key) => {
    const referenced = catalogue.tables.get(key.referencedTable)!
    const inner = placeholders.alias()
    const equal = key.columns.map((column, index) => `${columnOf(inner, key.referencedColumns[index]!)} = ${columnOf(alias, column)}`).join(
      ' and '
    )
    const tenant = `${columnOf(inner, tenantColumn)} = ${tenantPlaceholder(referenced, placeholders)}`
    const allowed = [
      ...key.columns.map((column) => `${columnOf(alias, column)} is null`),
      `exists (select from ${tableName(catalogue.schema, referenced)} ${inner} where ${equal} and ${tenant})`,
      // A row that this statement writes is not in the table yet as the statement sees it.
      ...(referenced === table ? [`exists (select from ${written} ${inner} where ${equal})`] : [])
    ]
    return `case when ${allowed.join(' or ')} then true else ${raise('true')} end`
  })
}

/** An expression that fails when it is evaluated: a subquery of two rows where one is expected. */
export function raise (value: string): string {
  return `(select ${value} from generate_series(1, 2))`
}
