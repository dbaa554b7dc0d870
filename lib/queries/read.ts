/** `select`: a page of records, or one record. */
import type { Table } from '../database/catalogue.js'
import { hasEmbeds, innerConditions, selectList } from './embed.js'
import type { Selection } from './field.js'
import { type CompiledFilters, rowConditions, where, writeConditions } from './filter.js'
import { groupBy, type GroupOrder } from './groups.js'
import type { RowOrder } from './order.js'
import { type Page, writePagination } from './page.js'
import { boundedRowText, boundedText, type Draft, tableName } from './sql.js'

/** The parts of a statement that reads rows. */
export interface ReadParts {
  readonly table: Table
  readonly schema: string
  readonly filters: CompiledFilters
  /** All members: excluded fields do not change which records an inner embed omits. */
  readonly full: Selection
  readonly selection: (draft: Draft) => Selection
  readonly order: (alias: string) => string
  /** The maximum rows of an embed (`embedLimitOf`). */
  readonly embedLimit: number | undefined
}

export type GroupParts = Omit<ReadParts, 'order'> & { readonly groupOrder: GroupOrder }

export interface CursorPage {
  readonly order: RowOrder
  /** As SQL: a number from 1. */
  readonly limit: string
  /** The conditions of each part of the following rows; one part without conditions at the start of the list. */
  readonly after: ReadonlyArray<(alias: string, draft: Draft) => string[]>
}

/** Arguments of `concat`: the JSON of the rows `r`. `json_agg` takes more CPU, and writes line breaks. */
const records = "'[', string_agg(row_to_json(r.*)::text, ','), ']'"

/** `{"data":[...],"pagination":{...}}` of the matching rows. */
export function writePage (parts: ReadParts, page: Page, literal: number | undefined, draft: Draft): string {
  const { clause, pagination, total } = writePagination(page, literal, draft)
  const rows = rowsOf(parts, clause, draft)
  const counted = draft.alias()
  const count = `select count(*) from ${tableName(parts.schema, parts.table)} ${counted}${where(conditionsOf(parts, counted, draft))}`
  return boundedText(
    `select concat('{"data":', ${records}, ${pagination}, ${total(count)}, '}}') from (${rows}) r`
  )
}

/**
 * `{"data":[...],"pagination":{"limit":...,"next":` of the rows after a position, and a line break. If more rows follow, the
 * values of the order's columns in the last row come next. `finishPage` completes the text.
 */
export function writeCursorPage (parts: ReadParts, page: CursorPage, draft: Draft): string {
  const { schema, table, embedLimit } = parts
  return writeAfter(page, draft, {
    rows: (alias, after) =>
      `${tableName(schema, table)} ${alias}${where([...conditionsOf(parts, alias, draft), ...after])}`,
    record: (alias) => selectList(parts.selection(draft), alias, { schema, draft, embedLimit }),
    json: 'r.*'
  })
}

/** The SQL of a page's rows and records. */
interface CursorRows {
  /** The text after `from`, with all conditions. */
  readonly rows: (alias: string, after: readonly string[]) => string
  /** The columns of one record. */
  readonly record: (alias: string) => string
  /** The JSON of a record of the alias `r`. */
  readonly json: string
}

/** A cursor page of any rows: see `writeCursorPage` for its text. */
export function writeAfter ({ order, limit, after }: CursorPage, draft: Draft, { rows: rowsFrom, record, json }: CursorRows): string {
  const one = `${limit} + 1`
  const found = after.map((conditions) => {
    const alias = draft.alias()
    return `select ${alias}.* from ${rowsFrom(alias, conditions(alias, draft))}${order.write(alias)} limit ${one}`
  })
  const merged = draft.alias()
  // The parts are in the order of their rows, but PostgreSQL guarantees that order only with an `order by`.
  const rows = found.length === 1
    ? found[0]
    : `select * from (${found.map((text) => `(${text})`).join(' union all ')}) ${merged}${order.write(merged)} limit ${one}`
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
export function writeRecord (parts: ReadParts, unique: boolean, draft: Draft): string {
  return boundedRowText(`select row_to_json(r.*)::text from (${rowsOf(parts, unique ? '' : ' limit 1', draft)}) r`)
}

/** `{"data":[...]}` of all matching rows. */
export function writeRecords (parts: ReadParts, draft: Draft): string {
  return boundedText(`select concat('{"data":', ${records}, '}') from (${rowsOf(parts, '', draft)}) r`)
}

/** As writePage, for groups. All groups are computed in any case, and only once: the total counts them. */
export function writeGroupPage (parts: GroupParts, page: Page, literal: number | undefined, draft: Draft): string {
  const { clause, pagination, total } = writePagination(page, literal, draft)
  const groups = groupsOf(parts, draft)
  const rows = `select g.* from g${parts.groupOrder(parts.selection(draft), 'g')}${clause}`
  return boundedText(
    `with g as (${groups}) select concat('{"data":', ${records}, ${pagination}, ${
      total('select count(*) from g')
    }, '}}') from (${rows}) r`
  )
}

/** One group: the first in the order. */
export function writeGroup (parts: GroupParts, draft: Draft): string {
  const rows = `select g.* from (${groupsOf(parts, draft)}) g${parts.groupOrder(parts.selection(draft), 'g')} limit 1`
  return boundedRowText(`select row_to_json(r.*)::text from (${rows}) r`)
}

function groupsOf (parts: GroupParts, draft: Draft): string {
  const { schema, table, embedLimit } = parts
  const selection = parts.selection(draft)
  const alias = draft.alias()
  const rows = `from ${tableName(schema, table)} ${alias}${where(conditionsOf(parts, alias, draft))}`
  return `select ${selectList(selection, alias, { schema, draft, embedLimit })} ${rows}${groupBy(selection)}`
}

/** The rows with their members. Embeds are computed outside the limit, so that skipped rows do not cost any. */
function rowsOf (parts: ReadParts, limit: string, draft: Draft): string {
  const { schema, table, order, embedLimit } = parts
  const selection = parts.selection(draft)
  const alias = draft.alias()
  const ordered = `from ${tableName(schema, table)} ${alias}${where(conditionsOf(parts, alias, draft))}${order(alias)}${limit}`
  if (limit === '' || !hasEmbeds(selection)) {
    return `select ${selectList(selection, alias, { schema, draft, embedLimit })} ${ordered}`
  }
  const outer = draft.alias()
  return `select ${selectList(selection, outer, { schema, draft, embedLimit })} from (select ${alias}.* ${ordered}) ${outer}`
}

function conditionsOf ({ table, schema, filters, full, embedLimit }: Omit<ReadParts, 'order'>, alias: string, draft: Draft): string[] {
  return [
    ...rowConditions(table, alias, draft),
    ...writeConditions(filters, alias, draft),
    ...innerConditions(full, alias, { schema, draft, embedLimit })
  ]
}
