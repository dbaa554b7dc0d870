/** Converts the `id` and the `filter` of a watch to the values that PostgreSQL writes in JSON, which are compared as texts. */
import { type Column, keyColumns } from '../../lib/database/catalogue.js'
import type { Engine } from '../../lib/database/engine.js'
import type { TenantryError } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { isNumber } from '../../lib/json/exact-number.js'
import { parseJson } from '../../lib/json/parse.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { encoderOf, kindOf, unfit } from '../../lib/queries/column-value.js'
import { castType } from '../../lib/queries/sql.js'
import { comparable, type Condition, type WatchedTable } from '../../lib/realtime/changes.js'
import { maxFilterColumns } from '../../lib/realtime/messages.js'
import { invalidInput } from '../../lib/validation/detail.js'
import type { WatchRequest } from './types.js'

const maxValueLength = 512 // characters

/** Types that PostgreSQL writes in JSON with one text for equal values. Enums are such types too, and numbers are compared as numbers. */
const writtenOnce: ReadonlySet<string> = new Set([
  'text', 'character varying', 'character', 'name', 'uuid', 'boolean', 'smallint', 'integer', 'bigint', 'numeric', 'real',
  'double precision', 'date', 'timestamp without time zone', 'timestamp with time zone', 'time without time zone',
  'time with time zone', 'bytea', 'bit', 'bit varying', 'inet', 'cidr', 'macaddr', 'macaddr8', 'int4range', 'int8range', 'daterange',
  'tsrange', 'tstzrange'
])

/** A value that a row must have, and its place in the request. */
interface Given {
  readonly name: string
  readonly value: unknown
  readonly path: string
}

/** Rejects with `validationFailed` for unknown or excluded columns, and for values that do not fit their column. */
export async function conditionsOf (
  engine: Engine,
  tenant: Owner,
  { table, excluded }: WatchedTable,
  { id, filter = {}, isText = false }: WatchRequest
): Promise<Condition[]> {
  const given: Given[] = Object.entries(filter).map(([name, value]) => ({ name, value, path: `/filter/${name}` }))
  for (const { name, path } of given) {
    if (!table.columns.has(name) || excluded.has(name)) throw invalid(path, 'is not a column that can be used in filters')
  }
  if (id !== undefined) given.push(...keyOf(id, table).map(([name, value]) => ({ name, value, path: '/id' })))
  if (given.length > maxFilterColumns) throw invalid('/filter', `has ${given.length} columns: expected at most ${maxFilterColumns}`)
  if (given.length === 0) return []
  const bound: unknown[] = []
  const parts = given.map(({ name, value, path }, index) => {
    const column = table.columns.get(name)
    if (column === undefined) throw invalid(path, 'is not a column')
    return `$${bound.push(boundValue(column, value, path, isText))}::${castType(column.type)} as c${index}`
  })
  const statement = { text: `select row_to_json(v.*)::text from (select ${parts.join(', ')}) v`, isRead: true }
  const text = await engine.text(statement, bound, { tenant })
    .catch((error: unknown) => {
      if (isClientFault(error)) throw invalid('/filter', 'a value does not fit its column')
      throw error
    })
  const row = parseJson(text ?? '{}')
  return isRecord(row) ? given.map(({ name }, index) => ({ column: name, text: comparable(row[`c${index}`]) })) : []
}

function boundValue (column: Column, value: unknown, path: string, isText: boolean): unknown {
  checkColumn(column, path)
  if (typeof value === 'object' && value !== null && !isNumber(value)) throw invalid(path, 'must be a single value')
  if (typeof value === 'string' && value.length > maxValueLength) {
    throw invalid(path, `has ${value.length} characters: expected at most ${maxValueLength}`)
  }
  // The template would be compared as plain text, which the client cannot intend.
  if (typeof value === 'string' && value.includes('{{')) throw invalid(path, 'must not contain a template')
  const encoded = value === null ? null : isText ? String(value) : encoderOf(column)(value)
  if (encoded === unfit) throw invalid(path, `is not a value of the type ${column.type}`)
  return column.type === 'character' && typeof encoded === 'string' ? padded(encoded, column.maxLength) : encoded
}

function checkColumn ({ type, labels, nondeterministic, maxLength }: Column, path: string): void {
  if (nondeterministic === true) throw invalid(path, 'has a nondeterministic collation, so it cannot be used in filters')
  const isWrittenOnce = writtenOnce.has(type) || (labels !== undefined && kindOf(type) !== 'array')
  // Without a length, values differ in the blanks at their end.
  if (!isWrittenOnce || (type === 'character' && (maxLength ?? Infinity) > maxValueLength)) {
    throw invalid(path, `is a column of the type ${type}, which cannot be used in filters`)
  }
}

/** As a column `char(n)` has the text: blanks at its end do not count. */
function padded (text: string, length = 0): string {
  const own = text.replace(/ +$/, '')
  return own + ' '.repeat(Math.max(0, length - [...own].length))
}

function keyOf (id: unknown, table: WatchedTable['table']): [string, unknown][] {
  const keys = keyColumns(table)
  const [only] = keys
  if (only !== undefined && keys.length === 1 && !isRecord(id)) return [[only, id]]
  if (!isRecord(id) || Object.keys(id).length !== keys.length || !keys.every((name) => Object.hasOwn(id, name))) {
    throw invalid('/id', `expected ${keys.length === 1 ? 'the value' : 'an object'} of ${keys.join(', ')}`)
  }
  return keys.map((name) => [name, id[name]])
}

function isClientFault (error: unknown): boolean {
  return isRecord(error) && typeof error['statusCode'] === 'number' && error['statusCode'] < 500
}

export function invalid (path: string, message: string): TenantryError {
  return invalidInput(path, message, 'watch')
}
