/** The SQL of a record's members: columns, and embedded tables as correlated subqueries that PostgreSQL makes JSON of. */
import type { QueryContext } from './context.js'
import type { Table } from '../../database/catalogue.js'
import type { Pairs, Relation } from './relation.js'
import type { Field, Selection } from './field.js'
import { maxAnswerBytes } from '../answer.js'
import { tooLarge } from './answer-size.js'
import { isEmbed } from './field.js'
import { groupBy, groupOrder } from './groups.js'
import { columnOf, quote, tableName } from './identifiers.js'
import { keyColumns } from './row-key.js'
import { rowConditions, where } from './scope.js'
import type { Placeholders } from './sql.js'

/** What the SQL of a record needs besides its fields. */
export interface Rendering {
  readonly schema: string
  readonly placeholders: Placeholders
  /** Rows that an embed may have: with more the statement fails, as with a text that is too large. undefined: any number. */
  readonly embedLimit: number | undefined
}

const maxEmbedded = 1000 // rows of one embed of a tenant's query
const maxNested = 100 // of one within an embed of many rows: what each level has multiplies

/** What a query may embed of the tables of its document's origin: a tenant's is bounded, since it costs others. */
export function embedLimitOf (origin: QueryContext['origin']): number | undefined {
  return origin === 'tenant' ? maxEmbedded : undefined
}

/** The select list for the rows that an alias names. */
export function selectList ({ fields }: Selection, alias: string, rendering: Rendering): string {
  return fields.map((field) => member(field, alias, rendering)).join(', ')
}

/** Whether a record has members of other tables. */
export function hasEmbeds ({ fields }: Selection): boolean {
  return fields.some(isEmbed)
}

function member (field: Field, alias: string, rendering: Rendering): string {
  switch (field.kind) {
    case 'column': {
      const column = columnOf(alias, field.column.name)
      return field.name === field.column.name ? column : `${column} as ${quote(field.name)}`
    }
    case 'path': return `${field.operand.write(alias)} as ${quote(field.name)}`
    case 'aggregate': return `${field.aggregate}(${field.operand?.write(alias) ?? '*'}) as ${quote(field.name)}`
    case 'embed': return `(${embedded(field.selection, field.relation, alias, rendering)}) as ${quote(field.name)}`
    case 'count': return `(${counted(field.relation, alias, rendering)}) as ${quote(field.name)}`
  }
}

function embedded (selection: Selection, relation: Relation, outer: string, rendering: Rendering): string {
  const { placeholders, embedLimit } = rendering
  const [row, inner] = [placeholders.alias(), placeholders.alias()]
  const within = relation.many && embedLimit !== undefined ? { ...rendering, embedLimit: maxNested } : rendering
  const rows = `select ${selectList(selection, inner, within)} ${rowsOf(relation, outer, inner, rendering)}`
  if (!relation.many) return `select row_to_json(${row}.*) from (${rows}) ${row}`
  const list = `coalesce(json_agg(${row}.*), '[]')`
  const ordered = selection.grouped === true ? orderedGroups(`${rows}${groupBy(selection)}`, selection, placeholders) : `${rows}${keyOrder(relation.table, inner)}`
  if (embedLimit === undefined) return `select ${list} from (${ordered}) ${row}`
  // PostgreSQL computes an aggregate once, however often it is named.
  const over = `count(*) > ${embedLimit} or pg_column_size(json_agg(${row}.*)) > ${maxAnswerBytes}`
  return `select case when ${over} then ${tooLarge('count(*)::integer')}::json else ${list} end from (${ordered} limit ${embedLimit + 1}) ${row}`
}

function orderedGroups (groups: string, selection: Selection, placeholders: Placeholders): string {
  const group = placeholders.alias()
  return `select ${group}.* from (${groups}) ${group}${groupOrder(selection, group)}`
}

function counted (relation: Relation, outer: string, rendering: Rendering): string {
  const inner = rendering.placeholders.alias()
  return `select json_build_array(json_build_object('count', count(*))) ${rowsOf(relation, outer, inner, rendering)}`
}

/** `from ... where ...`: the embedded rows of one outer row, of its tenant and not deleted like all others. */
function rowsOf (relation: Relation, outer: string, inner: string, { schema, placeholders }: Rendering): string {
  const from = ` from ${tableName(schema, relation.table)} ${inner}`
  const scope = rowConditions(relation.table, inner, placeholders)
  if (relation.junction === undefined) return `${from}${where([...equal(relation.on, outer, inner), ...scope])}`.trimStart()
  const middle = placeholders.alias()
  const join = ` join ${tableName(schema, relation.junction.table)} ${middle} on ${equal(relation.junction.on, middle, inner).join(' and ')}`
  const conditions = [...equal(relation.on, outer, middle), ...rowConditions(relation.junction.table, middle, placeholders), ...scope]
  return `${from}${join}${where(conditions)}`.trimStart()
}

function equal (pairs: Pairs, left: string, right: string): string[] {
  return pairs.map(([leftColumn, rightColumn]) => `${columnOf(right, rightColumn)} = ${columnOf(left, leftColumn)}`)
}

function keyOrder (table: Table, alias: string): string {
  const columns = keyColumns(table)
  return columns.length === 0 ? '' : ` order by ${columns.map((column) => columnOf(alias, column)).join(', ')}`
}
