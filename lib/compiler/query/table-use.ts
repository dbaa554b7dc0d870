/** Which tables a query reads and writes: an answer that is kept is old as soon as one of those that it was read from is written to. */
import type { Catalogue, Table } from '../../database/catalogue.js'
import type { TableUse } from '../types.js'
import { tablesOf, type Selection } from './selection.js'

/** The tables of the records, and those behind views. */
export function readsOf (selection: Selection, { tables }: Catalogue): readonly TableUse[] {
  return unique(tablesOf(selection).flatMap((table) => {
    if (table.readsFrom === undefined) return [useOf(table)]
    // What a view without tenants shows may be rows of all of them.
    return table.readsFrom.map((name) => ({ table: name, scoped: table.tenantScoped && tables.get(name)?.tenantScoped === true }))
  }))
}

/**
 * The table, those of its family, and those whose rows the database deletes or changes after it. What triggers do is not known. An `update`
 * is every write that removes no row.
 */
export function writesOf (table: Table, operation: 'update' | 'delete', { tables }: Catalogue): readonly TableUse[] {
  const written = new Set([table])
  for (const each of written) {
    for (const name of each.family ?? []) {
      const kin = tables.get(name)
      if (kin !== undefined) written.add(kin)
    }
    for (const referrer of tables.values()) {
      const follows = referrer.foreignKeys.some((key) => key.referencedTable === each.name && (key.followsUpdate === true || (operation === 'delete' && key.followsDelete === true)))
      if (follows) written.add(referrer)
    }
  }
  const views = [...tables.values()].filter(({ tenantScoped, readsFrom }) => !tenantScoped && readsFrom !== undefined)
  return unique([...written].flatMap((each) => {
    const isSeen = each.tenantScoped && views.some(({ readsFrom }) => readsFrom?.includes(each.name))
    return isSeen ? [useOf(each), { table: each.name, scoped: false }] : [useOf(each)]
  }))
}

function useOf ({ name, tenantScoped }: Table): TableUse {
  return { table: name, scoped: tenantScoped }
}

/** Each once, in the order of their first use; frozen. */
export function unique (uses: readonly TableUse[]): readonly TableUse[] {
  const known = new Map(uses.map((use) => [`${use.scoped} ${use.table}`, use]))
  return Object.freeze([...known.values()].map((use) => Object.freeze(use)))
}
