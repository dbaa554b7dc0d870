/** Tables without tenants whose rows seem to belong to tenants: a column of another name does not separate them. */
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { Catalogue, Table } from '../../lib/database/catalogue.js'

/** A warning for each such table that a query of a route names. */
export function exposedTables (routes: readonly CompiledRoute[], catalogue: Catalogue): string[] {
  // Embedded rows are those of their record.
  const names = new Set(routes.flatMap(({ queries }) => queries.flatMap((query) => query.store === 'sql' ? [query.table] : [])))
  return [...names].sort().flatMap((name) => {
    const table = catalogue.tables.get(name)
    if (table === undefined || table.tenantScoped) return []
    const owner = ownerOf(table, catalogue)
    if (owner === undefined) return []
    const verb = table.view ? 'reads' : 'refers to'
    return [`"${name}" has no tenant_id, but ${verb} rows of tenants in "${owner}": its routes show all of its rows to every tenant`]
  })
}

/** A table of tenants that the view reads, or that the rows of the table refer to. Policies apply to the rows of a view. */
function ownerOf ({ foreignKeys, readsFrom = [], view }: Table, { tables, rowLevelSecurity }: Catalogue): string | undefined {
  if (view && rowLevelSecurity === true) return undefined
  const related = view ? readsFrom : foreignKeys.map(({ referencedTable }) => referencedTable)
  return related.find((name) => tables.get(name)?.tenantScoped === true)
}
