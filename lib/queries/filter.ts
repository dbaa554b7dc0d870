/** Compiles filters to SQL conditions. The text depends on the configuration, and on the optional filters with a value. */
import { type Table, tenantColumn } from '../database/catalogue.js'
import type { Reference } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import type { Filter } from '../schema/query.js'
import { compileComparison } from './comparison.js'
import type { QueryContext } from './context.js'
import { compileJsonComparison } from './document-field.js'
import { type Comparison, type ComparisonFilter, compileFilterValue, type Condition } from './filter-value.js'
import { findOperand } from './operand.js'
import { columnOf, type Draft, type Switch, tenantBinder } from './sql.js'

export interface CompiledFilters {
  readonly conditions: readonly Condition[]
  readonly switches: readonly Switch[]
  readonly references: readonly Reference[]
  /** The columns that a top-level `eq` always pins to one value. */
  readonly pinned: ReadonlySet<string>
  /** At least one top-level filter is not optional. */
  readonly always: boolean
}

type Compile = (filter: ComparisonFilter, pointer: string) => Comparison | undefined

/** The maximum depth of nested groups. */
const maxDepth = 16

export function compileFilters (
  filters: readonly Filter[] | undefined,
  table: Table,
  pointer: string,
  context: QueryContext
): CompiledFilters {
  return compileConditions(filters ?? [], pointer, context, (filter, at) => {
    const operand = findOperand(table, filter.column, pointerTo(at, 'column'), context)
    if (operand?.json !== undefined) return compileJsonComparison(operand.json, filter, at, context)
    if (operand !== undefined) return compileComparison(operand, filter, at, context)
    compileFilterValue(filter, at, context)
    return undefined
  })
}

/** Compiles filters with the given compiler of comparisons; top-level filters are combined with AND. */
export function compileConditions (filters: readonly Filter[], pointer: string, context: QueryContext, compile: Compile): CompiledFilters {
  const switches: Switch[] = []
  const references: Reference[] = []
  const pinned = new Set<string>()
  let always = false

  const conditionOf = (filter: Filter, at: string, depth: number): Condition | undefined => {
    if (depth > maxDepth) {
      context.faults.add(at, `filters can be nested at most ${maxDepth} levels deep`)
      return undefined
    }
    if ('or' in filter) return group(filter.or.map((each, index) => conditionOf(each, pointerTo(at, 'or', index), depth + 1)), ' or ')
    if ('and' in filter) return group(filter.and.map((each, index) => conditionOf(each, pointerTo(at, 'and', index), depth + 1)), ' and ')
    if ('not' in filter) return negate(conditionOf(filter.not, pointerTo(at, 'not'), depth + 1))
    const comparison = compile(filter, at)
    if (comparison === undefined) return undefined
    references.push(...comparison.references)
    const { presence, condition } = comparison
    if (presence === undefined) return condition
    switches.push(presence)
    return (alias, draft) => draft.has(presence) ? condition(alias, draft) : undefined
  }

  const conditions = filters.flatMap((filter, index) => {
    const before = switches.length
    const condition = conditionOf(filter, pointerTo(pointer, index), 0)
    if (condition === undefined) return []
    if (switches.length === before) always = true
    if ('column' in filter && (filter.operator ?? 'eq') === 'eq' && filter.optional !== true) pinned.add(filter.column)
    return [condition]
  })
  return { conditions, switches, references, pinned, always }
}

/** The conditions that apply to a request. */
export function writeConditions ({ conditions }: Pick<CompiledFilters, 'conditions'>, alias: string, draft: Draft): string[] {
  return conditions.map((condition) => condition(alias, draft)).filter((text) => text !== undefined)
}

function group (members: readonly (Condition | undefined)[], word: string): Condition {
  const known = members.filter((member) => member !== undefined)
  return (alias, draft) => {
    const texts = writeConditions({ conditions: known }, alias, draft)
    return texts.length === 0 ? undefined : `(${texts.join(word)})`
  }
}

function negate (condition: Condition | undefined): Condition | undefined {
  if (condition === undefined) return undefined
  return (alias, draft) => {
    const text = condition(alias, draft)
    return text === undefined ? undefined : `not (${text})`
  }
}

// The conditions on every row of every query: it belongs to the request's tenant, and is not soft-deleted.

/**
 * The conditions on a table's rows under an alias. `withDeleted` includes soft-deleted rows. They come before the query's own conditions:
 * PostgreSQL evaluates conditions of equal cost in order, and a condition that fails must not read another tenant's row.
 */
export function rowConditions (table: Table, alias: string, draft: Draft, withDeleted = false): string[] {
  const conditions = []
  if (table.tenantScoped) conditions.push(`${columnOf(alias, tenantColumn)} = ${tenantPlaceholder(table, draft)}`)
  if (table.softDelete && !withDeleted) {
    // A partial index `where deleted = false` serves only the plain form; a nullable column needs the other form.
    const deleted = columnOf(alias, 'deleted')
    conditions.push(table.columns.get('deleted')?.notNull === true ? `${deleted} = false` : `${deleted} is not true`)
  }
  return conditions
}

/** The request's tenant, cast to the type of the table's `tenant_id`. */
export function tenantPlaceholder (table: Table, draft: Draft): string {
  const { type } = table.columns.get(tenantColumn)!
  return draft.add(tenantBinder(type), type)
}

/** ` where a and b`, or nothing. */
export function where (conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`
}
