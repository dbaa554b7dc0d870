/**
 * The columns and tables that a record lacks, and SQL that would add them. Proposals are limited to what a document could declare: names of
 * declared tables, types by the values, and statements of migrations.
 */
import { type Table, tenantColumn } from '../../lib/database/catalogue.js'
import { columnsProposal, tableProposal } from '../../lib/database/migrations/proposal.js'
import { uuidForm } from '../../lib/identity/uuid.js'
import { ExactNumber, fitsInt64, isNumber } from '../../lib/json/exact-number.js'
import { formOf } from '../../lib/queries/column-value.js'
import { meant, pointerTo } from '../../lib/schema/faults.js'
import type { ColumnDefinition } from '../../lib/schema/table.js'
import type { ErrorDetail } from '../../lib/validation/detail.js'

/** By column. */
type Values = Readonly<Record<string, unknown>>

const form = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/
const formText = '1 to 63 letters, digits and underscores that do not start with a digit'

/** PostgreSQL has columns of these names in every table. */
const systemColumns = new Set(['ctid', 'xmin', 'xmax', 'cmin', 'cmax', 'tableoid'])

const tablePath = '/body/table'

/** The reason why a table of this name is not proposed; none if it could be. */
export function tableFaults (name: string): ErrorDetail[] {
  if (form.test(name) && !name.startsWith('pg_')) return []
  const reason = form.test(name)
    ? 'names that start with "pg_" are reserved by PostgreSQL'
    : `no SQL is proposed for this name: must be ${formText}`
  return [{ path: tablePath, message: `there is no such table, and ${reason}`, keyword: 'pattern' }]
}

export const takenFault: ErrorDetail = {
  path: tablePath,
  message: 'there is no such table, but a partition, index, sequence or type with this name',
  keyword: 'not'
}

/** The reasons why columns of these names are not proposed, one detail each. */
export function columnFaults (names: readonly string[]): ErrorDetail[] {
  return names.flatMap((name) => {
    const message = columnFault(name)
    return message === undefined ? [] : [{ path: placeOf(name), message, keyword: 'propertyNames' }]
  })
}

function columnFault (name: string): string | undefined {
  if (!form.test(name)) return `there is no such column, and no SQL is proposed for this name: must be ${formText}`
  return systemColumns.has(name) ? 'is the name of a system column of PostgreSQL' : undefined
}

/** A missing column, with a similar existing one. */
export function missingColumn ({ name: table, columns }: Table, name: string, declared: boolean): ErrorDetail {
  return {
    path: placeOf(name),
    message: `"${table}" has no column with this name${declared ? ', which is declared but not created yet' : meant(name, columns.keys())}`,
    keyword: 'additionalProperties'
  }
}

/** The tenant column is never added by this endpoint: it would decide the owner of every row. */
export function tenantFault (names: readonly string[]): ErrorDetail[] {
  if (!names.includes(tenantColumn)) return []
  return [{
    path: placeOf(tenantColumn),
    message: 'the rows of this table do not belong to tenants: omit this column, or declare the table with `tenantScoped` and migrate',
    keyword: 'additionalProperties'
  }]
}

const maxShown = 63 // characters of a name, PostgreSQL's limit

/** A name for messages, cut if it is long. */
export function shown (name: string): string {
  return name.length > maxShown ? `${name.slice(0, maxShown)}…` : name
}

function placeOf (name: string): string {
  return pointerTo('/body/data', shown(name))
}

/** SQL that creates a table for the record, with a missing schema, an `id` if it lacks one, and tenant-scoped for a tenant's record. */
export function tableSql (
  at: { readonly schema: string, readonly hasSchema: boolean },
  name: string,
  data: Values,
  ofTenant: boolean
): string {
  const tenantScoped = ofTenant || Object.hasOwn(data, tenantColumn)
  const { [tenantColumn]: _, id, ...others } = data
  const key: ColumnDefinition = (id ?? null) === null ? { type: 'uuid', default: 'uuid()' } : { type: typeOf(id) }
  return tableProposal(at, name, { columns: { id: { ...key, primaryKey: true }, ...definitionsOf(others) }, tenantScoped })
}

/** SQL that adds columns for these values to an existing table. */
export function columnsSql (schema: string, table: Table, values: Values): string {
  return columnsProposal(schema, table, definitionsOf(values))
}

function definitionsOf (values: Values): Record<string, ColumnDefinition> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { type: typeOf(value) }]))
}

const dateTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d/

/** The widest type that fits the value; for null a text, which fits any value. */
function typeOf (value: unknown): ColumnDefinition['type'] {
  switch (typeof value) {
    case 'boolean':
      return 'boolean'
    case 'number':
      return Number.isSafeInteger(value) ? 'bigint' : 'numeric'
    case 'bigint':
      return fitsInt64(value) ? 'bigint' : 'numeric'
    case 'string':
      if (uuidForm.test(value)) return 'uuid'
      return dateTime.test(value) && formOf('timestamp with time zone')?.fits(value) === true ? 'timestamptz' : 'text'
    default:
      if (value === null) return 'text'
      if (Array.isArray(value)) return arrayTypeOf(value)
      return value instanceof ExactNumber ? 'numeric' : 'jsonb'
  }
}

function arrayTypeOf (items: readonly unknown[]): ColumnDefinition['type'] {
  if (items.length === 0) return 'jsonb'
  if (items.every((item) => typeof item === 'string')) return 'text[]'
  if (items.every((item) => typeof item === 'boolean')) return 'boolean[]'
  if (items.every(isNumber)) return items.every((item) => typeOf(item) === 'bigint') ? 'bigint[]' : 'numeric[]'
  return 'jsonb'
}
