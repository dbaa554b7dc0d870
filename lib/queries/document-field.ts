/** Fields of a document by path, and comparisons by the value's type. A string of a URL counts as each JSON type that it can represent. */
import { noScope } from '../expressions/no-scope.js'
import type { CompiledValue } from '../expressions/types.js'
import { stringifyJson } from '../json/stringify.js'
import { pointerTo } from '../schema/faults.js'
import type { Operator } from '../schema/query.js'
import { invalidInput } from '../validation/detail.js'
import { encodePattern, patternExpectation } from './column-value.js'
import { compileComparison, encodeSearch, searchConfiguration, searchExpectation, writeSearch } from './comparison.js'
import type { QueryContext } from './context.js'
import { jsonOrder, type Order, typedOrder } from './document-order.js'
import {
  asGiven, isOrdering, type Normalise, ofConstant, type OrderingOperator, type ReadValues, valuesReader, withTypes
} from './document-value.js'
import { type Comparison, type ComparisonFilter, compileFilterValue, type Condition, type FilterValue } from './filter-value.js'
import { operandOf } from './operand.js'
import { isUntyped, requestPath } from './request-value.js'
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
  const field = fieldOf(filter.column, pointerTo(pointer, 'column'), context)
  return compileJson(field, filter, pointer, context, { normalise: withTypes, order: typedOrder })
}

/** Compiles a comparison of a table's jsonb value; `field` is undefined after a fault. */
export function compileJsonComparison (
  field: JsonField | undefined,
  filter: ComparisonFilter,
  pointer: string,
  context: QueryContext
): Comparison | undefined {
  return compileJson(field, filter, pointer, context, { normalise: asGiven, order: jsonOrder })
}

/** The differences between fields of documents and jsonb values of tables. */
interface JsonKind {
  readonly normalise: Normalise
  readonly order: Order
}

function compileJson (
  field: JsonField | undefined,
  filter: ComparisonFilter,
  pointer: string,
  context: QueryContext,
  { normalise, order }: JsonKind
): Comparison | undefined {
  const before = context.faults.faults.length
  const value = compileFilterValue(filter, pointer, context)
  const configuration = searchConfiguration(filter, pointer, context)
  if (field === undefined || value === undefined || context.faults.faults.length > before) return undefined
  const { value: { constant, references }, presence } = value
  const operator = filter.operator ?? 'eq'
  const at = pointerTo(pointer, 'value')
  const json: JsonField = (alias, text) => `(${field(alias, text)})`
  if (isTextual(operator)) {
    if (constant && encode(value.read(noScope), operator) === undefined) context.faults.add(at, expectations[operator])
    return { condition: textConditionOf(operator, json, binderOf(value, operator, filter.column), configuration), references, presence }
  }
  const isOpen = (given: CompiledValue): boolean => isUntyped(given, context.rules)
  const read = valuesReader(value, { operator, name: filter.column, isOpen, normalise })
  const isSeveral = isOpen(value.value)
  const fixed = constant ? ofConstant(() => read(noScope), at, context) : undefined
  const values = fixed === undefined ? read : () => fixed
  const condition = isOrdering(operator) ? order(operator, json, values, !isSeveral) : conditionOf(operator, json, values, isSeveral)
  return { condition, references, presence }
}

type TextOperator = 'like' | 'ilike' | 'is' | 'fts'

function isTextual (operator: Operator): operator is TextOperator {
  return operator === 'like' || operator === 'ilike' || operator === 'is' || operator === 'fts'
}

/** `configuration`: for `fts`. */
function textConditionOf (operator: TextOperator, field: JsonField, bind: Binder, configuration: string): Condition {
  return (alias, draft) => {
    switch (operator) {
      case 'like':
      case 'ilike':
        return `${field(alias, true)} ${operator} ${draft.add(bind, 'text')}`
      case 'fts':
        return writeSearch(configuration, field(alias, true), false, draft.add(bind, 'text'))
      // A missing field counts as JSON null.
      case 'is':
        return `coalesce(${field(alias)}, 'null') = ${draft.add(bind, 'jsonb')}`
    }
  }
}

/** `isSeveral`: a single value can be several. */
function conditionOf (
  operator: Exclude<Operator, TextOperator | OrderingOperator>,
  field: JsonField,
  read: ReadValues,
  isSeveral: boolean
): Condition {
  const bindOne: Binder = (scope) => {
    const values = read(scope)
    return values === null ? null : stringifyJson(values[0])
  }
  const bindAll: Binder = (scope) => read(scope)?.map((value) => stringifyJson(value)) ?? null
  return (alias, draft) => {
    const left = field(alias)
    const one = (): string => draft.add(bindOne, 'jsonb')
    const all = (): string => draft.add(bindAll, 'jsonb[]')
    switch (operator) {
      case 'eq':
        return `${left} = ${isSeveral ? `any(${all()})` : one()}`
      case 'neq':
        return `${nullOf(left)} <> ${isSeveral ? `all(${all()})` : one()}`
      case 'contains':
        return `${left} @> ${isSeveral ? `any(${all()})` : one()}`
      case 'in':
        return `${left} = any(${all()})`
      case 'array-contains':
      case 'array-contains-any':
      case 'overlaps':
        return overlap(left, all())
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

const expectations = {
  like: `expected ${patternExpectation}`,
  ilike: `expected ${patternExpectation}`,
  fts: `expected ${searchExpectation}`,
  is: 'expected null, true, false or "unknown"'
} as const satisfies Record<TextOperator, string>

function binderOf ({ read, value }: FilterValue, operator: TextOperator, name: string): Binder {
  const path = requestPath(value, `/${name}`)
  return (scope) => {
    const given = read(scope)
    if (given === undefined || (given === null && operator !== 'is')) return null
    const encoded = encode(given, operator)
    if (encoded === undefined) throw invalidInput(path, `the field "${name}": ${expectations[operator]}`, 'type')
    return encoded
  }
}

/** The bound value of the operator; undefined if the value does not fit. */
function encode (value: unknown, operator: TextOperator): string | undefined {
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
  }
}

/** The word for null, true or false; undefined for other values. */
export function wordOf (value: unknown): string | undefined {
  if (value === 'unknown') return 'null'
  if (typeof value === 'object' && value !== null) return undefined
  const word = String(value)
  return word === 'null' || word === 'true' || word === 'false' ? word : undefined
}
