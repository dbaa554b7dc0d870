/** `gt`, `gte`, `lt` and `lte` of JSON on SQL: they match only values of the same type, although PostgreSQL orders all JSON values. */
import { literal } from '../database/sql.js'
import { isNumber } from '../json/exact-number.js'
import { isRecord } from '../json/plain-value.js'
import { stringifyJson } from '../json/stringify.js'
import { typedNameOf, typedNames } from '../json/typed-values.js'
import { symbols } from './comparison.js'
import type { OrderingOperator, ReadValues } from './document-value.js'
import type { Condition } from './filter-value.js'
import type { Binder } from './sql.js'

/** Compiles a comparison with the value, or, unless `isOne`, with any of the values. */
export type Order = (operator: OrderingOperator, field: (alias: string) => string, read: ReadValues, isOne: boolean) => Condition

/** For columns of tables. */
export const jsonOrder: Order = (operator, field, read, isOne) => {
  const bind: Binder = (scope) => {
    const texts = read(scope)?.map((value) => stringifyJson(value)) ?? null
    return isOne ? texts?.[0] ?? null : texts
  }
  return (alias, draft) => {
    const left = field(alias)
    const compare = (json: string): string => `jsonb_typeof(${left}) = jsonb_typeof(${json}) and ${left} ${symbols[operator]} ${json}`
    return isOne
      ? `(${compare(draft.add(bind, 'jsonb'))})`
      : `(select bool_or(${compare('v.j')}) from unnest(${draft.add(bind, 'jsonb[]')}) v(j))`
  }
}

/** The comparison of a value: `field > json` for fields of the type. The field also matches if it equals one of the `others`. */
interface Place {
  readonly type: string
  readonly json: string
  readonly others: readonly string[]
}

const matches = {
  gt: (left, right) => left > right,
  gte: (left, right) => left >= right,
  lt: (left, right) => left < right,
  lte: (left, right) => left <= right
} as const satisfies Record<OrderingOperator, (left: number, right: number) => boolean>

/** For documents: each typed value is of its own type, except that Infinity is a number. NaN has no order. */
export const typedOrder: Order = (operator, field, read, isOne) => {
  const bind = (of: (places: readonly Place[]) => unknown): Binder => (scope) => {
    const values = read(scope)
    return values === null ? null : of(values.map((value) => placeOf(value, operator)))
  }
  const bindOthers = bind((places) => places.flatMap(({ others }) => others))
  const bindType = bind(isOne ? ([place]) => place?.type ?? null : (places) => places.map(({ type }) => type))
  const bindJson = bind(isOne ? ([place]) => place?.json ?? null : (places) => places.map(({ json }) => json))
  return (alias, draft) => {
    const left = field(alias)
    const list = isOne ? '' : '[]'
    const type = draft.add(bindType, `text${list}`)
    const json = draft.add(bindJson, `jsonb${list}`)
    const compare = (type: string, json: string): string => `${typeOf(left)} = ${type} and ${left} ${symbols[operator]} ${json}`
    const compared = isOne ? compare(type, json) : `(select bool_or(${compare('v.t', 'v.j')}) from unnest(${type}, ${json}) v(t, j))`
    return `(${compared} or ${left} = any(${draft.add(bindOthers, 'jsonb[]')}))`
  }
}

const names = literal(`{${typedNames.join(',')}}`)

/** The name of a typed value, or the type of its JSON. */
function typeOf (json: string): string {
  const name = `select k from jsonb_object_keys(${json}) k where k = any(${names}) and ${json} - k = '{}'`
  return `case jsonb_typeof(${json}) when 'object' then coalesce((${name}), 'object') else jsonb_typeof(${json}) end`
}

function placeOf (value: unknown, operator: OrderingOperator): Place {
  const form = isRecord(value) ? typedNameOf(value) : undefined
  if (form !== '$number') {
    // Every number is between the infinities.
    return { type: form ?? jsonTypeOf(value), json: stringifyJson(value), others: isNumber(value) ? infinities(0, operator) : [] }
  }
  const number = Number(Object(value)[form])
  if (Number.isNaN(number)) return { type: 'none', json: 'null', others: matches[operator](0, 0) ? [numberForm('NaN')] : [] }
  // PostgreSQL orders JSON's null before each number, and true after it.
  return { type: 'number', json: number < 0 ? 'null' : 'true', others: infinities(number, operator) }
}

/** The infinities that match. */
function infinities (number: number, operator: OrderingOperator): string[] {
  return [-Infinity, Infinity].filter((infinity) => matches[operator](infinity, number)).map((infinity) => numberForm(String(infinity)))
}

function numberForm (text: string): string {
  return JSON.stringify({ $number: text })
}

function jsonTypeOf (value: unknown): string {
  if (isNumber(value)) return 'number'
  if (Array.isArray(value)) return 'array'
  return value === null ? 'null' : typeof value
}
