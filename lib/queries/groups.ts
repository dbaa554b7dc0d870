/** The SQL of records that stand for groups of rows. */
import { nearest, pointerTo } from '../schema/faults.js'
import type { Order, Query } from '../schema/query.js'
import type { QueryContext } from './context.js'
import { isGroupKey, type Selection } from './field.js'
import { direction } from './order.js'
import { columnOf } from './sql.js'

/** ` group by 1, 2`: positions in the select list. Without group keys all rows form one group, even if there are none. */
export function groupBy (selection: Selection): string {
  const places = selection.fields.flatMap((field, index) => isGroupKey(field) ? [index + 1] : [])
  if (places.length > 0) return ` group by ${places.join(', ')}`
  return selection.fields.length === 0 ? ' group by ()' : ''
}

/** The order of groups under an alias; keys outside the selection are omitted. */
export type GroupOrder = (selection: Selection, alias: string) => string

/** An order by members of the groups. The group keys come last, so that pages never overlap. */
export function compileGroupOrder (order: Query['order'], selection: Selection, pointer: string, { faults }: QueryContext): GroupOrder {
  const names = selection.fields.map(({ name }) => name)
  const keys = (order === undefined ? [] : [order].flat()).flatMap((key, index): Order[] => {
    const name = nameIn(selection, key.column)
    if (name !== undefined) return [{ ...key, column: name }]
    const at = Array.isArray(order) ? pointerTo(pointer, index, 'column') : pointerTo(pointer, 'column')
    faults.add(
      at,
      `groups have no member "${key.column}": expected one of ${names.map((each) => `"${each}"`).join(', ')}`,
      nearest(key.column, names)
    )
    return []
  })
  return (shown, alias) => groupOrder(shown, alias, keys)
}

/** Finds a member by its name in the response, or by its column's name. */
function nameIn ({ fields }: Selection, column: string): string | undefined {
  const field = fields.find(({ name }) => name === column) ?? fields.find((each) => each.kind === 'column' && each.column.name === column)
  return field?.name
}

/** Default: by the group keys. `keys` name members. */
export function groupOrder ({ fields }: Selection, alias: string, keys: readonly Order[] = []): string {
  const ascending = keys.at(-1)?.ascending ?? true
  const rest = fields.filter((field) => isGroupKey(field) && !keys.some(({ column }) => column === field.name))
  const shown = keys.filter(({ column }) => fields.some(({ name }) => name === column))
  const texts = [
    ...shown.map((key) => `${columnOf(alias, key.column)}${direction(key)}`),
    ...rest.map(({ name }) => `${columnOf(alias, name)}${ascending ? '' : ' desc'}`)
  ]
  return texts.length === 0 ? '' : ` order by ${texts.join(', ')}`
}
