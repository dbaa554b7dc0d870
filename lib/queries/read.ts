/** `select`: a page of records, or one record. */
import { hasEmbeds, innerConditions, type Rendering, selectList } from './embed.js'
import { rowConditions, where, writeConditions } from './filter.js'
import { groupBy, type GroupOrder } from './groups.js'
import type { RowOrder } from './order.js'
import { type Page, writePagination } from './page.js'
import { isOneRow } from './row-key.js'
import { boundedRowText, boundedText, type Draft, tableName } from './sql.js'
import type { Subject } from './subject.js'

export interface CursorPage {
  readonly order: RowOrder
  /** As SQL: a number from 1. */
  readonly limit: string
  /** The parts of the following rows; one part without conditions at the start of the list. */
  readonly after: readonly Part[]
}

/** The conditions of a part of the rows. */
export type Part = (alias: string, draft: Draft) => string[]

/** The JSON of the rows `r`. `json_agg` writes line breaks, and a text of each row takes more CPU. */
const records = "coalesce(array_to_json(array_agg(r.*)), '[]')"

/** `{"data":[...],"pagination":{...}}` of the matching rows. */
export function writePage (subject: Subject, order: RowOrder['write'], page: Page, literal: number | undefined, draft: Draft): string {
  const { clause, body } = writePagination(page, literal, draft)
  const rows = rowsOf(subject, order, clause, draft)
  const count = `select count(*) ${fromWhere(subject, draft.alias(), draft)}`
  return boundedText(`select ${body(records, count)} from (${rows}) r`)
}

/**
 * `{"data":[...],"pagination":{"limit":...,"next":` of the rows after a position, and a line break. If more rows follow, the
 * values of the order's columns in the last row come next. `finishPage` completes the text.
 */
export function writeCursorPage (subject: Subject, page: CursorPage, draft: Draft): string {
  return writeCursorRows(page, draft, {
    rows: (alias, after) => fromWhere(subject, alias, draft, after),
    record: (alias) => selectList(subject.selection(draft), alias, renderingOf(subject, draft)),
    json: 'r.*'
  })
}

/** The SQL of a page's rows and records. */
interface CursorRows {
  /** `from ... where ...`, with all conditions. */
  readonly rows: (alias: string, after: readonly string[]) => string
  /** The columns of one record. */
  readonly record: (alias: string) => string
  /** The JSON of a record of the alias `r`. */
  readonly json: string
}

/** A cursor page of any rows: see `writeCursorPage` for its text. */
export function writeCursorRows ({ order, limit, after }: CursorPage, draft: Draft, { rows: rowsFrom, record, json }: CursorRows): string {
  const oneMore = `${limit} + 1`
  const found = after.map((conditions) => {
    const alias = draft.alias()
    return `select ${alias}.* ${rowsFrom(alias, conditions(alias, draft))}${order.write(alias)} limit ${oneMore}`
  })
  const merged = draft.alias()
  // The parts are in the order of their rows, but PostgreSQL guarantees that order only with an `order by`.
  const rows = found.length === 1
    ? found[0]
    : `select * from (${found.map((text) => `(${text})`).join(' union all ')}) ${merged}${order.write(merged)} limit ${oneMore}`
  const alias = draft.alias()
  const records = `select ${record(alias)} from p ${alias} limit ${limit}`
  const values = order.keys.map(({ operand }) => `${operand.write(alias)}::text`).join(', ')
  const next =
    `select json_build_array(${values})::text from p ${alias} where (select count(*) from p) > ${limit} offset ${limit} - 1 limit 1`
  return boundedText(
    `with p as materialized (${rows}) select concat('{"data":', (select coalesce(json_agg(${json})::text, '[]') from (${records}) r), ',"pagination":{"limit":', ${limit}, ',"next":', chr(10), (${next}))`
  )
}

/** One record: the first in the order. */
export function writeRecord (subject: Subject, order: RowOrder['write'], draft: Draft): string {
  const rows = isOneRow(subject.filters, subject.table) ? rowsOf(subject, unordered, '', draft) : rowsOf(subject, order, ' limit 1', draft)
  return boundedRowText(`select row_to_json(r.*)::text from (${rows}) r`)
}

export const unordered: RowOrder['write'] = () => ''

/** `{"data":[...]}` of all matching rows. */
export function writeRecords (subject: Subject, draft: Draft): string {
  return boundedText(`select concat('{"data":', ${records}, '}') from (${rowsOf(subject, unordered, '', draft)}) r`)
}

/** As writePage, for groups. All groups are computed in any case, and only once: the total counts them. */
export function writeGroupPage (subject: Subject, order: GroupOrder, page: Page, literal: number | undefined, draft: Draft): string {
  const { clause, body } = writePagination(page, literal, draft)
  const groups = groupsOf(subject, draft)
  const rows = `select g.* from g${order(subject.selection(draft), 'g')}${clause}`
  return boundedText(`with g as (${groups}) select ${body(records, 'select count(*) from g')} from (${rows}) r`)
}

/** One group: the first in the order. */
export function writeGroup (subject: Subject, order: GroupOrder, draft: Draft): string {
  const rows = `select g.* from (${groupsOf(subject, draft)}) g${order(subject.selection(draft), 'g')} limit 1`
  return boundedRowText(`select row_to_json(r.*)::text from (${rows}) r`)
}

function groupsOf (subject: Subject, draft: Draft): string {
  const selection = subject.selection(draft)
  const alias = draft.alias()
  const rows = fromWhere(subject, alias, draft)
  return `select ${selectList(selection, alias, renderingOf(subject, draft))} ${rows}${groupBy(selection)}`
}

/** The rows with their members. Embeds are computed outside the limit, so that skipped rows do not cost any. */
function rowsOf (subject: Subject, order: RowOrder['write'], limit: string, draft: Draft): string {
  const rendering = renderingOf(subject, draft)
  const selection = subject.selection(draft)
  const alias = draft.alias()
  const ordered = `${fromWhere(subject, alias, draft)}${order(alias)}${limit}`
  if (limit === '' || !hasEmbeds(selection)) return `select ${selectList(selection, alias, rendering)} ${ordered}`
  const outer = draft.alias()
  return `select ${selectList(selection, outer, rendering)} from (select ${alias}.* ${ordered}) ${outer}`
}

/** `from ... where ...`. Excluded fields do not change which records an inner embed omits. */
function fromWhere (subject: Subject, alias: string, draft: Draft, further: readonly string[] = []): string {
  const { table, context, filters, full } = subject
  const conditions = [
    ...rowConditions(table, alias, draft),
    ...writeConditions(filters, alias, draft),
    ...innerConditions(full, alias, renderingOf(subject, draft)),
    ...further
  ]
  return `from ${tableName(context.catalogue.schema, table)} ${alias}${where(conditions)}`
}

function renderingOf ({ context }: Subject, draft: Draft): Rendering {
  return { schema: context.catalogue.schema, draft }
}
