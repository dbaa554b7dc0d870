/** Converts the `id` and the `filter` of a watch to the values that PostgreSQL writes in JSON, which are compared as texts. */
import { keyColumns } from '../../lib/database/catalogue.js'
import type { Engine } from '../../lib/database/engine.js'
import { identifier } from '../../lib/database/sql.js'
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

/** Rejects with `validationFailed` for unknown or excluded columns, and for values that do not fit their column. */
export async function conditionsOf (
  engine: Engine,
  tenant: Owner,
  watched: WatchedTable,
  { id, filter = {}, isText = false }: WatchRequest
): Promise<Condition[]> {
  const { table, excluded } = watched
  const values = new Map<string, unknown>()
  for (const [name, value] of Object.entries(filter)) {
    if (!table.columns.has(name) || excluded.has(name)) throw invalid(`/filter/${name}`, 'is not a column that can be used in filters')
    values.set(name, value)
  }
  if (id !== undefined) { for (const [name, value] of keyOf(id, table)) values.set(name, value) }
  if (values.size > maxFilterColumns) throw invalid('/filter', `has ${values.size} columns: expected at most ${maxFilterColumns}`)
  const bound: unknown[] = []
  const parts: string[] = []
  for (const [name, value] of values) {
    const column = table.columns.get(name)
    if (column === undefined) throw invalid(`/filter/${name}`, 'is not a column')
    const path = id !== undefined && !Object.hasOwn(filter, name) ? '/id' : `/filter/${name}`
    const kind = kindOf(column.type)
    if (kind === 'json' || kind === 'array' || kind === 'vector') {
      throw invalid(path, `is a column of the type ${column.type}, which cannot be used in filters`)
    }
    if (typeof value === 'object' && value !== null && !isNumber(value)) throw invalid(path, 'must be a single value')
    if (typeof value === 'string' && value.length > maxValueLength) {
      throw invalid(path, `has ${value.length} characters: expected at most ${maxValueLength}`)
    }
    // The template would be compared as plain text, which the client cannot intend.
    if (typeof value === 'string' && value.includes('{{')) throw invalid(path, 'must not contain a template')
    const encoded = value === null ? null : isText ? String(value) : encoderOf(column)(value)
    if (encoded === unfit) throw invalid(path, `is not a value of the type ${column.type}`)
    parts.push(`$${bound.push(encoded)}::${castType(column.type)} as ${identifier(name)}`)
  }
  if (parts.length === 0) return []
  const statement = { text: `select row_to_json(v.*)::text from (select ${parts.join(', ')}) v`, isRead: true }
  const text = await engine.text(statement, bound, { tenant })
    .catch((error: unknown) => {
      if (isClientFault(error)) throw invalid('/filter', 'a value does not fit its column')
      throw error
    })
  const row = parseJson(text ?? '{}')
  return isRecord(row) ? Object.entries(row).map(([column, value]) => ({ column, text: comparable(value) })) : []
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
