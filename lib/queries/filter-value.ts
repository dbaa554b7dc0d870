/** The parts of a filter: a configured comparison, its value, and the SQL condition that it compiles to. An empty value matches nothing. */
import { noScope } from '../expressions/no-scope.js'
import { compileValue } from '../expressions/template.js'
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import type { Filter, Operator } from '../schema/query.js'
import type { QueryContext } from './context.js'
import { isOfUrl, splitList } from './request-value.js'
import type { Draft, Switch } from './sql.js'

/** A condition on the rows of one alias; undefined if the request omits all of its comparisons. */
export type Condition = (alias: string, draft: Draft) => string | undefined

/** A compiled comparison of a column, or of a field of a document. */
export interface Comparison {
  readonly condition: Condition
  /** Set if the filter is optional. */
  readonly presence: Switch | undefined
  readonly references: readonly Reference[]
}

export type ComparisonFilter = Extract<Filter, { column: string }>

interface FilterItem {
  readonly value: CompiledValue
  /** undefined if the value resolves to nothing. */
  readonly read: (scope: Scope) => unknown
}

export interface FilterValue extends FilterItem {
  /** Set if the filter is optional: whether the request has a value for it. */
  readonly presence: Switch | undefined
  /** Set for a configured list with templates. */
  readonly items?: readonly FilterItem[] | undefined
}

/** Compiles the value of a filter; undefined after a fault. */
export function compileFilterValue (
  filter: ComparisonFilter,
  pointer: string,
  context: QueryContext,
  at = pointerTo(pointer, 'value')
): FilterValue | undefined {
  if (!Object.hasOwn(filter, 'value')) {
    context.faults.add(pointer, 'a filter requires a `value`')
    return undefined
  }
  const before = context.faults.faults.length
  const value = compileValue(filter.value, at, context)
  if (context.faults.faults.length > before) return undefined
  if (value.constant) {
    if (value.evaluate(noScope) === undefined) context.faults.add(at, 'the value is always empty, so the filter would match nothing')
    else if (value.evaluate(noScope) === null && filter.operator !== 'is') context.faults.add(at, 'no value equals null', 'operator: is')
    else return { value, read: value.evaluate, presence: undefined }
    return undefined
  }
  const items = itemsOf(filter, at, context)
  const read = items === undefined ? readerOf(filter, value) : readItems(items)
  return { value, read, items, presence: filter.optional === true ? presenceOf(filter.operator, read) : undefined }
}

function itemsOf ({ operator, value: configured }: ComparisonFilter, at: string, context: QueryContext): FilterItem[] | undefined {
  if (!takesList(operator) || !Array.isArray(configured)) return undefined
  return configured.map((item: unknown, index): FilterItem => {
    const value = compileValue(item, pointerTo(at, index), context)
    const read = wholeOf(item, value)
    return { value, read: item === null ? () => null : (scope) => read(scope) ?? undefined }
  })
}

function readerOf ({ operator, value: configured }: ComparisonFilter, value: CompiledValue): FilterValue['read'] {
  if (value.within !== undefined) return wholeOf(configured, value)
  return (takesList(operator) || operator === 'contains') && isOfUrl(value) ? readList(value) : value.evaluate
}

/** undefined without a template's value: `%{{query.q}}%` must not become `%%`, nor `{ "owner": "{{query.owner}}" }` become `{}`. */
function wholeOf (configured: unknown, { within, evaluate }: CompiledValue): FilterValue['read'] {
  if (within === undefined) return evaluate
  if (typeof configured === 'string') return (scope) => within.every((read) => isMissing(read(scope))) ? undefined : evaluate(scope)
  return (scope) => within.some((read) => isMissing(read(scope))) ? undefined : evaluate(scope)
}

function isMissing (value: unknown): boolean {
  return value === undefined || value === null
}

/** Items without a value are left out. */
function readItems (items: readonly FilterItem[]): FilterValue['read'] {
  return (scope) => {
    const given = items.map(({ read }) => read(scope)).filter((item) => item !== undefined)
    return given.length === 0 ? undefined : given
  }
}

/** null is a value of `is`. */
function presenceOf (operator: Operator | undefined, read: FilterValue['read']): Switch {
  return operator === 'is' ? (scope) => read(scope) !== undefined : (scope) => !isMissing(read(scope))
}

/** Whether a comma-separated string is a list for the operator. */
export function takesList (operator: Operator | undefined): boolean {
  return operator === 'in' || operator === 'overlaps' || operator === 'array-contains-any'
}

/** The filter with all members of its groups. */
export function allFilters (filter: Filter): Filter[] {
  if ('or' in filter) return [filter, ...filter.or.flatMap(allFilters)]
  if ('and' in filter) return [filter, ...filter.and.flatMap(allFilters)]
  return 'not' in filter ? [filter, ...allFilters(filter.not)] : [filter]
}

/** A list in a URL is a comma-separated string, a repeated parameter, or both: `?id=1,2&id=3`. */
function readList ({ evaluate }: CompiledValue): (scope: Scope) => unknown {
  return (scope) => {
    const given = evaluate(scope)
    return Array.isArray(given) ? given.flatMap((item: unknown) => typeof item === 'string' ? splitList(item) : [item]) : given
  }
}
