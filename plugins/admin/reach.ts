/** The part of the catalogue that a caller may see. Queries are compiled against it and can name nothing else. */
import type { Catalogue, Table } from '../../lib/database/catalogue.js'

/**
 * The rows that a query reaches:
 * - `tenant`: those of the request's tenant, in tables with a tenant
 * - `platform`: those of the request's tenant in tables with a tenant, and all rows of other tables
 * - `every`: all rows of all tables and tenants
 */
export type Reach = 'tenant' | 'platform' | 'every'

const views = new WeakMap<Catalogue, Map<string, Catalogue>>()

/** The view of a catalogue, created once. With `includeDeleted` it includes rows that are marked as deleted. */
export function viewOf (catalogue: Catalogue, reach: Reach, includeDeleted: boolean): Catalogue {
  let known = views.get(catalogue)
  if (known === undefined) views.set(catalogue, known = new Map())
  const key = `${reach} ${includeDeleted}`
  let view = known.get(key)
  if (view === undefined) known.set(key, view = makeView(catalogue, reach, includeDeleted))
  return view
}

function makeView (catalogue: Catalogue, reach: Reach, includeDeleted: boolean): Catalogue {
  const seen = [...catalogue.tables.values()].filter((table) => isSeen(table, reach))
  return Object.freeze({
    ...catalogue,
    // Administrators of the platform may read the rows of every tenant.
    tables: new Map(seen.map(({ tenantChildren: _heirs, ...table }) => [
      table.name,
      Object.freeze({
        ...table,
        ...includeDeleted && { softDelete: false },
        ...reach === 'every' && { tenantScoped: false }
      })
    ]))
  })
}

/** Whether callers of this reach may see the table. */
export function isSeen ({ tenantScoped }: Table, reach: Reach): boolean {
  return reach !== 'tenant' || tenantScoped
}
