/** Selects one row by its primary key: the query's `id`. */
import { keyColumns, type Table, tenantColumn } from '../database/catalogue.js'
import { isRecord } from '../json/plain-value.js'
import { nearest, pointerTo } from '../schema/faults.js'
import type { Filter } from '../schema/query.js'
import { compileComparison } from './comparison.js'
import type { QueryContext } from './context.js'
import type { CompiledFilters } from './filter.js'
import type { Comparison } from './filter-value.js'
import { operandOf } from './operand.js'

/** The value of one column of a key. */
interface KeyValue {
  readonly column: string
  readonly value: unknown
  readonly pointer: string
}

/** The key values of an `id` by column; empty after a fault. */
export function keyValues (id: unknown, table: Table, pointer: string, { faults }: QueryContext): KeyValue[] {
  const columns = keyColumns(table)
  const [only] = columns
  if (only === undefined) {
    faults.add(pointer, `"${table.name}" has no primary key: select the row with \`filters\``)
    return []
  }
  if (columns.length === 1 && !isRecord(id)) return [{ column: only, value: id, pointer }]
  if (!isRecord(id)) {
    faults.add(pointer, `the primary key of "${table.name}" has ${columns.length} columns: expected an object with ${columns.join(', ')}`)
    return []
  }
  for (const name of Object.keys(id)) {
    if (!columns.includes(name)) {
      faults.add(pointerTo(pointer, name), `"${name}" is not in the primary key of "${table.name}"`, nearest(name, columns))
    }
  }
  for (const name of columns) if (!Object.hasOwn(id, name)) faults.add(pointer, `the primary key of "${table.name}" also has "${name}"`)
  return columns.filter((name) => Object.hasOwn(id, name))
    .map((name) => ({ column: name, value: id[name], pointer: pointerTo(pointer, name) }))
}

/** The filters, combined with those on the key of `id`. */
export function withKey (filters: CompiledFilters, id: unknown, table: Table, pointer: string, context: QueryContext): CompiledFilters {
  const comparisons: Comparison[] = []
  const pinned = new Set(filters.pinned)
  for (const { column, value, pointer: at } of keyValues(id, table, pointer, context)) {
    const comparison = compileComparison(operandOf(table.columns.get(column)!), { column, value }, at, context, at)
    if (comparison === undefined) continue
    comparisons.push(comparison)
    pinned.add(column)
  }
  return {
    conditions: [...comparisons.map(({ condition }) => condition), ...filters.conditions],
    switches: filters.switches,
    references: [...comparisons.flatMap(({ references }) => references), ...filters.references],
    pinned,
    always: true
  }
}

/** Whether the filters match at most one row. */
export function isOneRow ({ pinned }: CompiledFilters, table: Table): boolean {
  const columns = keyColumns(table)
  return columns.length > 0 && columns.every((column) => pinned.has(column))
}

/** Whether the filters pin a primary key, a unique constraint or a unique index, so that no second row can match. */
export function isUnique (filters: CompiledFilters, table: Table): boolean {
  return isOneRow(filters, table) ||
    table.uniqueKeys.some((key) =>
      key.length > 0 && key.every((column) => filters.pinned.has(column) || (table.tenantScoped && column === tenantColumn))
    )
}

/** Reads filters as values that identify the written row: only top-level `eq` on columns is allowed. */
export function asValues (filters: readonly Filter[], pointer: string, { faults }: QueryContext): KeyValue[] {
  return filters.flatMap((filter, index) => {
    const at = pointerTo(pointer, index)
    if ('column' in filter && (filter.operator ?? 'eq') === 'eq' && filter.optional !== true) {
      return [{ column: filter.column, value: filter.value, pointer: pointerTo(at, 'value') }]
    }
    faults.add(at, 'an `upsert` can have only filters with the operator `eq`, whose values identify its row')
    return []
  })
}
