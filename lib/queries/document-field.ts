/** Fields of a document by path, and comparisons by the value's type. A string of a URL counts as each JSON type that it can represent. */
import { noScope } from '../expressions/no-scope.js'
import { stringifyJson } from '../json/stringify.js'
import { pointerTo } from '../schema/faults.js'
import type { Operator } from '../schema/query.js'
import { invalidInput } from '../validation/detail.js'
import { encodePattern, patternExpectation } from './column-value.js'
import { compileComparison, encodeSearch, searchConfiguration, searchExpectation, symbols, writeSearch } from './comparison.js'
import type { QueryContext } from './context.js'
import { type Comparison, type ComparisonFilter, compileFilterValue, type Condition, type FilterValue, takesList } from './filter-value.js'
import { operandOf } from './operand.js'
import { isUntyped, jsonTexts, requestPath, splitList } from './request-value.js'
import { type Binder, columnOf } from './sql.js'

/** The id of a document, which is stored outside its fields. */
export const idOperand = operandOf({ name: 'id', type: 'text', notNull: true, hasDefault: false, generated: false })

/** At most eight names of letters, digits, `_` and `-`, separated by dots: safe inside a quoted literal. */
const fieldPath = /^[A-Za-z_][\w-]{0,62}(\.[A-Za-z_][\w-]{0,62}){0,7}$/

/** The names of a path into a document; undefined after a fault. */
export function fieldNamesOf (path: string, pointer: string, { faults }: QueryContext): string[] | undefined {
  if (fieldPath.test(path)) return path.split('.')
  faults.add(pointer, `"${path}" is not a valid field: expected letters, digits, \`_\` and \`-\`, with \`.\` between the names of a path`)
  return undefined
}

/** The SQL of a field: its JSON, or, with `text`, its text. */
type JsonField = (alias: string, text?: boolean) => string

/** The field at the path; undefined after a fault. */
export function fieldOf (path: string, pointer: string, context: QueryContext): JsonField | undefined {
  const names = fieldNamesOf(path, pointer, context)?.map((name) => `'${name}'`)
  if (names === undefined) return undefined
  const last = names.pop()!
  return (alias, text) => [columnOf(alias, 'data'), ...names].join(' -> ') + (text === true ? ' ->> ' : ' -> ') + last
}

/** Compiles a comparison of a document's field; undefined after a fault. */
export function compileFieldComparison (filter: ComparisonFilter, pointer: string, context: QueryContext): Comparison | undefined {
  if (filter.column === 'id') return compileComparison(idOperand, filter, pointer, context)
  return compileJsonComparison(fieldOf(filter.column, pointerTo(pointer, 'column'), context), filter, pointer, context)
}

/** Compiles a comparison of a jsonb value; `field` is undefined after a fault. */
export function compileJsonComparison (
  field: JsonField | undefined,
  filter: ComparisonFilter,
  pointer: string,
  context: QueryContext
): Comparison | undefined {
  const before = context.faults.faults.length
  const value = compileFilterValue(filter, pointer, context)
  const configuration = searchConfiguration(filter, pointer, context)
  if (field === undefined || value === undefined || context.faults.faults.length > before) return undefined
  const operator = filter.operator ?? 'eq'
  if (value.value.constant && encode(value.read(noScope), operator) === undefined) {
    context.faults.add(pointerTo(pointer, 'value'), expectations[operator] ?? 'expected a value')
    return undefined
  }
  const at: JsonField = (alias, text) => `(${field(alias, text)})`
  const condition = isUntyped(value.value, context.rules) && isTyped(operator)
    ? urlConditionOf(operator, at, urlBinderOf(value, operator, filter.column))
    : conditionOf(operator, at, binderOf(value, operator, filter.column), configuration)
  return { condition, references: value.value.references, presence: value.presence }
}

/** `configuration`: for `fts`. */
function conditionOf (operator: Operator, field: JsonField, bind: Binder, configuration: string): Condition {
  return (alias, draft) => {
    const left = field(alias)
    switch (operator) {
      case 'eq':
        return `${left} = ${draft.add(bind, 'jsonb')}`
      case 'neq':
        return `${nullOf(left)} <> ${draft.add(bind, 'jsonb')}`
      case 'gt':
      case 'gte':
      case 'lt':
      case 'lte': {
        const value = draft.add(bind, 'jsonb')
        // PostgreSQL also orders JSON values of different types; a comparison here matches only values of the same type.
        return `(jsonb_typeof(${left}) = jsonb_typeof(${value}) and ${left} ${symbols[operator]} ${value})`
      }
      case 'like':
      case 'ilike':
        return `${field(alias, true)} ${operator} ${draft.add(bind, 'text')}`
      case 'fts':
        return writeSearch(configuration, field(alias, true), false, draft.add(bind, 'text'))
      // A missing field counts as JSON null.
      case 'is':
        return `coalesce(${left}, 'null') = ${draft.add(bind, 'jsonb')}`
      case 'in':
        return `${left} = any(${draft.add(bind, 'jsonb[]')})`
      case 'contains':
        return `${left} @> ${draft.add(bind, 'jsonb')}`
      case 'array-contains':
      case 'array-contains-any':
      case 'overlaps':
        return overlap(left, draft.add(bind, 'jsonb[]'))
    }
  }
}

type TypedOperator = Exclude<Operator, 'like' | 'ilike' | 'is' | 'fts'>

function isTyped (operator: Operator): operator is TypedOperator {
  return operator !== 'like' && operator !== 'ilike' && operator !== 'is' && operator !== 'fts'
}

/** The bound value is the list of JSON values that the string of the URL can represent. */
function urlConditionOf (operator: TypedOperator, field: JsonField, bind: Binder): Condition {
  return (alias, draft) => {
    const left = field(alias)
    const values = draft.add(bind, 'jsonb[]')
    switch (operator) {
      case 'eq':
      case 'in':
        return `${left} = any(${values})`
      case 'neq':
        return `${nullOf(left)} <> all(${values})`
      case 'contains':
        return `${left} @> any(${values})`
      case 'gt':
      case 'gte':
      case 'lt':
      case 'lte':
        return `(select bool_or(jsonb_typeof(${left}) = jsonb_typeof(v.j) and ${left} ${symbols[operator]} v.j) from unnest(${values}) v(j))`
      case 'array-contains':
      case 'array-contains-any':
      case 'overlaps':
        return overlap(left, values)
    }
  }
}

/** A JSON null as SQL's: neither `neq` nor its `not` matches it, as with a column. */
function nullOf (left: string): string {
  return `nullif(${left}, 'null')`
}

function overlap (left: string, values: string): string {
  const items = `jsonb_array_elements(case jsonb_typeof(${left}) when 'array' then ${left} else '[]' end)`
  return `case when ${values} is not null then exists (select from ${items} e where e.value = any(${values})) end`
}

function urlBinderOf ({ read, value }: FilterValue, operator: TypedOperator, name: string): Binder {
  const path = requestPath(value, `/${name}`)
  return (scope) => {
    const given = read(scope)
    if (given === undefined || given === null) return null
    const items = takesList(operator) ? listOf(given) : [given]
    return items.flatMap((item) => {
      if (typeof item !== 'string') return [stringifyJson(item)]
      const texts = jsonTexts(item)
      // For other operators, a string that starts like JSON is compared as a string.
      if (texts === undefined && operator === 'contains') {
        throw invalidInput(path, `the field "${name}" is compared with JSON, but this text is not valid JSON`, 'type')
      }
      return texts ?? [stringifyJson(item)]
    })
  }
}

const expectations: Partial<Record<Operator, string>> = {
  like: `expected ${patternExpectation}`,
  ilike: `expected ${patternExpectation}`,
  fts: `expected ${searchExpectation}`,
  is: 'expected null, true, false or "unknown"'
}

function binderOf ({ read, value }: FilterValue, operator: Operator, name: string): Binder {
  const path = requestPath(value, `/${name}`)
  return (scope) => {
    const given = read(scope)
    if (given === undefined || (given === null && operator !== 'is')) return null
    const encoded = encode(given, operator)
    if (encoded === undefined) throw invalidInput(path, `the field "${name}": ${expectations[operator] ?? 'expected a value'}`, 'type')
    return encoded
  }
}

/** The bound value of the operator; undefined if the value does not fit. */
function encode (value: unknown, operator: Operator): string | string[] | undefined {
  switch (operator) {
    case 'like':
    case 'ilike': {
      const pattern = encodePattern(value)
      return typeof pattern === 'string' ? pattern : undefined
    }
    case 'fts': {
      const search = encodeSearch(value)
      return typeof search === 'string' ? search : undefined
    }
    case 'is':
      return wordOf(value)
    case 'in':
    case 'array-contains-any':
    case 'overlaps':
      return listOf(value).map((item) => stringifyJson(item))
    case 'array-contains':
      return [stringifyJson(value)]
    default:
      return stringifyJson(value)
  }
}

/** The word for null, true or false; undefined for other values. */
export function wordOf (value: unknown): string | undefined {
  if (value === 'unknown') return 'null'
  if (typeof value === 'object' && value !== null) return undefined
  const word = String(value)
  return word === 'null' || word === 'true' || word === 'false' ? word : undefined
}

/** An array, or a comma-separated string. */
export function listOf (value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  return typeof value === 'string' ? splitList(value) : [value]
}
