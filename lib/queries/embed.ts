/** Embedded tables: their filters, order and limit, and the SQL of a record's members, in which they are correlated subqueries. */
import { keyColumns, type Table } from '../database/catalogue.js'
import { maxResultBytes } from '../expressions/result.js'
import type { Reference } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import type { Embed } from '../schema/query.js'
import type { QueryContext } from './context.js'
import { type EmbedLimit, type EmbedRows, type Field, isEmbed, type Selection } from './field.js'
import { type CompiledFilters, compileFilters, rowConditions, where, writeConditions } from './filter.js'
import { compileGroupOrder, groupBy, type GroupOrder, groupOrder } from './groups.js'
import { compileOrder } from './order.js'
import { compileCount } from './page.js'
import type { Pairs, Relation } from './relation.js'
import { type Binder, columnOf, type Draft, quote, type Switch, tableName, tooLarge } from './sql.js'

type EmbedField = Extract<Field, { kind: 'embed' }>
type Count = Extract<Field, { kind: 'count' }>

/** The inputs of a record's SQL besides its fields. */
export interface Rendering {
  readonly schema: string
  readonly draft: Draft
}

const maxEmbedded = 1000 // rows of one embed in a tenant's query
const maxNested = 100 // rows of an embed within an embed of many rows, because nested rows multiply

/** The maximum rows of an embed. A tenant's queries have a limit, because they cost other tenants time. */
export function mostRows ({ origin }: QueryContext): number | undefined {
  return origin === 'tenant' ? maxEmbedded : undefined
}

/** The same within an embed of many rows. */
export function mostNested (most: number | undefined): number | undefined {
  return most === undefined ? undefined : maxNested
}

/** The select list for the rows of an alias. */
export function selectList ({ fields }: Selection, alias: string, rendering: Rendering): string {
  return fields.map((field) => member(field, alias, rendering)).join(', ')
}

/** Whether a record has members from other tables. */
export function hasEmbeds ({ fields }: Selection): boolean {
  return fields.some(isEmbed)
}

function member (field: Field, alias: string, rendering: Rendering): string {
  switch (field.kind) {
    case 'column': {
      const column = columnOf(alias, field.column.name)
      return field.name === field.column.name ? column : `${column} as ${quote(field.name)}`
    }
    case 'path':
      return `${field.operand.write(alias)} as ${quote(field.name)}`
    case 'aggregate':
      return `${field.aggregate}(${field.operand?.write(alias) ?? '*'}) as ${quote(field.name)}`
    case 'embed':
      return `(${embedded(field, alias, rendering)}) as ${quote(field.name)}`
    case 'count':
      return `(${counted(field, alias, rendering)}) as ${quote(field.name)}`
  }
}

function embedded (field: EmbedField, outer: string, rendering: Rendering): string {
  const { selection, relation, rows: { order, limit, most } } = field
  const { draft } = rendering
  const [row, inner] = [draft.alias(), draft.alias()]
  const rows = `select ${selectList(selection, inner, rendering)} ${rowsOf(field, outer, inner, rendering)}`
  if (!relation.many) return `select row_to_json(${row}.*) from (${rows}) ${row}`
  const list = `coalesce(json_agg(${row}.*), '[]')`
  const ordered = selection.grouped === true
    ? orderedGroups(`${rows}${groupBy(selection)}`, selection, order ?? groupOrder, draft)
    : `${rows}${order?.(selection, inner) ?? keyOrder(relation.table, inner)}`
  if (most === undefined) return `select ${list} from (${ordered}${limit === undefined ? '' : ` limit ${limit.write(draft)}`}) ${row}`
  // PostgreSQL computes equal aggregates only once.
  const over = `count(*) > ${most} or pg_column_size(json_agg(${row}.*)) > ${maxResultBytes}`
  const read = limit === undefined ? `${most + 1}` : `least(${limit.write(draft)}, ${most + 1})`
  return `select case when ${over} then ${tooLarge('count(*)::integer')}::json else ${list} end from (${ordered} limit ${read}) ${row}`
}

function orderedGroups (groups: string, selection: Selection, order: GroupOrder, draft: Draft): string {
  const group = draft.alias()
  return `select ${group}.* from (${groups}) ${group}${order(selection, group)}`
}

function counted (field: Count, outer: string, rendering: Rendering): string {
  const inner = rendering.draft.alias()
  return `select concat('[{"count":', count(*), '}]')::json ${rowsOf(field, outer, inner, rendering)}`
}

/** A condition for each inner embed, whose rows a record must have. */
export function innerConditions ({ fields }: Selection, alias: string, rendering: Rendering): string[] {
  return fields.filter(isEmbed).filter(({ rows }) => rows.inner).map((field) =>
    `exists (select ${rowsOf(field, alias, rendering.draft.alias(), rendering)})`
  )
}

/** `from ... where ...`: the embedded rows of one outer row: the tenant's, not soft-deleted, that match the filters of the embed. */
function rowsOf (field: EmbedField | Count, outer: string, inner: string, rendering: Rendering): string {
  const { relation, rows: { filters } } = field
  const { schema, draft } = rendering
  const from = `from ${tableName(schema, relation.table)} ${inner}`
  const own = [
    ...rowConditions(relation.table, inner, draft),
    ...writeConditions(filters, inner, draft),
    ...field.kind === 'embed' ? innerConditions(field.selection, inner, rendering) : []
  ]
  if (relation.junction === undefined) return `${from}${where([...equal(relation.on, outer, inner), ...own])}`
  const middle = draft.alias()
  const join = ` join ${tableName(schema, relation.junction.table)} ${middle} on ${equal(relation.junction.on, middle, inner).join(' and ')}`
  return `${from}${join}${where([...equal(relation.on, outer, middle), ...rowConditions(relation.junction.table, middle, draft), ...own])}`
}

function equal (pairs: Pairs, left: string, right: string): string[] {
  return pairs.map(([leftColumn, rightColumn]) => `${columnOf(right, rightColumn)} = ${columnOf(left, leftColumn)}`)
}

function keyOrder (table: Table, alias: string): string {
  const columns = keyColumns(table)
  return columns.length === 0 ? '' : ` order by ${columns.map((column) => columnOf(alias, column)).join(', ')}`
}

const noFilters: CompiledFilters = { conditions: [], switches: [], references: [], pinned: new Set(), always: false }
const maxLimit = 1000

/** @param selection the selection of the rows; null if they are only counted */
export function compileEmbedRows (
  options: Embed | undefined,
  relation: Relation,
  selection: Selection | null,
  pointer: string,
  context: QueryContext
): Pick<EmbedRows, 'filters' | 'order' | 'limit'> {
  if (options === undefined) return { filters: noFilters }
  const { table, many } = relation
  const isList = many && selection !== null
  for (const member of ['order', 'limit'] as const) {
    if (options[member] !== undefined && !isList) {
      context.faults.add(pointerTo(pointer, member), `${many ? 'a count' : 'a single record'} has no \`${member}\``)
    }
  }
  const filters = compileFilters(options.filters, table, pointerTo(pointer, 'filters'), context)
  const order = isList && options.order !== undefined
    ? compileRowOrder(options.order, selection, pointerTo(pointer, 'order'), context)
    : undefined
  return { filters, order, limit: isList ? compileLimit(options.limit, pointerTo(pointer, 'limit'), context) : undefined }
}

function compileRowOrder (
  order: Embed['order'],
  selection: Selection,
  pointer: string,
  context: QueryContext
): (selection: Selection, alias: string) => string {
  if (selection.grouped === true) return compileGroupOrder(order, selection, pointer, context)
  const ofRows = compileOrder(order, selection.table, pointer, context)
  return (_, alias) => ofRows.write(alias)
}

function compileLimit (limit: Embed['limit'], pointer: string, context: QueryContext): EmbedLimit | undefined {
  if (limit === undefined) return undefined
  const { read, references } = compileCount(limit, pointer, { ...context, secretsRefusedIn: 'the `limit` of an embed' })
  const bind: Binder = (scope) => {
    const count = read(scope)
    return count === undefined ? null : Math.min(count, maxLimit)
  }
  return {
    write: (draft) => typeof limit === 'number' ? String(Math.min(limit, maxLimit)) : draft.add(bind, 'bigint'),
    references
  }
}

/** The references of a selection's embeds, and the switches of their optional filters. */
export function embedUses ({ fields }: Selection): { readonly switches: readonly Switch[], readonly references: readonly Reference[] } {
  const uses = fields.filter(isEmbed).flatMap((field) => {
    const { filters, limit } = field.rows
    return [filters, { switches: [], references: limit?.references ?? [] }, ...field.kind === 'embed' ? [embedUses(field.selection)] : []]
  })
  return { switches: uses.flatMap(({ switches }) => switches), references: uses.flatMap(({ references }) => references) }
}
