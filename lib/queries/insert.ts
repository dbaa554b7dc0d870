/** `insert` and `upsert`: one row, or many at once. */
import { type Column, tenantColumn } from '../database/catalogue.js'
import type { Withheld } from './context.js'
import { returnMade, tableEvents, upsertKind } from './entity-events.js'
import { rowConditions, tenantPlaceholder, where } from './filter.js'
import { type Binder, castType, columnOf, type Draft, quote, type Switch, tableName } from './sql.js'
import { type Form, selectWritten, tenantKeys, type Write, type Written } from './write.js'
import type { InputRow, WriteInput } from './write-input.js'

/** A column that the query sets for every row: the key of an upsert. */
export interface FixedColumn {
  readonly column: Column
  readonly bind: Binder
}

export interface InsertParts {
  readonly written: Omit<Written, 'keys'>
  readonly input: WriteInput
  /** On if the request has a value for the column at the same index. */
  readonly switches: readonly Switch[]
  readonly fixed: readonly FixedColumn[]
  /** The columns that identify an existing row in an upsert. */
  readonly conflict?: readonly string[]
  /** The statement writes events of its rows, without the withheld columns. */
  readonly events?: { readonly withheld: Withheld | undefined }
}

/**
 * One row binds each value separately. Many rows are bound as one JSON text, or value by value if an `insert` mixes values and
 * defaults. An upsert writes the rows of each set of columns separately.
 */
export type Rows =
  | { readonly kind: 'one' }
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

/** Writes the statement for the columns whose switches are on. */
export function writeInsert (parts: InsertParts, rows: Rows, draft: Draft): string {
  const { written: { table, catalogue }, input, conflict } = parts
  const given = input.columns.flatMap(({ column }, index) =>
    input.always.has(column.name) || draft.has(parts.switches[index]!) ? [{ column, index }] : []
  )
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
    ? { kind: 'record', unique: true }
    : { kind: 'records', ...(conflict !== undefined && { expected: draft.add(bindCount, 'bigint') }) }
  return selectWritten(
    writes,
    alias,
    { ...parts.written, keys },
    form,
    draft,
    parts.events && {
      part: tableEvents(
        table,
        parts.events.withheld,
        conflict === undefined ? 'created' : upsertKind(table, catalogue, conflict, draft),
        draft
      ),
      returning: conflict === undefined ? '' : returnMade(table, alias)
    }
  )
}

/** `insert ...` without `returning`. */
function insertText (parts: InsertParts, rows: Source, all: readonly GivenColumn[], alias: string, draft: Draft): string {
  const { written: { table, catalogue }, input, fixed, conflict } = parts
  const given = all.filter(({ column }) => !fixed.some((each) => each.column === column))
  const columns = [
    ...(table.tenantScoped ? [{ name: tenantColumn, value: tenantPlaceholder(table, draft) }] : []),
    ...fixed.map(({ column, bind }) => ({ name: column.name, value: draft.add(bind, column.type) }))
  ]
  const names = [...columns.map(({ name }) => name), ...given.map(({ column }) => column.name)]
  const source = sourceOf(columns.map(({ value }) => value), given, rows, draft)
  // A list of columns cannot be empty; any column works if each row takes its default.
  const target = names.length > 0 ? names : rows.kind === 'one' ? [] : [input.columns[0]!.column.name]
  const list = target.length === 0 ? '' : ` (${target.map(quote).join(', ')})`
  return `insert into ${tableName(catalogue.schema, table)} as ${alias}${list} ${source}${
    conflict === undefined ? '' : onConflict(parts, conflict, names, alias, draft)
  }`
}

function groupWrite (
  parts: InsertParts,
  { rows, json, places }: RowGroup,
  all: readonly GivenColumn[],
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

interface GivenColumn {
  readonly column: Column
  readonly index: number
}

function sourceOf (leading: readonly string[], given: readonly GivenColumn[], rows: Source, draft: Draft): string {
  switch (rows.kind) {
    case 'one': {
      const values = [...leading, ...given.map(({ column, index }) => draft.add(rowBinder(index), column.type))]
      return values.length === 0 ? 'default values' : `values (${values.join(', ')})`
    }
    case 'json': {
      const definition = given.map(({ column }) => `${quote(column.name)} ${castType(column.type)}`).join(', ')
      const values = [...leading, ...given.map(({ column }) => columnOf('x', column.name))]
      const json = draft.add(rows.bind ?? bindRows, 'json')
      return given.length === 0
        ? `select ${values.join(', ')} from json_array_elements(${json})`
        : `select ${values.join(', ')} from json_to_recordset(${json}) as x(${definition})`
    }
    case 'each':
      return `values ${rows.rows.map((row) => tuple(leading, given, row, draft)).join(', ')}`
  }
}

function tuple (leading: readonly string[], given: readonly GivenColumn[], { bound }: InputRow, draft: Draft): string {
  const values = given.map(({ column, index }) =>
    bound[index] === undefined ? 'default' : draft.add(() => bound[index], column.type)
  )
  return `(${[...leading, ...values].join(', ') || 'default'})`
}

const rowBinders: Binder[] = []

/** The same index gives the same function, so that a value has one placeholder. */
export function rowBinder (index: number): Binder {
  const known = rowBinders[index]
  if (known !== undefined) return known
  const binder: Binder = (_scope, { row }) => row[index]
  rowBinders[index] = binder
  return binder
}

/** A row that belongs to another tenant, or is soft-deleted, is not changed: the statement then returns no row. */
function onConflict (
  { written: { table } }: InsertParts,
  conflict: readonly string[],
  names: readonly string[],
  alias: string,
  draft: Draft
): string {
  const changed = names.filter((name) => !conflict.includes(name) && !(table.tenantScoped && name === tenantColumn))
  // Without an update, PostgreSQL would return no row.
  const set = (changed.length > 0 ? changed : conflict.slice(0, 1)).map((name) => `${quote(name)} = excluded.${quote(name)}`)
  return ` on conflict (${conflict.map(quote).join(', ')}) do update set ${set.join(', ')}${where(rowConditions(table, alias, draft))}`
}
