/** `select`: a page of records, or one. */
import type { Query } from '../../config/schema/query.js'
import type { Table } from '../../database/catalogue.js'
import type { QueryContext } from './context.js'
import type { CompiledFilters } from './filter.js'
import type { Selection } from './field.js'
import { pointerTo } from '../../config/faults.js'
import { boundedRowText, boundedText } from './answer-size.js'
import { selectList, hasEmbeds } from './embed.js'
import { writeConditions } from './filter.js'
import { groupBy, type GroupOrder } from './groups.js'
import { tableName } from './identifiers.js'
import { compileOrder, compilePage, type Page, writePagination } from './page.js'
import { rowConditions, where } from './scope.js'
import type { Placeholders } from './sql.js'
import type { Switch } from './statement.js'

/** What a statement that reads rows is written from. */
export interface ReadParts {
  readonly table: Table
  readonly schema: string
  readonly filters: CompiledFilters
  readonly selection: (on: ReadonlySet<Switch>) => Selection
  readonly order: (alias: string) => string
  /** Rows that an embed may have (`embedLimitOf`). */
  readonly embedLimit: number | undefined
}

/** The same of a `select` with aggregates. */
export type GroupParts = Omit<ReadParts, 'order'> & { readonly groupOrder: GroupOrder }

/** The order and the page of a `select`, with its faults. */
export function compileListing (query: Query, table: Table, pointer: string, context: QueryContext): { order: (alias: string) => string, page: Page } {
  return {
    order: compileOrder(query.order, table, pointerTo(pointer, 'order'), context),
    page: compilePage(query, pointer, context)
  }
}

/** `{"data":[...],"pagination":{...}}` of the rows that match. */
export function writePage (parts: ReadParts, page: Page, literal: number | undefined, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  const { clause, pagination, total } = writePagination(page, literal, placeholders, on)
  const rows = rowsOf(parts, clause, placeholders, on)
  const counted = placeholders.alias()
  const count = `select count(*) from ${tableName(parts.schema, parts.table)} ${counted}${where(conditionsOf(parts, counted, placeholders, on))}`
  return boundedText(`select concat('{"data":', coalesce(json_agg(r.*)::text, '[]'), ${pagination}, ${total(count)}, '}}') from (${rows}) r`)
}

/** One record: the first in the order. */
export function writeRecord (parts: ReadParts, unique: boolean, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  return boundedRowText(`select row_to_json(r.*)::text from (${rowsOf(parts, unique ? '' : ' limit 1', placeholders, on)}) r`)
}

/** `{"data":[...]}` of all rows that match. */
export function writeRecords (parts: ReadParts, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  return boundedText(`select concat('{"data":', coalesce(json_agg(r.*)::text, '[]'), '}') from (${rowsOf(parts, '', placeholders, on)}) r`)
}

/** As writePage, of groups. All of them are made in any case, and once: the total counts them. */
export function writeGroupPage (parts: GroupParts, page: Page, literal: number | undefined, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  const { clause, pagination, total } = writePagination(page, literal, placeholders, on)
  const groups = groupsOf(parts, placeholders, on)
  const rows = `select g.* from g${parts.groupOrder(parts.selection(on), 'g')}${clause}`
  return boundedText(`with g as (${groups}) select concat('{"data":', coalesce(json_agg(r.*)::text, '[]'), ${pagination}, ${total('select count(*) from g')}, '}}') from (${rows}) r`)
}

/** One group: the first in the order. */
export function writeGroup (parts: GroupParts, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  const rows = `select g.* from (${groupsOf(parts, placeholders, on)}) g${parts.groupOrder(parts.selection(on), 'g')} limit 1`
  return boundedRowText(`select row_to_json(r.*)::text from (${rows}) r`)
}

function groupsOf (parts: GroupParts, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  const { schema, table, embedLimit } = parts
  const selection = parts.selection(on)
  const alias = placeholders.alias()
  const rows = `from ${tableName(schema, table)} ${alias}${where(conditionsOf(parts, alias, placeholders, on))}`
  return `select ${selectList(selection, alias, { schema, placeholders, embedLimit })} ${rows}${groupBy(selection)}`
}

/** The rows with their members. Embeds are made outside of the limit: of the rows that are answered, not of those that are skipped. */
function rowsOf (parts: ReadParts, limit: string, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  const { schema, table, order, embedLimit } = parts
  const selection = parts.selection(on)
  const alias = placeholders.alias()
  const ordered = `from ${tableName(schema, table)} ${alias}${where(conditionsOf(parts, alias, placeholders, on))}${order(alias)}${limit}`
  if (limit === '' || !hasEmbeds(selection)) return `select ${selectList(selection, alias, { schema, placeholders, embedLimit })} ${ordered}`
  const outer = placeholders.alias()
  return `select ${selectList(selection, outer, { schema, placeholders, embedLimit })} from (select ${alias}.* ${ordered}) ${outer}`
}

function conditionsOf ({ table, filters }: Pick<ReadParts, 'table' | 'filters'>, alias: string, placeholders: Placeholders, on: ReadonlySet<Switch>): string[] {
  return [...rowConditions(table, alias, placeholders), ...writeConditions(filters, alias, placeholders, on)]
}
