/** What every write has in common: how the written rows become the answer. */
import type { Catalogue, ForeignKey, Table } from '../../database/catalogue.js'
import type { Selection } from './selection.js'
import { boundedRowText, boundedText } from './answer-size.js'
import { hasEmbeds, selectList } from './embed.js'
import { raise, referencesOwnTenant } from './foreign-keys.js'
import { where } from './scope.js'
import type { Placeholders } from './sql.js'

/** The rows that a write answers. */
export interface Written {
  readonly table: Table
  readonly catalogue: Catalogue
  readonly selection: Selection
  /** Foreign keys that the statement sets, of which the tenant is checked. */
  readonly keys: readonly ForeignKey[]
  /** Rows that an embed may have (`embedLimitOf`). */
  readonly embedLimit: number | undefined
}

/** How many rows are answered, and in which form. */
export type Form =
  | { readonly kind: 'record', readonly unique: boolean }
  /** `expected`: a placeholder of the number of rows; with fewer the statement fails and writes nothing. */
  | { readonly kind: 'records', readonly expected?: string }

/** What a write tells of its rows: a part of its statement that reads `w`, and what that needs besides the row. */
export interface WrittenEvents {
  /** `, e as (...)` */
  readonly part: string
  /** `, ... as ...` */
  readonly returning: string
}

/** Wraps `insert ...` or `update ...` (without `returning`) in a statement that answers the written rows. */
export function answerWritten (write: string, alias: string, written: Written, form: Form, placeholders: Placeholders, events?: WrittenEvents): string {
  const { table, catalogue, selection, keys, embedLimit } = written
  const rendering = { schema: catalogue.schema, placeholders, embedLimit }
  const plain = keys.length === 0 && !hasEmbeds(selection) && events === undefined
  const returning = plain ? selectList(selection, alias, rendering) || 'null' : `${alias}.*${events?.returning ?? ''}`
  const w = placeholders.alias()
  const rows = plain
    ? 'w'
    : `(select ${selectList(selection, w, rendering)} from w ${w}${where(referencesOwnTenant(keys, table, catalogue, 'w', w, placeholders))})`
  const record = plain && selection.fields.length === 0 ? "'{}'::json" : 'row_to_json(r.*)'
  return `with w as (${write} returning ${returning})${events?.part ?? ''} ${answer(rows, record, form)}`
}

function answer (rows: string, record: string, form: Form): string {
  if (form.kind === 'record') return form.unique ? boundedRowText(`select ${record}::text from ${rows} r`) : boundedText(`select ${record}::text from ${rows} r limit 1`)
  const complete = form.expected === undefined ? '' : `, case when count(*) = ${form.expected} then '' else ${raise("''")} end`
  return boundedText(`select concat('{"data":', coalesce(json_agg(${record})::text, '[]'), '}'${complete}) from ${rows} r`)
}
