/** Functions over the rows of a group: `sum`, `avg`, `min`, `max` and `count`. */
import type { Column } from '../database/catalogue.js'
import { isOrdered, itemType, kindOf } from './column-value.js'

export const aggregateNames = ['sum', 'avg', 'min', 'max', 'count'] as const
export type AggregateName = typeof aggregateNames[number]

export function isAggregate (name: string): name is AggregateName {
  return aggregateNames.some((known) => known === name)
}

/** PostgreSQL's result types of `sum`: sums of integers are wider than their column. */
const sums: ReadonlyMap<string, string> = new Map([
  ['smallint', 'bigint'],
  ['integer', 'bigint'],
  ['bigint', 'numeric'],
  ['numeric', 'numeric'],
  ['real', 'real'],
  ['double precision', 'double precision'],
  ['interval', 'interval'],
  ['money', 'money']
])

const averages: ReadonlyMap<string, string> = new Map([
  ['smallint', 'numeric'],
  ['integer', 'numeric'],
  ['bigint', 'numeric'],
  ['numeric', 'numeric'],
  ['real', 'double precision'],
  ['double precision', 'double precision'],
  ['interval', 'interval']
])

/** Types with `min` and `max` in every supported version of PostgreSQL, besides enums and arrays. */
const ranked =
  /^(?:smallint|integer|bigint|numeric|real|double precision|money|text|citext|character varying|character|date|interval|inet|time(?:stamp)? with(?:out)? time zone)$/

/** The type of the function's result; undefined if it does not accept columns of this type. */
export function resultType (name: AggregateName, { type, labels }: Pick<Column, 'type' | 'labels'>): string | undefined {
  switch (name) {
    case 'count':
      return 'bigint'
    case 'sum':
      return sums.get(type)
    case 'avg':
      return averages.get(type)
    default:
      return ranked.test(type) || labels !== undefined || (kindOf(type) === 'array' && isOrdered(itemType(type))) ? type : undefined
  }
}

/** The accepted columns, for messages. */
export function describeArgument (name: AggregateName): string {
  return name === 'sum' || name === 'avg' ? 'numbers or intervals' : 'numbers, strings, dates, times, enums or arrays'
}
