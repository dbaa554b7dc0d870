/** A `select` against the catalogue: which columns and embedded tables a record has. */
import type { Column, Table } from '../../database/catalogue.js'
import { nearest } from '../../config/faults.js'
import { type QueryContext, findTable } from './context.js'
import { fitsName, maxNameBytes } from './identifiers.js'
import { findRelation, type Relation } from './relation.js'
import { parseSelect, type SelectItem, SelectSyntaxError } from './select-parser.js'

/** One member of a record. */
export type Field =
  | { readonly kind: 'column', readonly name: string, readonly column: Column }
  | { readonly kind: 'embed', readonly name: string, readonly relation: Relation, readonly selection: Selection }
  /** `tasks(count)`: `[{count}]`. */
  | { readonly kind: 'count', readonly name: string, readonly relation: Relation }

/** The members of a table's records. */
export interface Selection {
  readonly table: Table
  readonly fields: readonly Field[]
}

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

/** Without the excluded fields, at every level: by the name in the answer, and by the column or table that it shows. */
export function withoutFields ({ table, fields }: Selection, excluded: ReadonlySet<string>): Selection {
  const kept = fields.filter((field) => !excluded.has(field.name) && !excluded.has(field.kind === 'column' ? field.column.name : field.relation.table.name))
  return { table, fields: kept.map((field) => field.kind === 'embed' ? { ...field, selection: withoutFields(field.selection, excluded) } : field) }
}

/** Whether a record has any of the fields, at any level. */
export function hasField (selection: Selection, names: ReadonlySet<string>): boolean {
  return selection.fields.some((field) => names.has(field.name) || names.has(field.kind === 'column' ? field.column.name : field.relation.table.name) ||
    (field.kind === 'embed' && hasField(field.selection, names)))
}

/** Every name by which a field of these records can be excluded. */
export function namesOf ({ table, fields }: Selection): Set<string> {
  const names = new Set(table.columns.keys())
  for (const field of fields) {
    names.add(field.name)
    if (field.kind === 'column') continue
    names.add(field.relation.table.name)
    for (const name of field.kind === 'embed' ? namesOf(field.selection) : field.relation.table.columns.keys()) names.add(name)
  }
  return names
}

/** Every table that a record is read from. */
export function tablesOf ({ table, fields }: Selection): Table[] {
  const tables = [table]
  for (const field of fields) {
    if (field.kind === 'column') continue
    if (field.relation.junction !== undefined) tables.push(field.relation.junction.table)
    tables.push(...field.kind === 'embed' ? tablesOf(field.selection) : [field.relation.table])
  }
  return tables
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
  return faults.faults.length > before ? undefined : { table, fields: [...fields.values()] }
}

function fieldsOf (item: SelectItem, table: Table, pointer: string, context: QueryContext): Field[] {
  const { faults } = context
  if (item.name === '*') return everyColumn(table)
  const name = item.alias ?? item.name
  if (!fitsName(name)) {
    faults.add(pointer, `"${name}" is too long for a name: at most ${maxNameBytes} bytes`)
    return []
  }
  if (item.items !== undefined) return embedOf(item, item.items, name, table, pointer, context)
  const column = table.columns.get(item.name)
  if (column !== undefined) return [{ kind: 'column', name, column }]
  const isTable = context.catalogue.tables.has(item.name)
  faults.add(pointer, isTable
    ? `"${item.name}" is a table: write \`${item.name}(*)\` to embed it`
    : `the table "${table.name}" has no column "${item.name}"`, isTable ? undefined : nearest(item.name, table.columns.keys()))
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
  return selection === undefined ? [] : [{ kind: 'embed', name, relation, selection }]
}

function isCount ({ name, alias, items }: SelectItem): boolean {
  return name === 'count' && alias === undefined && items === undefined
}
