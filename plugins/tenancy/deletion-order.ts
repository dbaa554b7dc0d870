/** The order in which the rows of tables can be deleted, by their foreign keys. */
import type { ForeignKey, Table } from '../../lib/database/catalogue.js'

export interface Referrer extends ForeignKey {
  readonly table: Table
}

/** Tables that refer to each other in a circle, or a single table. `circular`: whether there is a circle, also of one table. */
interface TableGroup {
  readonly tables: readonly Table[]
  readonly circular: boolean
}

/** The foreign keys that lead to each table. */
export function referrersOf (tables: readonly Table[]): ReadonlyMap<string, readonly Referrer[]> {
  const referrers = new Map<string, Referrer[]>(tables.map(({ name }) => [name, []]))
  for (const table of tables) {
    for (const key of table.foreignKeys) referrers.get(key.referencedTable)?.push({ ...key, table })
  }
  return referrers
}

/**
 * The tables in groups; no table refers to one of an earlier group. The groups are the strongly connected components of the graph of
 * references, by Tarjan's algorithm (1972). A group comes after all groups that its edges reach: here, the tables that refer to it.
 */
export function deletionOrder (tables: readonly Table[], referrers: ReadonlyMap<string, readonly Referrer[]>): TableGroup[] {
  const groups: TableGroup[] = []
  const visits = new Map<Table, { order: number, lowest: number }>()
  const open: Table[] = []

  function visit (table: Table): { order: number, lowest: number } {
    const own = { order: visits.size, lowest: visits.size }
    visits.set(table, own)
    const place = open.push(table) - 1
    for (const { table: referrer } of referrers.get(table.name) ?? []) {
      const seen = visits.get(referrer)
      if (seen === undefined) own.lowest = Math.min(own.lowest, visit(referrer).lowest)
      else if (open.includes(referrer)) own.lowest = Math.min(own.lowest, seen.order)
    }
    if (own.lowest === own.order) {
      const members = open.splice(place)
      groups.push({
        tables: members,
        circular: members.length > 1 || table.foreignKeys.some(({ referencedTable }) => referencedTable === table.name)
      })
    }
    return own
  }

  for (const table of tables) if (!visits.has(table)) visit(table)
  return groups
}
