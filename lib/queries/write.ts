/** The common parts of all writes: references within the tenant, and the response from the written rows. */
import { type Catalogue, type ForeignKey, type Table, tenantColumn } from '../database/catalogue.js'
import { hasEmbeds, selectList } from './embed.js'
import type { Selection } from './field.js'
import { tenantPlaceholder, where } from './filter.js'
import { boundedRowText, boundedText, columnOf, type Draft, freeName, quote, tableName } from './sql.js'
import type { Subject } from './subject.js'

/** The number and form of the returned rows. */
export type Form =
  /** `isSmall`: the record is far below the limit of a result. */
  | { readonly kind: 'record', readonly unique: boolean, readonly isSmall?: boolean }
  /** `expected`: a placeholder of the number of rows; with fewer rows the statement fails as a conflict and writes nothing. */
  | { readonly kind: 'records', readonly expected?: string }

/** The events of a write: a part of its statement that reads `w`, and the further columns that the part needs. */
interface WrittenEvents {
  /** `, e as (...)` */
  readonly part: string
  /** `, ... as ...` */
  readonly returning: string
}

/** `insert ...` or `update ...` without `returning`. */
export interface Write {
  readonly text: string
  /** A placeholder of its rows' positions in the response, from 1, if several writes make one response. */
  readonly places?: string
}

/** Combines the writes into one statement that returns the rows, all written to `alias`. `keys`: foreign keys whose tenant is checked. */
export function selectWritten (
  subject: Subject,
  writes: readonly Write[],
  alias: string,
  keys: readonly ForeignKey[],
  form: Form,
  draft: Draft,
  events: WrittenEvents | undefined
): string {
  const { table, context: { catalogue } } = subject
  const selection = subject.selection(draft)
  const rendering = { schema: catalogue.schema, draft }
  const [only] = writes
  const plain = only?.places === undefined && keys.length === 0 && !hasEmbeds(selection) && events === undefined
  if (plain && only !== undefined && form.kind === 'record' && form.isSmall === true && isWhole(selection)) {
    return `${only.text} returning row_to_json(${alias}.*)::text`
  }
  const returning = plain ? selectList(selection, alias, rendering) || 'null' : `${alias}.*${events?.returning ?? ''}`
  const w = draft.alias()
  const rows = plain
    ? 'w'
    : `(select ${selectList(selection, w, rendering)} from w ${w}${where(referencesOwnTenant(keys, subject, w, draft))})`
  const record = plain && selection.fields.length === 0 ? "'{}'::json" : 'row_to_json(r.*)'
  return `with ${writtenRows(writes, returning, table)}${events?.part ?? ''} ${selectResult(rows, record, form)}`
}

/** Whether the records have exactly the columns of the table, in its order and under their names. */
function isWhole ({ table, fields }: Selection): boolean {
  const names = [...table.columns.keys()]
  return fields.length === names.length &&
    fields.every((field, index) => field.kind === 'column' && field.name === names[index] && field.column.name === field.name)
}

/** `w as (...)`: the written rows in the order of the response. */
function writtenRows (writes: readonly Write[], returning: string, table: Table): string {
  const [only] = writes
  if (only !== undefined && only.places === undefined) return `w as (${only.text} returning ${returning})`
  const place = quote(freeName(table, 'place'))
  const parts = writes.map(({ text }, index) => `w${index} as (${text} returning ${returning})`)
  const rows = writes.map(({ places }, index) => `select w${index}.*, (${places})[(row_number() over ())::int] as ${place} from w${index}`)
  return `${parts.join(', ')}, w as (select * from (${rows.join(' union all ')}) u order by ${place})`
}

function selectResult (rows: string, record: string, form: Form): string {
  if (form.kind === 'record') {
    return form.unique
      ? boundedRowText(`select ${record}::text from ${rows} r`)
      : boundedText(`select ${record}::text from ${rows} r limit 1`)
  }
  const complete = form.expected === undefined ? '' : `, case when count(*) = ${form.expected} then '' else ${refusedRow} end`
  return boundedText(`select concat('{"data":', coalesce(json_agg(${record})::text, '[]'), '}'${complete}) from ${rows} r`)
}

// PostgreSQL checks that a referenced row exists, but not that it belongs to the tenant. Therefore a write of a foreign key succeeds only
// if the referenced row belongs to the request's tenant. Otherwise the statement fails and writes nothing.

/** The foreign keys of a table that could refer to another tenant's rows. */
export function tenantKeys (table: Table, { tables }: Catalogue): readonly ForeignKey[] {
  return table.foreignKeys.filter((key) => {
    const checkedAlready = key.columns.some((column, index) => column === tenantColumn && key.referencedColumns[index] === tenantColumn)
    return tables.get(key.referencedTable)?.tenantScoped === true && !checkedAlready
  })
}

/** True if the references of a written row belong to its tenant. Otherwise the statement fails with SQLSTATE 22014. */
function referencesOwnTenant (
  keys: readonly ForeignKey[],
  { table, context: { catalogue } }: Subject,
  alias: string,
  draft: Draft
): string[] {
  return keys.map((key) => {
    const referenced = catalogue.tables.get(key.referencedTable)!
    const inner = draft.alias()
    const equal = key.columns.map((column, index) => `${columnOf(inner, key.referencedColumns[index]!)} = ${columnOf(alias, column)}`)
      .join(' and ')
    const tenant = `${columnOf(inner, tenantColumn)} = ${tenantPlaceholder(referenced, draft)}`
    const allowed = [
      ...key.columns.map((column) => `${columnOf(alias, column)} is null`),
      `exists (select from ${tableName(catalogue.schema, referenced)} ${inner} where ${equal} and ${tenant})`,
      // The statement's snapshot does not include the rows that it writes itself.
      ...(referenced === table ? [`exists (select from w ${inner} where ${equal})`] : [])
    ]
    return `case when ${allowed.join(' or ')} then true else ${raise} end`
  })
}

/** Fails with SQLSTATE 22014, which the engines report as a broken reference; a window function is not evaluated in advance. */
const raise = '(select ntile(0) over () > 0)'

/** Fails with SQLSTATE 2201F, which the engines report as `conflict`; it depends on rows, so that it is not evaluated in advance. */
const refusedRow = 'sqrt(-1 - count(*)::float8)::text'
