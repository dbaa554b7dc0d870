/** `insert` and `upsert`: one row, or many at once. */
import { type Column, type Table, tenantColumn } from '../database/catalogue.js'
import { isJsonArray } from './column-value.js'
import { returnMade, tableEvents, upsertKind } from './entity-events.js'
import { rowConditions, tenantPlaceholder, where } from './filter.js'
import { type Binder, castType, columnOf, type Draft, quote, tableName } from './sql.js'
import type { Subject } from './subject.js'
import { type Form, selectWritten, tenantKeys, type Write } from './write.js'
import { givenColumns, type InputColumn, type InputRow, type WriteInput } from './write-input.js'

/** A column that the query sets for every row: the key of an upsert. */
export interface FixedColumn {
  readonly column: Column
  readonly bind: Binder
}

export interface InsertParts {
  readonly subject: Subject
  readonly input: WriteInput
  readonly fixed: readonly FixedColumn[]
  /** The columns that identify an existing row in an upsert. */
  readonly conflict: readonly string[] | undefined
}

/** One row binds each value. Many rows are one JSON text, or values if they mix in defaults; an upsert writes each set of columns. */
export type Rows =
  /** `isSmall`: the returned record is far below the limit of a result. */
  | { readonly kind: 'one', readonly isSmall?: boolean }
  | { readonly kind: 'json' }
  | { readonly kind: 'each', readonly rows: readonly InputRow[] }
  | { readonly kind: 'groups', readonly groups: readonly RowGroup[] }

/** The rows of an upsert with the same columns. */
export interface RowGroup {
  readonly rows: readonly InputRow[]
  /** The same rows as one JSON text. */
  readonly json: string
  /** The position of each row in the request, from 1. */
  readonly places: readonly number[]
}

/** Writes the statement for the columns whose switches are on; with `events`, it also writes events of its rows. */
export function writeInsert (parts: InsertParts, rows: Rows, draft: Draft, events: boolean): string {
  const { subject, input, conflict } = parts
  const { table, context: { catalogue, withheld } } = subject
  const given = givenColumns(input, draft)
  const alias = draft.alias()
  const writes = rows.kind === 'groups'
    ? rows.groups.map((group) => groupWrite(parts, group, given, alias, draft))
    : [{ text: insertText(parts, rows, given, alias, draft) }]

  const names = new Set([
    ...parts.fixed.map(({ column }) => column.name),
    ...given.map(({ column }) => column.name),
    ...table.tenantScoped ? [tenantColumn] : []
  ])
  const keys = tenantKeys(table, catalogue).filter((key) =>
    key.columns.some((column) => names.has(column) || table.columns.get(column)?.hasDefault === true)
  )
  const form: Form = rows.kind === 'one'
    ? { kind: 'record', unique: true, ...rows.isSmall === true && { isSmall: true } }
    : { kind: 'records', ...(conflict !== undefined && { expected: draft.add(bindCount, 'bigint') }) }
  const kind = conflict === undefined ? 'created' : upsertKind(table, catalogue, conflict, draft)
  const returning = conflict === undefined ? '' : returnMade(table, alias)
  const written = events ? { part: tableEvents(table, withheld, kind, draft), returning } : undefined
  return selectWritten(subject, writes, alias, keys, form, draft, written)
}

/** `insert ...` without `returning`. */
function insertText (parts: InsertParts, rows: Source, all: readonly InputColumn[], alias: string, draft: Draft): string {
  const { subject: { table, context: { catalogue } }, fixed, conflict } = parts
  const given = all.filter(({ column }) => !fixed.some((each) => each.column === column))
  const columns = [
    ...(table.tenantScoped ? [{ name: tenantColumn, value: tenantPlaceholder(table, draft) }] : []),
    ...fixed.map(({ column, bind }) => ({ name: column.name, value: draft.add(bind, column.type) }))
  ]
  const names = [...columns.map(({ name }) => name), ...given.map(({ column }) => column.name)]
  const source = sourceOf(columns.map(({ value }) => value), given, rows, draft)
  // A list of columns cannot be empty. Without one, each column takes its default.
  const list = names.length === 0 ? '' : ` (${names.map(quote).join(', ')})`
  return `insert into ${tableName(catalogue.schema, table)} as ${alias}${list} ${source}${
    conflict === undefined ? '' : onConflict(table, conflict, names, alias, draft)
  }`
}

function groupWrite (
  parts: InsertParts,
  { rows, json, places }: RowGroup,
  all: readonly InputColumn[],
  alias: string,
  draft: Draft
): Write {
  const [first] = rows
  const given = all.filter(({ index }) => first?.json[index] !== undefined)
  const source: Source = given.length === 0 ? { kind: 'each', rows } : { kind: 'json', bind: () => json }
  return { text: insertText(parts, source, given, alias, draft), places: draft.add(() => places, 'integer[]') }
}

const bindCount: Binder = (_scope, input) => input.count
const bindRows: Binder = (_scope, input) => input.rows

/** The rows of one `insert`. `bind` defaults to the rows of the request. */
type Source = Exclude<Rows, { kind: 'json' | 'groups' }> | { readonly kind: 'json', readonly bind?: Binder }

function sourceOf (leading: readonly string[], given: readonly InputColumn[], rows: Source, draft: Draft): string {
  switch (rows.kind) {
    case 'one': {
      const values = [...leading, ...given.map(({ column, index }) => draft.add(rowBinder(index), column.type))]
      return values.length === 0 ? 'default values' : `values (${values.join(', ')})`
    }
    case 'json': {
      // For an array of JSON, PostgreSQL would take nested arrays as dimensions: `rowsAsJson` writes its items as texts.
      const typeOf = (column: Column) => isJsonArray(column) ? 'text[]' : castType(column.type)
      const definition = given.map(({ column }) => `${quote(column.name)} ${typeOf(column)}`).join(', ')
      const values = [
        ...leading,
        ...given.map(({ column }) => columnOf('x', column.name) + (isJsonArray(column) ? `::${column.type}` : ''))
      ]
      const json = draft.add(rows.bind ?? bindRows, 'json')
      return given.length === 0
        ? `select ${values.join(', ')} from json_array_elements(${json})`
        : `select ${values.join(', ')} from json_to_recordset(${json}) as x(${definition})`
    }
    case 'each':
      if (leading.length === 0 && given.length === 0) return `select from generate_series(1, ${rows.rows.length})`
      return `values ${rows.rows.map((row) => tuple(leading, given, row, draft)).join(', ')}`
  }
}

function tuple (leading: readonly string[], given: readonly InputColumn[], { bound }: InputRow, draft: Draft): string {
  const values = given.map(({ column, index }) =>
    bound[index] === undefined ? 'default' : draft.add(() => bound[index], column.type)
  )
  return `(${[...leading, ...values].join(', ')})`
}

const rowBinders: Binder[] = []

/** The same index gives the same function, so that a value has one placeholder. */
export function rowBinder (index: number): Binder {
  rowBinders[index] ??= (_scope, { row }) => row[index]
  return rowBinders[index]
}

/** A row that belongs to another tenant, or is soft-deleted, is not changed: the statement then returns no row. */
function onConflict (table: Table, conflict: readonly string[], names: readonly string[], alias: string, draft: Draft): string {
  const changed = names.filter((name) => !conflict.includes(name) && !(table.tenantScoped && name === tenantColumn))
  // Without an update, PostgreSQL would return no row.
  const set = (changed.length > 0 ? changed : conflict.slice(0, 1)).map((name) => `${quote(name)} = excluded.${quote(name)}`)
  return ` on conflict (${conflict.map(quote).join(', ')}) do update set ${set.join(', ')}${where(rowConditions(table, alias, draft))}`
}
