/** Functions over the rows of a group: `sum`, `avg`, `min`, `max` and `count`. */
import type { Column } from '../database/catalogue.js'
import { isOrdered } from './comparable.js'
import { itemType, kindOf } from './column-value.js'

export const aggregateNames = ['sum', 'avg', 'min', 'max', 'count'] as const
export type AggregateName = typeof aggregateNames[number]

export function isAggregate (name: string): name is AggregateName {
  return aggregateNames.some((known) => known === name)
}

/** The types of sums, as PostgreSQL has them: those of integers are wider than their column. */
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

/** Types of which every version of PostgreSQL that is served has a least and a greatest value; enums and arrays besides. */
const ranked =
  /^(?:smallint|integer|bigint|numeric|real|double precision|money|text|citext|character varying|character|date|interval|inet|time(?:stamp)? with(?:out)? time zone)$/

/** The type of the function's result; undefined where it takes no column of this type. */
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

/** What the function takes, for messages. */
export function describeArgument (name: AggregateName): string {
  return name === 'sum' || name === 'avg' ? 'numbers or intervals' : 'numbers, texts, dates, times, enums or arrays'
}
