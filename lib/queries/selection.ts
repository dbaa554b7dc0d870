/** Resolves a `select` against the catalogue: the columns, values and embedded tables of a record. */
import type { Table } from '../database/catalogue.js'
import { nearest, pointerTo } from '../schema/faults.js'
import type { Embed, Query } from '../schema/query.js'
import { type AggregateName, describeArgument, isAggregate, resultType } from './aggregate.js'
import { isOrdered, orderedInstead } from './column-value.js'
import { findColumn, findTable, type QueryContext } from './context.js'
import { compileEmbedRows, mostNested, mostRows } from './embed.js'
import { columnShownBy, everyColumn, type Field, isEmbed, isGroupKey, type Selection } from './field.js'
import { nameOf, type Operand, operandOf, pathOperand } from './operand.js'
import { findRelation } from './relation.js'
import { parseSelect, type SelectItem, SelectSyntaxError } from './select-parser.js'
import { fitsName, maxNameBytes } from './sql.js'

/** A query's options for the rows of its embeds. */
interface Options {
  readonly embeds: Readonly<Record<string, Embed>> | undefined
  readonly at: string
  /** The maximum rows of each embed. */
  readonly most: number | undefined
}

/** Resolves a `select` (default: every column); undefined after faults. `pointer` is the query's. */
export function compileSelection (
  { select, embeds }: Pick<Query, 'select' | 'embeds'>,
  table: Table,
  queryPointer: string,
  context: QueryContext
): Selection | undefined {
  const pointer = pointerTo(queryPointer, 'select')
  let items: SelectItem[]
  try {
    items = parseSelect(select ?? '*')
  } catch (error) {
    if (!(error instanceof SelectSyntaxError)) throw error
    context.faults.add(pointer, error.message)
    return undefined
  }
  return resolve(items, table, { embeds, at: pointerTo(queryPointer, 'embeds'), most: mostRows(context) }, pointer, context)
}

function resolve (
  items: readonly SelectItem[],
  table: Table,
  options: Options,
  pointer: string,
  context: QueryContext
): Selection | undefined {
  const { faults } = context
  const before = faults.faults.length
  const fields = new Map<string, Field>()
  for (const item of items) {
    for (const field of fieldsOf(item, table, options, pointer, context)) {
      const known = fields.get(field.name)
      // `*, title` names a column twice, which is not a fault.
      if (known !== undefined && !(known.kind === 'column' && field.kind === 'column' && known.column === field.column)) {
        faults.add(pointer, `two members of "${table.name}" have the name "${field.name}": rename one of them, \`other_name:${unnamed(item)}\``)
      }
      fields.set(field.name, field)
    }
  }
  const all = [...fields.values()]
  const grouped = all.some(({ kind }) => kind === 'aggregate')
  if (grouped) checkGroups(all, pointer, context)
  if (faults.faults.length === before) checkOptions(options, all, context)
  return faults.faults.length > before ? undefined : { table, fields: all, ...grouped && { grouped } }
}

/** The text of the item without its alias, which may contain a colon in quotes. */
function unnamed ({ alias, text }: SelectItem): string {
  return alias === undefined ? text : text.slice(text.indexOf(':', alias.length) + 1).trimStart()
}

/** Options of a missing embed would have no effect. */
function checkOptions ({ embeds = {}, at }: Options, fields: readonly Field[], { faults, catalogue }: QueryContext): void {
  const names = fields.filter(isEmbed).map(({ name }) => name)
  for (const name of Object.keys(embeds)) {
    if (names.includes(name)) continue
    const suggestion = nearest(name, names)
    const isTable = suggestion === undefined && catalogue.tables.has(name)
    faults.add(
      pointerTo(at, name),
      `the \`select\` has no embedded table "${name}"${isTable ? `: add \`${name}(*)\` to it` : ''}`,
      suggestion
    )
  }
}

/** Group keys need a type that PostgreSQL can compare. */
function checkGroups (fields: readonly Field[], pointer: string, { faults }: QueryContext): void {
  for (const field of fields) {
    if (isEmbed(field)) {
      faults.add(pointer, `a \`select\` with aggregates returns groups of rows, which cannot embed tables: remove "${field.name}"`)
    } else if (isGroupKey(field)) {
      const type = field.kind === 'path' ? field.operand.column.type : columnShownBy(field)!.type
      if (!isOrdered(type)) {
        faults.add(pointer, `rows cannot be grouped by "${field.name}", which has the type ${type}${orderedInstead(type)}`)
      }
    }
  }
}

function fieldsOf (item: SelectItem, table: Table, options: Options, pointer: string, context: QueryContext): Field[] {
  const { faults } = context
  if (item.name === '*' && item.aggregate === undefined) return everyColumn(table)
  const name = item.alias ?? item.aggregate ?? (item.path === undefined ? undefined : nameOf(item.path)) ?? item.name
  if (!fitsName(name)) {
    faults.add(
      pointer,
      `"${name}" is too long for a name: at most ${maxNameBytes} bytes${
        item.alias === undefined && item.path !== undefined ? ', so give it another, `name:column->…`' : ''
      }`
    )
    return []
  }
  if (item.items !== undefined) return embedOf(item, item.items, name, table, options, pointer, context)
  if (item.aggregate !== undefined) return aggregateOf(item, item.aggregate, name, table, pointer, context)
  const column = table.columns.get(item.name)
  if (column !== undefined && item.path === undefined) return [{ kind: 'column', name, column }]
  if (column === undefined && context.catalogue.tables.has(item.name)) {
    faults.add(pointer, `"${item.name}" is a table: write \`${item.name}(*)\` to embed it`)
    return []
  }
  const operand = operandFor(item, table, pointer, context)
  return operand === undefined ? [] : [{ kind: 'path', name, operand }]
}

/** The column of an item, or the path in it; undefined after a fault. */
function operandFor ({ name, path, text }: SelectItem, table: Table, pointer: string, context: QueryContext): Operand | undefined {
  const column = findColumn(table, name, pointer, context)
  if (column === undefined || path === undefined) return column === undefined ? undefined : operandOf(column)
  return pathOperand(column, path, text, table, pointer, context)
}

function aggregateOf (
  item: SelectItem,
  aggregate: AggregateName,
  name: string,
  table: Table,
  pointer: string,
  context: QueryContext
): Field[] {
  if (item.name === '*') return [{ kind: 'aggregate', name, aggregate, operand: null, type: 'bigint' }]
  const operand = operandFor(item, table, pointer, context)
  if (operand === undefined) return []
  const type = resultType(aggregate, operand.column)
  if (type !== undefined) return [{ kind: 'aggregate', name, aggregate, operand, type }]
  context.faults.add(
    pointer,
    `\`${item.text}\`: \`${aggregate}\` takes ${describeArgument(aggregate)}, but ${
      item.path === undefined ? `the column "${item.name}"` : 'the value at this path'
    } has the type ${operand.column.type}`
  )
  return []
}

function embedOf (
  item: SelectItem,
  items: readonly SelectItem[],
  name: string,
  table: Table,
  options: Options,
  pointer: string,
  context: QueryContext
): Field[] {
  const { catalogue, faults } = context
  const relation = findRelation(catalogue, table, item)
  if (typeof relation === 'string') {
    const isKnown = catalogue.tables.has(item.name)
    const call = isKnown ? undefined : callFor(item.name, items)
    if (call !== undefined) faults.add(pointer, `${relation}, did you mean \`${call}\`?`)
    else faults.add(pointer, relation, isKnown ? undefined : nearest(item.name, catalogue.tables.keys()))
    return []
  }
  const hidden = [relation.table, relation.junction?.table].some((each) =>
    each !== undefined && findTable(each.name, pointer, context, 'select') === undefined
  )
  if (hidden) return []
  const own = options.embeds !== undefined && Object.hasOwn(options.embeds, name) ? options.embeds[name] : undefined
  const at = pointerTo(options.at, name)
  const inner = item.inner === true
  const { most } = options
  const [only] = items
  if (only !== undefined && items.length === 1 && isCount(only) && !relation.table.columns.has('count')) {
    if (own?.embeds !== undefined) faults.add(pointerTo(at, 'embeds'), 'a count cannot embed tables')
    return [{ kind: 'count', name, relation, rows: { inner, most, ...compileEmbedRows(own, relation, null, at, context) } }]
  }
  const within = { embeds: own?.embeds, at: pointerTo(at, 'embeds'), most: relation.many ? mostNested(most) : most }
  const selection = resolve(items, relation.table, within, pointer, context)
  if (selection?.grouped === true && !relation.many) {
    faults.add(pointer, `"${name}" is one record, which has no aggregates: select its columns`)
    return []
  }
  return selection === undefined
    ? []
    : [{ kind: 'embed', name, relation, selection, rows: { inner, most, ...compileEmbedRows(own, relation, selection, at, context) } }]
}

/** The aggregate that SQL writes as `count(*)` or `sum(qty)`; undefined for anything else. */
function callFor (name: string, [only, ...others]: readonly SelectItem[]): string | undefined {
  if (!isAggregate(name) || only === undefined || others.length > 0) return undefined
  if (only.name === '*') return name === 'count' && only.aggregate === undefined ? 'count()' : undefined
  const isColumn = only.alias === undefined && only.aggregate === undefined && only.items === undefined
  return isColumn ? `${only.text}.${name}()` : undefined
}

function isCount ({ name, alias, path, aggregate, items }: SelectItem): boolean {
  return name === 'count' && alias === undefined && path === undefined && aggregate === undefined && items === undefined
}
