/** Filters of documents for Firestore. They mean the same as on the SQL database; filters that Firestore cannot express are faults. */
import { declaredType } from '../expressions/declared-fields.js'
import { noScope } from '../expressions/no-scope.js'
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'
import { isPathSegment, isReserved } from '../firestore/paths.js'
import type { DocumentFilter, FieldNames, FilterOperator } from '../firestore/types.js'
import { stringifyJson } from '../json/stringify.js'
import { isNaNForm } from '../json/typed-values.js'
import { pointerTo } from '../schema/faults.js'
import type { Filter, Operator } from '../schema/query.js'
import { invalidInput } from '../validation/detail.js'
import { symbols } from './comparison.js'
import type { QueryContext } from './context.js'
import { combinationFault, combinationsOf } from './document-combinations.js'
import { fieldNamesOf, wordOf } from './document-field.js'
import { asGiven, type Normalise, ofConstant, valuesReader, withTypes } from './document-value.js'
import { type ComparisonFilter, compileFilterValue, type FilterValue, takesList } from './filter-value.js'
import { unfitFor } from './firestore-value.js'
import { isUntyped, requestPath } from './request-value.js'
import { noInput } from './sql.js'

/** The filter of one request: null matches nothing, undefined is omitted. */
type EvaluatedFilter = DocumentFilter | null | undefined
type Evaluate = (scope: Scope) => EvaluatedFilter
/** A filter of the field. */
type Make = (operator: FilterOperator, value: unknown) => DocumentFilter

interface CompiledFilter {
  readonly evaluate: Evaluate
  /** The filter of a request that gives each required value, and only one of it; undefined if such a request can omit the filter. */
  readonly least: DocumentFilter | undefined
  /** No request leaves `least` without a value. */
  readonly certain: boolean
}

/** Collected from all filters of a query. */
interface Found {
  readonly references: Reference[]
  /** Pointers to values of `neq` that can be several. */
  readonly negated: string[]
  /** A filter is an `or`, or compares with a list. */
  alternatives: boolean
}

interface FirestoreFilters {
  /** null if nothing can match. */
  readonly read: (scope: Scope) => readonly DocumentFilter[] | null
  readonly references: readonly Reference[]
}

const maxDepth = 16 // nested groups
const maxValues = 30 // values of one comparison, Firestore's limit
const maxNotValues = 10 // values of `not-in`

/** Operators that Firestore lacks, with an equivalent operator or the reason. */
const unsupported: Partial<Record<Operator, string>> = {
  like: 'Firestore does not support patterns: compare with `eq`, or with `gte` and `lt`',
  ilike: 'Firestore does not support patterns: compare with `eq`, or with `gte` and `lt`',
  fts: 'Firestore does not support full-text search',
  contains: 'Firestore does not support `contains`: use `array-contains`'
}

/** Compiles filters; those at the top level are combined with AND. */
export function compileFirestoreFilters (filters: readonly Filter[], pointer: string, context: QueryContext): FirestoreFilters {
  const found: Found = { references: [], negated: [], alternatives: false }
  const before = context.faults.faults.length

  const compile = (filter: Filter, at: string, depth: number): CompiledFilter => {
    if (depth > maxDepth) {
      context.faults.add(at, `filters can be nested at most ${maxDepth} levels deep`)
      return nothing
    }
    if ('or' in filter) {
      found.alternatives ||= filter.or.length > 1
      return either(filter.or.map((each, index) => compile(each, pointerTo(at, 'or', index), depth + 1)))
    }
    if ('and' in filter) return all(filter.and.map((each, index) => compile(each, pointerTo(at, 'and', index), depth + 1)))
    if ('not' in filter) {
      context.faults.add(pointerTo(at, 'not'), 'Firestore does not support `not`: use `neq`')
      return nothing
    }
    return compileComparison(filter, at, context, found)
  }

  const compiled = filters.map((filter, index) => compile(filter, pointerTo(pointer, index), 0))
  if (context.faults.faults.length === before) checkCombinations(compiled, found, pointer, context)
  return { references: found.references, read: (scope) => evaluated(compiled, scope) }
}

/** The filter after a fault. */
const nothing: CompiledFilter = { evaluate: () => null, least: undefined, certain: true }

/** Reports combinations that Firestore refuses in every request, or for some texts of a URL. */
function checkCombinations (compiled: readonly CompiledFilter[], found: Found, pointer: string, { faults }: QueryContext): void {
  const fault = combinationFault(leastOf(compiled))
  if (fault !== undefined) faults.add(pointer, fault)
  if (!found.alternatives) return
  for (const at of found.negated) {
    faults.add(
      at,
      'Firestore cannot combine `neq` of several values with `or` or a list, and this text can be several: declare its type in `request`'
    )
  }
}

function leastOf (members: readonly CompiledFilter[]): DocumentFilter[] {
  return members.flatMap(({ least }) => least ?? [])
}

/** The filters of a request; null if one of them matches nothing. */
function evaluated (members: readonly CompiledFilter[], scope: Scope): DocumentFilter[] | null {
  const filters: DocumentFilter[] = []
  for (const { evaluate } of members) {
    const filter = evaluate(scope)
    if (filter === null) return null
    if (filter !== undefined) filters.push(filter)
  }
  return filters
}

function either (members: readonly CompiledFilter[]): CompiledFilter {
  const evaluate: Evaluate = (scope) => {
    const there = members.map(({ evaluate }) => evaluate(scope)).filter((each) => each !== undefined)
    if (there.length === 0) return undefined
    const filters = there.filter((each) => each !== null)
    return filters.length === 0 ? null : group('or', filters)
  }
  // A member without a value is left out.
  const certain = members.filter((member) => member.certain)
  return { evaluate, least: groupIfAny('or', leastOf(certain)), certain: certain.length > 0 }
}

function all (members: readonly CompiledFilter[]): CompiledFilter {
  const evaluate: Evaluate = (scope) => {
    const filters = evaluated(members, scope)
    return filters === null ? null : groupIfAny('and', filters)
  }
  return { evaluate, least: groupIfAny('and', leastOf(members)), certain: members.every((member) => member.certain) }
}

function groupIfAny (kind: 'and' | 'or', filters: readonly DocumentFilter[]): DocumentFilter | undefined {
  return filters.length === 0 ? undefined : group(kind, filters)
}

function group (kind: 'and' | 'or', filters: readonly DocumentFilter[]): DocumentFilter {
  const [only, ...others] = filters
  return only !== undefined && others.length === 0 ? only : { kind, filters }
}

function compileComparison (filter: ComparisonFilter, pointer: string, context: QueryContext, found: Found): CompiledFilter {
  const { faults } = context
  const operator = filter.operator ?? 'eq'
  const before = faults.faults.length
  const names = fieldNamesOf(filter.column, pointerTo(pointer, 'column'), context)
  const isId = filter.column === 'id'
  const reserved = names?.find(isReserved)
  if (reserved !== undefined) faults.add(pointerTo(pointer, 'column'), `"${reserved}" is reserved by Firestore`)
  const reason = unsupported[operator]
  if (reason !== undefined) faults.add(pointerTo(pointer, 'operator'), reason)
  else if (isId && (operator === 'is' || operator === 'overlaps' || operator.startsWith('array'))) {
    faults.add(pointerTo(pointer, 'operator'), `the id of a document is a string: \`${operator}\` is not supported for it`)
  }
  const value = compileFilterValue(filter, pointer, context)
  if (names === undefined || value === undefined || faults.faults.length > before) return nothing
  const { value: { constant, references }, presence } = value
  found.references.push(...references)
  const isOpen = (given: CompiledValue): boolean => !isId && isUntyped(given, context.rules)
  const compare = comparing(operator, isId ? null : names, value, filter.column, isOpen)
  const at = pointerTo(pointer, 'value')
  if (constant) {
    const least = ofConstant(() => compare(noScope), at, context) ?? undefined
    found.alternatives ||= least !== undefined && combinationsOf(least) > 1
    return { evaluate: compare, least, certain: true }
  }
  found.alternatives ||= takesList(operator)
  // `request` has rules for path parameters and for members of the query string, not for headers.
  const isUndeclared = references.some((reference) =>
    reference.source !== 'headers' && reference.path.length === 1 && declaredType(context.rules, reference) === undefined)
  if (operator === 'neq' && isOpen(value.value) && isUndeclared) found.negated.push(at)
  if (presence === undefined) return { evaluate: compare, least: withOneValue(operator), certain: false }
  return { evaluate: (scope) => presence(scope, noInput) ? compare(scope) : undefined, least: undefined, certain: true }
}

/** The filter of a request that gives one value, to check combinations. */
function withOneValue (operator: Operator): DocumentFilter {
  const isOfArray = operator === 'overlaps' || operator.startsWith('array')
  return { kind: 'field', field: null, operator: operator === 'neq' ? '!=' : isOfArray ? 'array-contains' : '==', value: null }
}

/** `isOpen`: a text of the value counts as each JSON value that it can represent. */
function comparing (
  operator: Operator,
  field: FieldNames,
  value: FilterValue,
  name: string,
  isOpen: (value: CompiledValue) => boolean
): Evaluate {
  const path = requestPath(value.value, `/${name}`)
  const make: Make = (operator, value) => ({ kind: 'field', field, operator, value })
  const read = valuesReader(value, { operator, name, isOpen, normalise: field === null ? asGiven : normalise })
  return (scope) => {
    if (operator === 'is') {
      const given = value.read(scope)
      if (given === undefined) return null
      const word = wordOf(given)
      if (word === undefined) throw invalidInput(path, `the field "${name}": expected null, true, false or "unknown"`, 'type')
      return make('==', word === 'null' ? null : word === 'true')
    }
    const values = read(scope)
    if (values === null) return null
    return comparisonOf(operator, field === null ? idsOf(values, operator, path) : values, make, path)
  }
}

function comparisonOf (
  operator: Exclude<Operator, 'is'>,
  values: readonly unknown[],
  make: Make,
  path: string
): DocumentFilter | null {
  const [first, ...others] = values
  if (first === undefined) return null
  const most = operator === 'neq' ? maxNotValues : maxValues
  if (values.length > most) throw invalidInput(path, `Firestore can compare with at most ${most} values`, 'maxItems')
  const isOne = others.length === 0
  switch (operator) {
    case 'eq':
    case 'in':
      return isOne ? make('==', first) : oneOf(values, make)
    case 'neq':
      return isOne ? make('!=', first) : make('not-in', values)
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte': {
      const filters = values.flatMap((value) => {
        if (!isNaNForm(value)) return [make(symbols[operator], value)]
        return operator === 'gte' || operator === 'lte' ? [make('==', value)] : []
      })
      return filters.length === 0 ? null : group('or', filters)
    }
    case 'array-contains':
    case 'array-contains-any':
    case 'overlaps':
      if (values.some(isUnlisted)) throw invalidInput(path, 'Firestore cannot find null or NaN in an array', 'type')
      return isOne ? make('array-contains', first) : make('array-contains-any', values)
    // Rejected when the query was compiled.
    case 'like':
    case 'ilike':
    case 'fts':
    case 'contains':
      return null
  }
}

/** Firestore's filters with a list, and those of arrays, never match these values. */
function isUnlisted (value: unknown): boolean {
  return value === null || isNaNForm(value)
}

function oneOf (values: readonly unknown[], make: Make): DocumentFilter {
  const alone = values.filter(isUnlisted).map((value) => make('==', value))
  const listed = values.filter((value) => !isUnlisted(value))
  if (listed.length > 0) alone.push(listed.length === 1 ? make('==', listed[0]) : make('in', listed))
  return group('or', alone)
}

/** `unfit`: the reason why Firestore cannot store the value. */
const normalise: Normalise = (given) => {
  const { value, unfit } = withTypes(given)
  return { value, unfit: unfit ?? unfitFor(value) }
}

/** The valid ids among the items: no document can have another one. */
function idsOf (items: readonly unknown[], operator: Operator, path: string): string[] {
  return items.flatMap((item) => {
    const id = typeof item === 'string' ? item : stringifyJson(item)
    if (isPathSegment(id)) return [id]
    if (operator === 'eq' || operator === 'in') return []
    throw invalidInput(path, 'the id of a document is compared with an invalid id', 'type')
  })
}
