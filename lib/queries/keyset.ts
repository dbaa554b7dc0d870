/**
 * The rows after a position in an order, as PostgreSQL finds them by an index: parts that follow one another, each with
 * conditions that give one range of the order. A list without nulls whose columns all go one way has one part.
 */
import type { Scope } from '../expressions/types.js'
import type { OrderKey, RowOrder } from './order.js'
import type { Binder, Placeholders } from './sql.js'

/** What the text of a statement depends on: which values of the position are null. */
export function shapeOf (after: readonly (string | null)[]): string {
  return after.map((value) => value === null ? 'n' : 'v').join('')
}

/** Reads the value of one key. */
export type ValueOf = (index: number) => Binder

/** A function that gives one binder for each key, so that it has one placeholder in a statement. */
export function valueBinders (read: (scope: Scope) => readonly (string | null)[]): ValueOf {
  const binders: Binder[] = []
  return (index) => {
    binders[index] ??= (scope) => read(scope)[index]
    return binders[index]
  }
}

/** The conditions of each part, in the order of their rows, for an alias; empty where no row can follow. */
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

/** Whether one comparison of rows says it all: every key goes the same way, has a value, and no null follows one. */
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
