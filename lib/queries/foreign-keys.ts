/**
 * PostgreSQL checks that a referenced row exists, but not that it belongs to the tenant. Therefore a write of a foreign key
 * succeeds only if the referenced row belongs to the request's tenant. Otherwise the statement fails and writes nothing.
 */
import { tenantColumn, type Catalogue, type ForeignKey, type Table } from '../database/catalogue.js'
import { columnOf, tableName } from './identifiers.js'
import { tenantPlaceholder } from './scope.js'
import type { Placeholders } from './sql.js'

/** The foreign keys of a table that could refer to another tenant's rows. */
export function tenantKeys (table: Table, { tables }: Catalogue): readonly ForeignKey[] {
  return table.foreignKeys.filter((key) => {
    const checkedAlready = key.columns.some((column, index) => column === tenantColumn && key.referencedColumns[index] === tenantColumn)
    return tables.get(key.referencedTable)?.tenantScoped === true && !checkedAlready
  })
}

/**
 * A condition that is true if the references of a written row belong to its tenant. Otherwise it fails the statement with
 * SQLSTATE 21000, the one way to raise an error in plain SQL; the engines report it as `constraintViolated`.
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
    const equal = key.columns.map((column, index) => `${columnOf(inner, key.referencedColumns[index]!)} = ${columnOf(alias, column)}`)
      .join(' and ')
    const tenant = `${columnOf(inner, tenantColumn)} = ${tenantPlaceholder(referenced, placeholders)}`
    const allowed = [
      ...key.columns.map((column) => `${columnOf(alias, column)} is null`),
      `exists (select from ${tableName(catalogue.schema, referenced)} ${inner} where ${equal} and ${tenant})`,
      // The statement's snapshot does not include the rows that it writes itself.
      ...(referenced === table ? [`exists (select from ${written} ${inner} where ${equal})`] : [])
    ]
    return `case when ${allowed.join(' or ')} then true else ${raise('true')} end`
  })
}

/** An expression that fails during evaluation: a scalar subquery that returns two rows. */
export function raise (value: string): string {
  return `(select ${value} from generate_series(1, 2))`
}
