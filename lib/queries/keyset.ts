/**
 * Finds the rows after a position in an order by an index. Consecutive parts each have conditions for one range of the order. An
 * order with one direction and without nulls needs one part.
 */
import type { Scope } from '../expressions/types.js'
import type { OrderKey, RowOrder } from './order.js'
import type { Binder, Placeholders } from './sql.js'

/** The nulls of the position, which determine the text of a statement. */
export function shapeOf (after: readonly (string | null)[]): string {
  return after.map((value) => value === null ? 'n' : 'v').join('')
}

/** Reads the value of one key. */
export type ValueOf = (index: number) => Binder

/** Returns a function with one binder per key, so that a statement has one placeholder for each. */
export function valueBinders (read: (scope: Scope) => readonly (string | null)[]): ValueOf {
  const binders: Binder[] = []
  return (index) => {
    binders[index] ??= (scope) => read(scope)[index]
    return binders[index]
  }
}

/** The conditions of each part for an alias, in the order of their rows; empty if no row can follow. */
export function partsAfter (
  { keys }: RowOrder,
  shape: string,
  valueOf: ValueOf
): ReadonlyArray<(alias: string, placeholders: Placeholders) => string[]> {
  return after(keys, 0, shape, valueOf)
}

type Part = (alias: string, placeholders: Placeholders) => string[]

function after (keys: readonly OrderKey[], index: number, shape: string, valueOf: ValueOf): Part[] {
  const key = keys[index]
  if (key === undefined) return []
  const { column: { type, notNull }, write: column } = key.operand
  if (shape[index] === 'n') {
    const same = after(keys, index + 1, shape, valueOf).map(
      (part): Part => (alias, placeholders) => [`${column(alias)} is null`, ...part(alias, placeholders)]
    )
    return key.nullsFirst ? [...same, (alias) => [`${column(alias)} is not null`]] : same
  }
  if (isRange(keys, index, shape)) return [(alias, placeholders) => [compareRest(keys, index, valueOf, alias, placeholders)]]
  const value = (placeholders: Placeholders): string => placeholders.add(valueOf(index), type)
  const same = after(keys, index + 1, shape, valueOf).map(
    (part): Part => (alias, placeholders) => [`${column(alias)} = ${value(placeholders)}`, ...part(alias, placeholders)]
  )
  const further: Part = (alias, placeholders) => [`${column(alias)} ${key.ascending ? '>' : '<'} ${value(placeholders)}`]
  const nulls: Part[] = notNull || key.nullsFirst ? [] : [(alias) => [`${column(alias)} is null`]]
  return [...same, further, ...nulls]
}

/** Whether one row comparison is enough: all keys have the same direction and a value, and no nulls follow. */
function isRange (keys: readonly OrderKey[], index: number, shape: string): boolean {
  const { ascending } = keys[index]!
  return keys.slice(index).every((key, place) =>
    key.ascending === ascending && shape[index + place] === 'v' && (key.operand.column.notNull || key.nullsFirst)
  )
}

function compareRest (keys: readonly OrderKey[], index: number, valueOf: ValueOf, alias: string, placeholders: Placeholders): string {
  const rest = keys.slice(index)
  const columns = rest.map(({ operand }) => operand.write(alias))
  const values = rest.map(({ operand }, place) => placeholders.add(valueOf(index + place), operand.column.type))
  const sign = rest[0]!.ascending ? '>' : '<'
  return rest.length === 1 ? `${columns[0]} ${sign} ${values[0]}` : `(${columns.join(', ')}) ${sign} (${values.join(', ')})`
}
