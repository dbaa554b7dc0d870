/** One comparison of a column, with PostgreSQL's semantics: `neq` finds no nulls. In patterns `%` and `_` are wildcards, `*` is literal. */
import type { Column } from '../database/catalogue.js'
import { literal } from '../database/sql.js'
import { noScope } from '../expressions/no-scope.js'
import { isStorable, unstorableText } from '../json/storable.js'
import { nearest, pointerTo } from '../schema/faults.js'
import type { Operator } from '../schema/query.js'
import { invalidInput } from '../validation/detail.js'
import {
  describeType, encodePattern, type Encoder,
  encoderOf, isOrdered, itemOf, kindOf, listEncoder, orderedInstead, patternExpectation, unfit
} from './column-value.js'
import type { QueryContext } from './context.js'
import { type Comparison, type ComparisonFilter, compileFilterValue, type Condition, type FilterValue } from './filter-value.js'
import type { Operand } from './operand.js'
import { isUntyped, jsonTexts, requestPath } from './request-value.js'
import { type Binder, columnOf } from './sql.js'

/** Operators with the column on the left, and the value, cast to the column's type, on the right. */
export const symbols = { eq: '=', neq: '<>', gt: '>', gte: '>=', lt: '<', lte: '<=' } as const

/** Types that `like` supports directly; others are compared by their text. */
const textTypes = new Set(['text', 'character varying', 'character', 'citext', 'name'])

/** Operators for any column: they compare its text, or test whether it has a value. */
const textOperators: ReadonlySet<Operator> = new Set<Operator>(['is', 'like', 'ilike'])

/** Without the operators that only fields of documents have. */
type ColumnOperator = Exclude<Operator, 'array-contains' | 'array-contains-any'>

/** Compiles a comparison; undefined after a fault. */
export function compileComparison (
  operand: Operand,
  filter: ComparisonFilter,
  pointer: string,
  context: QueryContext,
  valuePointer = pointerTo(pointer, 'value')
): Comparison | undefined {
  const { column } = operand
  const operator = filter.operator ?? 'eq'
  if (operator === 'array-contains' || operator === 'array-contains-any') {
    const instead = operator === 'array-contains' ? 'contains' : 'overlaps'
    context.faults.add(
      pointerTo(pointer, 'operator'),
      `\`${operator}\` is for array fields of documents, but "${column.name}" is not one`,
      instead
    )
    return undefined
  }
  const before = context.faults.faults.length
  checkOperator(operator, column, pointerTo(pointer, 'operator'), context)
  const configuration = searchConfiguration(filter, pointer, context)
  const value = compileFilterValue(filter, pointer, context, valuePointer)
  if (value === undefined || context.faults.faults.length > before) return undefined
  const { value: { constant, references }, presence } = value
  if (constant && encoderFor(operator, column)(value.read(noScope)) === unfit) context.faults.add(valuePointer, misfit(operator, column))
  const condition = operator === 'is' ? compileIs(operand, value) : compileOperator(operator, operand, value, configuration, context)
  return { condition, references, presence }
}

function checkOperator (operator: Operator, column: Column, pointer: string, { faults }: QueryContext): void {
  const { name, type } = column
  const kind = kindOf(type)
  const isRange = /range$/.test(type)
  if (!isOrdered(type) && !textOperators.has(operator)) {
    faults.add(pointer, `the column "${name}" has the type ${type}, which PostgreSQL cannot compare${orderedInstead(type)}`)
  } else if (operator === 'fts' && type !== 'tsvector' && !textTypes.has(type)) {
    faults.add(pointer, `\`fts\` requires a text or tsvector column, but "${name}" is ${type}`)
  } else if (operator === 'in' && kind === 'array') faults.add(pointer, `"${name}" is an array (${type}): use \`contains\` or \`overlaps\``)
  else if (operator === 'contains' && kind !== 'array' && type !== 'jsonb' && !isRange) {
    faults.add(pointer, `\`contains\` requires an array, jsonb or range column, but "${name}" is ${type}`)
  } else if (operator === 'overlaps' && kind !== 'array' && !isRange) {
    faults.add(pointer, `\`overlaps\` requires an array or range column, but "${name}" is ${type}`)
  } else if (lacksPattern(operator, column)) {
    faults.add(
      pointer,
      `PostgreSQL has no \`${operator}\` for "${name}", whose collation is nondeterministic: use \`eq\`, or \`like\` with PostgreSQL 18 or later`
    )
  }
}

function lacksPattern (operator: Operator, { nondeterministic, withoutLike }: Column): boolean {
  return (operator === 'ilike' && nondeterministic === true) || (operator === 'like' && withoutLike === true)
}

/** `configuration`: for `fts`. */
function compileOperator (
  operator: Exclude<ColumnOperator, 'is'>,
  { column, write }: Operand,
  value: FilterValue,
  configuration: string,
  { rules }: QueryContext
): Condition {
  if (operator === 'contains' && column.type === 'jsonb' && isUntyped(value.value, rules)) return compileJsonContains(column, value)
  const bind = binderOf(value, encoderFor(operator, column), operator, column)
  return (alias, draft) => {
    const left = write(alias)
    switch (operator) {
      case 'like':
      case 'ilike':
        return `${textTypes.has(column.type) ? left : `${left}::text`} ${operator} ${draft.add(bind, 'text')}`
      case 'in':
        return `${left} = any(${draft.add(bind, `${column.type}[]`)})`
      case 'contains':
        return `${left} @> ${draft.add(bind, column.type)}`
      case 'overlaps':
        return `${left} && ${draft.add(bind, column.type)}`
      case 'fts':
        return writeSearch(configuration, left, column.type === 'tsvector', draft.add(bind, 'text'))
      default:
        return `${left} ${symbols[operator]} ${draft.add(bind, column.type)}`
    }
  }
}

/** A string of a URL stands for itself, or for the JSON in it. */
function compileJsonContains (column: Column, value: FilterValue): Condition {
  const encode: Encoder = (given) => typeof given === 'string' ? jsonTexts(given) ?? unfit : [encoderOf(column)(given)]
  const bind = binderOf(value, encode, 'contains', column)
  return (alias, draft) => `${columnOf(alias, column.name)} @> any(${draft.add(bind, 'jsonb[]')})`
}

function encoderFor (operator: ColumnOperator, column: Column): Encoder {
  switch (operator) {
    case 'is':
      return isEncoder(column)
    case 'like':
    case 'ilike':
      return encodePattern
    case 'fts':
      return encodeSearch
    case 'in':
      return listEncoder(column)
    case 'contains':
    case 'overlaps':
      return kindOf(column.type) === 'array' ? listEncoder(itemOf(column)) : encoderOf(column)
    default:
      return encoderOf(column)
  }
}

/** Null is never bound, because no comparison with it is true. */
function binderOf ({ read, value }: FilterValue, encode: Encoder, operator: Operator, column: Column): Binder {
  const path = requestPath(value, `/${column.name}`)
  return (scope) => {
    const given = read(scope)
    if (given === undefined || given === null) return null
    const encoded = encode(given)
    if (encoded !== unfit) return encoded
    if (typeof given === 'string' && !isStorable(given)) throw invalidInput(path, unstorableText, 'pattern')
    // A path that ends with a slash has an empty parameter.
    throw invalidInput(path, `${misfit(operator, column)}${given === '' ? ', and the value is empty' : ''}`, 'type')
  }
}

function misfit (operator: Operator, column: Column): string {
  switch (operator) {
    case 'like':
    case 'ilike':
      return `the column "${column.name}" is compared with ${patternExpectation}`
    case 'fts':
      return `the column "${column.name}" is searched for ${searchExpectation}`
    case 'in':
      return `the column "${column.name}" is compared with a list, where each item must be ${describeType(column)}`
    case 'contains':
      return `the column "${column.name}" is compared with ${column.type === 'jsonb' ? 'JSON, but this text is not valid JSON' : describeType(column)}`
    case 'is':
      return `the column "${column.name}" is compared with ${column.type === 'boolean' ? 'null, true, false or "unknown"' : 'null'}`
    default:
      return `the column "${column.name}" must be ${describeType(column)}`
  }
}

const isValues: ReadonlyMap<unknown, string> = new Map<unknown, string>([
  [null, 'null'],
  ['null', 'null'],
  [true, 'true'],
  ['true', 'true'],
  [false, 'false'],
  ['false', 'false'],
  ['unknown', 'unknown']
])

function isEncoder ({ type }: Column): Encoder {
  return (value) => {
    const word = isValues.get(value)
    return word === undefined || (type !== 'boolean' && word !== 'null') ? unfit : word
  }
}

/** `is` accepts null as a value; only a missing value matches nothing. */
function compileIs ({ column, write }: Operand, value: FilterValue): Condition {
  const encode = isEncoder(column)
  if (value.value.constant) {
    const word = encode(value.read(noScope))
    return (alias) => `${write(alias)} is ${String(word)}`
  }
  const path = requestPath(value.value, `/${column.name}`)
  const bind: Binder = (scope) => {
    const given = value.read(scope)
    if (given === undefined) return undefined
    const word = encode(given)
    if (word === unfit) throw invalidInput(path, misfit('is', column), 'type')
    return word
  }
  return (alias, draft) => {
    const left = write(alias)
    const word = draft.add(bind, 'text')
    // A missing word gives null, and null stays null under a `not`.
    if (column.type !== 'boolean') return `case ${word} when 'null' then ${left} is null end`
    return `case ${word} when 'true' then ${left} is true when 'false' then ${left} is false when 'null' then ${left} is null when 'unknown' then ${left} is null end`
  }
}

const maxLength = 1000 // characters of a search
const standard = 'simple'

/** For messages. */
export const searchExpectation = `a string of at most ${maxLength} characters`

/** The operator `fts`: PostgreSQL's full-text search, with the syntax of `websearch_to_tsquery`, which accepts any text. */
export const encodeSearch: Encoder = (value) => {
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && text.length <= maxLength && isStorable(text) ? searchText(text) : unfit
}

/** The text search configuration of a filter, as SQL; empty for other operators. */
export function searchConfiguration ({ operator, config }: ComparisonFilter, pointer: string, { catalogue, faults }: QueryContext): string {
  const at = pointerTo(pointer, 'config')
  if (operator !== 'fts') {
    if (config !== undefined) faults.add(at, 'only the operator `fts` has a `config`')
    return ''
  }
  const name = config ?? standard
  const known = catalogue.searchConfigurations ?? new Map([[name, name]])
  const found = known.get(name)
  if (found === undefined) faults.add(at, `the database has no text search configuration "${name}"`, nearest(name, known.keys()))
  return `${literal(found ?? name)}::regconfig`
}

/** The condition that a text, or a tsvector, matches the search. It can use an index on the same expression. */
export function writeSearch (configuration: string, value: string, isVector: boolean, search: string): string {
  return `${isVector ? value : `to_tsvector(${configuration}, ${value})`} @@ websearch_to_tsquery(${configuration}, ${search})`
}

/** Consecutive hyphens, each a negation: above 31 PostgreSQL fails with `tsquery stack too small`. */
const negations = /-(?:[^\p{L}\p{N}"-]*-){15,}/gu

/** Replaces many consecutive hyphens by one or none, with the same meaning: two negations cancel each other out. */
export function searchText (text: string): string {
  return text.replace(negations, (run) => run.replaceAll(/[^-]/g, '').length % 2 === 1 ? '-' : ' ')
}
