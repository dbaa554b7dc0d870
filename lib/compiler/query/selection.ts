/** A `select` against the catalogue: which columns, values and embedded tables a record has. */
import type { Table } from '../../database/catalogue.js'
import type { Field, Selection } from './field.js'
import { nearest } from '../../config/faults.js'
import { type AggregateName, describeArgument, resultType } from './aggregate.js'
import { isOrdered, orderedInstead } from './comparable.js'
import { type QueryContext, findColumn, findTable } from './context.js'
import { columnShownBy, isEmbed, isGroupKey } from './field.js'
import { fitsName, maxNameBytes } from './identifiers.js'
import { nameOf } from './json-path.js'
import { type Operand, operandOf, pathOperand } from './operand.js'
import { findRelation } from './relation.js'
import { parseSelect, type SelectItem, SelectSyntaxError } from './select-parser.js'

/** Resolves a `select` (default: every column); undefined after faults were added. */
export function compileSelection (select: string | undefined, table: Table, pointer: string, context: QueryContext): Selection | undefined {
  let items: SelectItem[]
  try {
    items = parseSelect(select ?? '*')
  } catch (error) {
    if (!(error instanceof SelectSyntaxError)) throw error
    context.faults.add(pointer, error.message)
    return undefined
  }
  return resolve(items, table, pointer, context)
}

function resolve (items: readonly SelectItem[], table: Table, pointer: string, context: QueryContext): Selection | undefined {
  const { faults } = context
  const before = faults.faults.length
  const fields = new Map<string, Field>()
  for (const item of items) {
    for (const field of fieldsOf(item, table, pointer, context)) {
      const known = fields.get(field.name)
      // `*, title` names a column twice and means it once.
      if (known !== undefined && !(known.kind === 'column' && field.kind === 'column' && known.column === field.column)) {
        faults.add(pointer, `two members of "${table.name}" are named "${field.name}": give one of them another name, \`other_name:${item.text}\``)
      }
      fields.set(field.name, field)
    }
  }
  const all = [...fields.values()]
  const grouped = all.some(({ kind }) => kind === 'aggregate')
  if (grouped) checkGroups(all, pointer, context)
  return faults.faults.length > before ? undefined : { table, fields: all, ...grouped && { grouped } }
}

/** Rows are grouped by values that PostgreSQL can compare. */
function checkGroups (fields: readonly Field[], pointer: string, { faults }: QueryContext): void {
  for (const field of fields) {
    if (isEmbed(field)) faults.add(pointer, `a \`select\` with aggregates answers groups of rows, which embed no tables: leave out "${field.name}"`)
    else if (isGroupKey(field)) {
      const type = field.kind === 'path' ? field.operand.column.type : columnShownBy(field)!.type
      if (!isOrdered(type)) faults.add(pointer, `rows cannot be grouped by "${field.name}", which is of type ${type}${orderedInstead(type)}`)
    }
  }
}

function fieldsOf (item: SelectItem, table: Table, pointer: string, context: QueryContext): Field[] {
  const { faults } = context
  if (item.name === '*' && item.aggregate === undefined) return everyColumn(table)
  const name = item.alias ?? item.aggregate ?? (item.path === undefined ? undefined : nameOf(item.path)) ?? item.name
  if (!fitsName(name)) {
    faults.add(pointer, `"${name}" is too long for a name: at most ${maxNameBytes} bytes${item.alias === undefined && item.path !== undefined ? ', so give it another, `name:column->…`' : ''}`)
    return []
  }
  if (item.items !== undefined) return embedOf(item, item.items, name, table, pointer, context)
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

/** The column that an item names, or the path in it; undefined after a fault was added. */
function operandFor ({ name, path, text }: SelectItem, table: Table, pointer: string, context: QueryContext): Operand | undefined {
  const column = findColumn(table, name, pointer, context)
  if (column === undefined || path === undefined) return column === undefined ? undefined : operandOf(column)
  return pathOperand(column, path, text, table, pointer, context)
}

function aggregateOf (item: SelectItem, aggregate: AggregateName, name: string, table: Table, pointer: string, context: QueryContext): Field[] {
  if (item.name === '*') return [{ kind: 'aggregate', name, aggregate, operand: null, type: 'bigint' }]
  const operand = operandFor(item, table, pointer, context)
  if (operand === undefined) return []
  const type = resultType(aggregate, operand.column)
  if (type !== undefined) return [{ kind: 'aggregate', name, aggregate, operand, type }]
  context.faults.add(pointer, `\`${item.text}\`: \`${aggregate}\` takes ${describeArgument(aggregate)}, and ${item.path === undefined ? `the column "${item.name}"` : 'the value at this path'} is of type ${operand.column.type}`)
  return []
}

const everyColumns = new WeakMap<Table, Field[]>()

/** Made once for a table: most queries answer all of it. */
function everyColumn (table: Table): Field[] {
  const known = everyColumns.get(table)
  if (known !== undefined) return known
  const fields = [...table.columns.values()].map((column): Field => ({ kind: 'column', name: column.name, column }))
  everyColumns.set(table, fields)
  return fields
}

function embedOf (item: SelectItem, items: readonly SelectItem[], name: string, table: Table, pointer: string, context: QueryContext): Field[] {
  const { catalogue, faults } = context
  const relation = findRelation(catalogue, table, item)
  if (typeof relation === 'string') {
    faults.add(pointer, relation, catalogue.tables.has(item.name) ? undefined : nearest(item.name, catalogue.tables.keys()))
    return []
  }
  const hidden = [relation.table, relation.junction?.table].some((each) => each !== undefined && findTable(each.name, pointer, context, 'select') === undefined)
  if (hidden) return []
  const [only] = items
  if (only !== undefined && items.length === 1 && isCount(only) && !relation.table.columns.has('count')) return [{ kind: 'count', name, relation }]
  const selection = resolve(items, relation.table, pointer, context)
  if (selection?.grouped === true && !relation.many) {
    faults.add(pointer, `"${name}" is one record, which has no aggregates: name its columns`)
    return []
  }
  return selection === undefined ? [] : [{ kind: 'embed', name, relation, selection }]
}

function isCount ({ name, alias, path, aggregate, items }: SelectItem): boolean {
  return name === 'count' && alias === undefined && path === undefined && aggregate === undefined && items === undefined
}
