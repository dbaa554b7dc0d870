/** The tables that a query reads and writes. A write to a table makes the cached responses stale that read it. */
import type { TableUse } from '../cache/store.js'
import { oncePerObject } from '../cache/weak-memo.js'
import type { Catalogue, Table } from '../database/catalogue.js'
import { type Selection, tablesOf } from './field.js'

/** The tables of the records, and the tables behind views. */
export function readsOf (selection: Selection, catalogue: Catalogue): readonly TableUse[] {
  const { tables } = catalogue
  return unique(
    tablesOf(selection).flatMap((table) => {
      if (table.readsFrom === undefined) {
        return table.tenantScoped && followersIn(catalogue).has(table)
          ? [useOf(table), ofAll(table)]
          : [useOf(table)]
      }
      // A view without tenants may show rows of all tenants.
      return table.readsFrom.map((name) => ({ table: name, scoped: table.tenantScoped && tables.get(name)?.tenantScoped === true }))
    })
  )
}

/**
 * The table, its family, and the tables with rows that the database deletes or changes in consequence. The effects of triggers
 * are unknown. `update` stands for every write that removes no row. A table without tenants may affect rows of all tenants.
 */
export function writesOf (table: Table, operation: 'update' | 'delete', catalogue: Catalogue): readonly TableUse[] {
  const views = [...catalogue.tables.values()].filter(({ tenantScoped, readsFrom }) => !tenantScoped && readsFrom !== undefined)
  return unique([...writtenWith([table], operation, catalogue)].flatMap((each) => {
    const isSeen = !table.tenantScoped || views.some(({ readsFrom }) => readsFrom?.includes(each.name))
    return each.tenantScoped && isSeen ? [useOf(each), ofAll(each)] : [useOf(each)]
  }))
}

function writtenWith (begin: Iterable<Table>, operation: 'update' | 'delete', { tables }: Catalogue): ReadonlySet<Table> {
  const written = new Set(begin)
  for (const each of written) {
    for (const name of each.family ?? []) {
      const related = tables.get(name)
      if (related !== undefined) written.add(related)
    }
    for (const referrer of tables.values()) {
      const follows = referrer.foreignKeys.some((key) =>
        key.referencedTable === each.name && (key.followsUpdate === true || (operation === 'delete' && key.followsDelete === true))
      )
      if (follows) written.add(referrer)
    }
  }
  return written
}

/** The tables whose rows may change with a write to a table without tenants. */
const followersIn = oncePerObject((catalogue: Catalogue) =>
  writtenWith([...catalogue.tables.values()].filter(({ tenantScoped, view }) => !tenantScoped && !view), 'delete', catalogue)
)

/** The rows of all tenants. */
function ofAll ({ name }: Table): TableUse {
  return { table: name, scoped: false }
}

function useOf ({ name, tenantScoped }: Table): TableUse {
  return { table: name, scoped: tenantScoped }
}

/** Without duplicates, in the order of their first use; frozen. */
export function unique (uses: readonly TableUse[]): readonly TableUse[] {
  const known = new Map(uses.map((use) => [`${use.scoped} ${use.table}`, use]))
  return Object.freeze([...known.values()].map((use) => Object.freeze(use)))
}
