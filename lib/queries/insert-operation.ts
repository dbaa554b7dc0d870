/** Compiles `insert` and `upsert` from the configured `data` or the body. */
import { sameColumns, type Table, tenantColumn } from '../database/catalogue.js'
import { compileValue } from '../expressions/template.js'
import type { Reference, Scope } from '../expressions/types.js'
import { stringifyJson } from '../json/stringify.js'
import { pointerTo } from '../schema/faults.js'
import { invalidInput } from '../validation/detail.js'
import { isJsonArray, unfit } from './column-value.js'
import type { BoundQuery } from './compiled-query.js'
import { findColumn } from './context.js'
import { compileWrite } from './entity-events.js'
import { type FixedColumn, type InsertParts, type RowGroup, type Rows, writeInsert } from './insert.js'
import { encoderFor, misfitOf } from './json-value.js'
import type { CompiledOperation } from './operation.js'
import { refuse, requestPath } from './request-value.js'
import { asValues, keyValues } from './row-key.js'
import { type Binder, type Input, writeOnce } from './sql.js'
import type { Subject } from './subject.js'
import { tenantKeys } from './write.js'
import { compileInput, type InputRow, unwritable, type WriteInput } from './write-input.js'

/** PostgreSQL accepts 65,535 parameters; the statement itself needs a few. */
const maxValues = 65_000

/** Each set of columns in an upsert is a separate `insert`, which PostgreSQL plans for each request. */
const maxGroups = 100

const smallRow = 1_000_000 // characters of a row's values; in JSON, one has at most six bytes

/** Types whose JSON is not much longer than the input. That of `jsonb` may be: `1e300` has 301 digits there. */
const plainTypes = new Set([
  'bigint', 'boolean', 'character varying', 'date', 'double precision', 'integer', 'numeric', 'real', 'smallint', 'text',
  'timestamp with time zone', 'timestamp without time zone', 'uuid'
])

/** The result for an empty array. */
const noRecords: BoundQuery = Object.freeze({
  statement: Object.freeze({ text: 'select \'{"data":[]}\'' }),
  values: Object.freeze([]),
  resultKind: 'records'
})

/** Compiles the operation; undefined after faults. */
export function compileInsert (subject: Subject): CompiledOperation | undefined {
  const { query, table, pointer, context, excluded } = subject
  const before = context.faults.faults.length
  // `single` means one record in and out: arrays are rejected.
  const input = compileInput(query.data, table, pointer, context, {
    excluded,
    many: query.single !== true,
    omit: query.operation === 'insert' ? 'every' : 'some'
  })
  const { columns: fixed, references, inputPointers } = fixedColumns(subject)
  const conflict = query.operation === 'upsert' ? conflictColumns(subject) : undefined
  if (input !== undefined && conflict !== undefined) checkSent(conflict, input, fixed, subject)
  if (input === undefined || context.faults.faults.length > before) return undefined

  const parts: InsertParts = { subject, input, fixed, conflict }
  const switches = [...subject.switches, ...input.columns.flatMap(({ presence }) => presence ?? [])]
  const compileRows = (rows: Rows) =>
    compileWrite(context.origin, switches, (draft, events) => writeInsert(parts, rows, draft, events))
  const one = compileRows({ kind: 'one' })
  const ofSmall = conflict === undefined && fixed.length === 0 && hasPlainColumns(table) ? compileRows({ kind: 'one', isSmall: true }) : one
  const many = input.dynamic ? compileRows({ kind: 'json' }) : one

  const bind = (scope: Scope): BoundQuery => {
    const read = input.read(scope)
    if (!read.many) {
      const { bound } = read.rows[0]!
      return (isSmall(bound) ? ofSmall : one)(scope, { row: bound, rows: '', count: 1 })
    }
    if (read.rows.length === 0) return noRecords
    const count = read.rows.length
    if (conflict !== undefined) refuseSameKeys(read.rows, conflict, input, fixed)
    const row = presence(read.rows, input)
    const groups = conflict === undefined ? [] : groupRows(read.rows, input)
    const rows = rowsOf(read.rows, row, input, groups)
    if (rows === undefined) {
      const { statement, values } = many(scope, { row, rows: rowsAsJson(read.rows, input), count })
      return { statement, values, resultKind: 'records' }
    }
    const { statement, values } = writeOnce(
      switches,
      (draft) => writeInsert(parts, rows, draft, scope.events === true),
      scope,
      { row, rows: '', count }
    )
    return { statement, values, resultKind: 'records' }
  }
  return {
    resultKind: 'record',
    missing: conflict === undefined ? 'notFound' : 'conflict',
    references: [...input.references, ...references],
    inputPointers: new Map([...input.inputPointers, ...inputPointers]),
    tenantKeys: tenantKeys(table, context.catalogue),
    bind
  }
}

/** A trigger of a view may return any row. */
function hasPlainColumns ({ view, columns }: Table): boolean {
  if (view) return false
  for (const { type } of columns.values()) if (!plainTypes.has(type)) return false
  return true
}

/** Whether the row needs no check of its result's size. PostgreSQL's check costs a tenth of an insert. */
function isSmall (values: readonly unknown[]): boolean {
  let length = 0
  for (const value of values) if (typeof value === 'string') length += value.length
  return length <= smallRow
}

/** The key from `id` or from the filters of an upsert. These values override the data. */
function fixedColumns ({ query, table, pointer, context }: Subject) {
  const given = [
    ...query.id === undefined ? [] : keyValues(query.id, table, pointerTo(pointer, 'id'), context),
    ...query.operation === 'upsert' ? asValues(query.filters ?? [], pointerTo(pointer, 'filters'), context) : []
  ]
  const columns: FixedColumn[] = []
  const references: Reference[] = []
  const inputPointers = new Map<string, string>()
  for (const { column: name, value: configured, pointer: at } of given) {
    const column = findColumn(table, name, at, context)
    const value = compileValue(configured, at, context)
    if (column === undefined) continue
    if (columns.some((known) => known.column === column)) {
      context.faults.add(at, `the query already sets "${name}": remove one of the two`)
      continue
    }
    const reason = unwritable(table, column)
    if (reason !== undefined || (table.tenantScoped && name === tenantColumn)) {
      context.faults.add(
        at,
        reason === undefined ? `"${name}" is always the tenant of the request: remove it` : `the column "${name}" ${reason}`
      )
      continue
    }
    references.push(...value.references)
    const encode = encoderFor(column, value)
    const place = requestPath(value, '')
    const bind: Binder = (scope) => {
      const found = value.evaluate(scope)
      const encoded = found === undefined || found === null ? unfit : encode(found)
      if (encoded === unfit) throw refuse([{ path: place || `/${name}`, ...misfitOf(column, found) }])
      return encoded
    }
    columns.push({ column, bind })
    if (place !== '') inputPointers.set(name, place)
  }
  return { columns, references, inputPointers }
}

function conflictColumns (subject: Subject): readonly string[] | undefined {
  const { query: { onConflict: named }, table, pointer, context } = subject
  const { faults } = context
  const at = pointerTo(pointer, 'onConflict')
  if (named === undefined) {
    checkDeferrable(table.primaryKey, pointer, subject)
    if (table.primaryKey.length === 0) faults.add(pointer, `"${table.name}" has no primary key: set the unique columns in \`onConflict\``)
    return table.primaryKey
  }
  for (const [index, name] of named.entries()) findColumn(table, name, pointerTo(at, index), context)
  const keys = [table.primaryKey, ...table.uniqueKeys]
  const key = keys.find((each) => sameColumns(each, named)) ??
    // A unique key of a tenant-scoped table is unique within the tenant.
    (table.tenantScoped ? keys.find((each) => sameColumns(each, [tenantColumn, ...named])) : undefined)
  if (key === undefined) {
    faults.add(
      at,
      `no primary key or unique constraint of "${table.name}" has these columns; it has ${
        keys.filter((key) => key.length > 0).map((key) => `(${key.join(', ')})`).join(', ') || 'none'
      }`
    )
  } else checkDeferrable(key, at, subject)
  return key
}

/** PostgreSQL refuses each upsert by such a key, also if another key has the same columns. */
function checkDeferrable (key: readonly string[], at: string, { table, context }: Subject): void {
  if (table.deferrableKeys?.some((each) => sameColumns(each, key)) !== true) return
  context.faults.add(
    at,
    `an upsert cannot find its row by (${key.join(', ')}), since this key of "${table.name}" is DEFERRABLE: make it NOT DEFERRABLE, or name another key in \`onConflict\``
  )
}

/** Without a value of its key, an upsert would insert a new row each time. */
function checkSent (
  conflict: readonly string[],
  { isDropped }: WriteInput,
  fixed: readonly FixedColumn[],
  { query, pointer, context }: Subject
): void {
  for (const name of conflict) {
    if (name === tenantColumn || !isDropped(name) || fixed.some(({ column }) => column.name === name)) continue
    context.faults.add(
      query.onConflict === undefined ? pointer : pointerTo(pointer, 'onConflict'),
      `the upsert finds its row by "${name}", whose value \`excludeFields\` removes from requests: set "${name}" in \`filters\`, or omit it by \`response\` instead`
    )
  }
}

/** Whether any row has a value, for each column. */
function presence (rows: readonly InputRow[], { columns }: WriteInput): readonly unknown[] {
  return columns.map((_, index) => rows.some(({ json }) => json[index] !== undefined) ? true : undefined)
}

/** Groups the rows of an upsert by their columns, in the order of the request: an upsert changes only the columns of its row. */
function groupRows (rows: readonly InputRow[], input: WriteInput): readonly RowGroup[] {
  const groups = new Map<string, { rows: InputRow[], places: number[] }>()
  for (const [index, row] of rows.entries()) {
    let key = ''
    for (let column = 0; column < input.columns.length; column++) key += row.json[column] === undefined ? '-' : '+'
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { rows: [row], places: [index + 1] })
    else {
      group.rows.push(row)
      group.places.push(index + 1)
    }
  }
  if (groups.size > maxGroups) {
    throw invalidInput(input.path, `must contain records with at most ${maxGroups} different sets of fields`, 'maxItems')
  }
  return [...groups.values()].map((group) => ({ ...group, json: rowsAsJson(group.rows, input) }))
}

/** The rows that need a separate kind of statement; undefined if one list of columns fits all of them. */
function rowsOf (rows: readonly InputRow[], row: readonly unknown[], input: WriteInput, groups: readonly RowGroup[]): Rows | undefined {
  if (groups.length > 1) return { kind: 'groups', groups }
  if (!mixesDefaults(rows, row, input)) return undefined
  if (rows.length * row.length > maxValues) {
    throw invalidInput(input.path, `must contain at most ${maxValues} values if its records have different fields`, 'maxItems')
  }
  return { kind: 'each', rows }
}

/** Whether a column has a value in one row and takes its default in another: one list of columns does not fit both. */
function mixesDefaults (rows: readonly InputRow[], row: readonly unknown[], { columns }: WriteInput): boolean {
  if (row.every((each) => each === undefined)) return true
  return columns.some(({ column }, index) => column.hasDefault && row[index] === true && rows.some(({ json }) => json[index] === undefined))
}

function rowsAsJson (rows: readonly InputRow[], { columns }: WriteInput): Input['rows'] {
  const members = columns.map(({ column }) => ({ name: column.name, hasTextItems: isJsonArray(column) }))
  return stringifyJson(rows.map(({ json, bound }) => {
    const record: Record<string, unknown> = Object.create(null)
    for (let index = 0; index < members.length; index++) {
      const { name, hasTextItems } = members[index]!
      if (json[index] !== undefined) record[name] = hasTextItems ? bound[index] : json[index]
    }
    return record
  }))
}

// Rejects an upsert with two records for the same row. PostgreSQL would reject it too, but without the record or the key.

/** Compares the values as sent; the database rejects values that only it considers equal. */
function refuseSameKeys (
  rows: readonly InputRow[],
  conflict: readonly string[],
  { columns, path }: WriteInput,
  fixed: readonly FixedColumn[]
): void {
  const names = conflict.filter((name) => name !== tenantColumn && !fixed.some(({ column }) => column.name === name))
  const indexes = names.map((name) => columns.findIndex(({ column }) => column.name === name))
  const seen = new Map<string, number>()
  for (const [index, { bound }] of rows.entries()) {
    const values = indexes.map((each) => bound[each])
    // A row without a value takes its default, and null equals nothing.
    if (values.some((value) => value === undefined || value === null)) continue
    const key = JSON.stringify(values.map((value, place) => comparable(value, columns[indexes[place]!]?.column.type)))
    const first = seen.get(key)
    if (first === undefined) {
      seen.set(key, index)
      continue
    }
    const message = names.length === 0
      ? 'all records of the request have the same key from the route: send one record'
      : `record ${first} of this request has the same ${names.join(', ')}: send each key once`
    throw refuse((names.length === 0 ? [undefined] : names).map((name) => ({
      path: name === undefined ? pointerTo(path, index) : pointerTo(path, index, name),
      message,
      keyword: 'uniqueItems'
    })))
  }
}

function comparable (value: unknown, type: string | undefined): string {
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return type === 'uuid' ? text.toLowerCase().replace(/[{}-]/g, '') : text
}
