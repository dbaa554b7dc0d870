/** The members of a record. */
import { oncePerObject } from '../cache/weak-memo.js'
import type { Column, Table } from '../database/catalogue.js'
import type { Reference } from '../expressions/types.js'
import type { AggregateName } from './aggregate.js'
import type { CompiledFilters } from './filter.js'
import type { Operand } from './operand.js'
import type { Relation } from './relation.js'
import type { Draft } from './sql.js'

/** One member of a record. */
export type Field =
  | { readonly kind: 'column', readonly name: string, readonly column: Column }
  /** `data->>'city'` */
  | { readonly kind: 'path', readonly name: string, readonly operand: Operand }
  /** `qty.sum()`; without an operand, `count()` of rows. `type` is the result type. */
  | {
    readonly kind: 'aggregate',
    readonly name: string,
    readonly aggregate: AggregateName,
    readonly operand: Operand | null,
    readonly type: string
  }
  | { readonly kind: 'embed', readonly name: string, readonly relation: Relation, readonly selection: Selection, readonly rows: EmbedRows }
  /** `tasks(count)`: `[{count}]`. */
  | { readonly kind: 'count', readonly name: string, readonly relation: Relation, readonly rows: EmbedRows }

/** The members of a table's records. */
export interface Selection {
  readonly table: Table
  readonly fields: readonly Field[]
  /** Each record is a group of rows with equal values in all members except aggregates. Default: each record is one row. */
  readonly grouped?: true
}

/** The restrictions on an embed's rows, besides the tenant. */
export interface EmbedRows {
  /** Omits records without such a row. */
  readonly inner: boolean
  readonly filters: CompiledFilters
  /** The order of the rows, or of their groups. Default: by key. */
  readonly order?: ((selection: Selection, alias: string) => string) | undefined
  /** Default: all rows. */
  readonly limit?: EmbedLimit | undefined
  /** More rows fail the statement, as a text that is too large does. undefined: no limit. */
  readonly most: number | undefined
}

export interface EmbedLimit {
  /** The number as SQL; null for all rows. */
  readonly write: (draft: Draft) => string
  readonly references: readonly Reference[]
}

/** The fields of all columns. Computed once per table, because most queries select every column. */
export const everyColumn = oncePerObject(({ columns }: Table): Field[] =>
  [...columns.values()].map((column): Field => ({ kind: 'column', name: column.name, column }))
)

/** The column of this table that a member shows. */
export function columnShownBy (field: Field): Column | undefined {
  switch (field.kind) {
    case 'column':
      return field.column
    case 'path':
      return field.operand.source
    case 'aggregate':
      return field.operand?.source
    default:
      return undefined
  }
}

/** Whether the member comes from another table. */
export function isEmbed (field: Field): field is Extract<Field, { kind: 'embed' | 'count' }> {
  return field.kind === 'embed' || field.kind === 'count'
}

/** Whether rows are grouped by the member. */
export function isGroupKey ({ kind }: Field): boolean {
  return kind === 'column' || kind === 'path'
}

/** Removes the excluded fields at every level, both by their name in the response and by the column or table that they show. */
export function withoutFields (selection: Selection, excluded: ReadonlySet<string>): Selection {
  return keptFields(selection, (field) => !isNamed(field, excluded))
}

/** The names of the members that `withoutFields` removes, at every level. */
export function excludedMembers ({ fields }: Selection, excluded: ReadonlySet<string>): string[] {
  return fields.flatMap((field) => {
    if (isNamed(field, excluded)) return [field.name]
    return field.kind === 'embed' ? excludedMembers(field.selection, excluded) : []
  })
}

/** The fields that `keeps` accepts, at every level. */
export function keptFields (selection: Selection, keeps: (field: Field, table: Table) => boolean): Selection {
  const fields = selection.fields.filter((field) => keeps(field, selection.table))
  return {
    ...selection,
    fields: fields.map((field) => field.kind === 'embed' ? { ...field, selection: keptFields(field.selection, keeps) } : field)
  }
}

/** Whether a record has one of the fields, at any level. */
export function hasField ({ fields }: Selection, names: ReadonlySet<string>): boolean {
  return fields.some((field) => isNamed(field, names) || (field.kind === 'embed' && hasField(field.selection, names)))
}

function isNamed (field: Field, names: ReadonlySet<string>): boolean {
  const shown = (isEmbed(field) ? field.relation.table : columnShownBy(field))?.name
  return names.has(field.name) || (shown !== undefined && names.has(shown))
}

/** Every name that can exclude a field of these records. */
export function namesOf ({ table, fields }: Selection): Set<string> {
  const names = new Set(table.columns.keys())
  for (const field of fields) {
    names.add(field.name)
    if (!isEmbed(field)) continue
    names.add(field.relation.table.name)
    for (const name of field.kind === 'embed' ? namesOf(field.selection) : field.relation.table.columns.keys()) names.add(name)
  }
  return names
}

export function tablesOf ({ table, fields }: Selection): Table[] {
  const tables = [table]
  for (const field of fields) {
    if (!isEmbed(field)) continue
    if (field.relation.junction !== undefined) tables.push(field.relation.junction.table)
    tables.push(...field.kind === 'embed' ? tablesOf(field.selection) : [field.relation.table])
  }
  return tables
}
