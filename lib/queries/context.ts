/** The context of compiled queries, and look-ups of the tables and columns that they name. */
import { type Catalogue, type Column, isTenantComputed, type Table } from '../database/catalogue.js'
import type { TemplateContext } from '../expressions/template.js'
import type { Reference } from '../expressions/types.js'
import { nearest } from '../schema/faults.js'
import type { Functions } from '../schema/function.js'
import type { TableOperation } from '../schema/query.js'
import { tenantTypeFault } from './tenant-types.js'

/** Columns by table, and fields by collection, that no response of the route shows: the route writes them from secrets. */
export interface Withheld {
  readonly columns: ReadonlyMap<string, ReadonlySet<string>>
  readonly fields: ReadonlyMap<string, ReadonlySet<string>>
}

/** A document's settings for Firestore. */
export interface FirestoreRules {
  /** Document queries without an explicit store use it. */
  readonly isDefault: boolean
  /** Collections of the platform; tenants cannot write them. */
  readonly sharedCollections: ReadonlySet<string>
}

/** The compilation context of a query, in addition to the context of templates. */
export interface QueryContext extends TemplateContext {
  readonly catalogue: Catalogue
  readonly pagination: { readonly defaultLimit: number, readonly maxLimit: number, readonly defaultOffset: number }
  /** A list accepts `limit` and `offset` from the query string. Default: only the configured ones. */
  readonly callerPages?: boolean
  /** The route, such as `GET /articles`, whose list can have cursor pages. Undefined if the route has several queries. */
  readonly listRoute?: string
  /** The excluded fields of the route; the query adds its own. */
  readonly excludeFields: readonly string[]
  /** The route's soft delete. */
  readonly softDelete?: { readonly enabled: boolean, readonly allowHardDelete?: boolean } | undefined
  /** Tables without `tenant_id` that a tenant's own document may read. */
  readonly sharedTables: ReadonlySet<string>
  /** The columns and fields that the route writes from secrets. Default: none. */
  readonly withheld?: Withheld
  /** Deleting a row also deletes its files. Default: false. */
  readonly deletesFiles?: boolean
  /** The SQL functions that the document may call. Default: none. */
  readonly functions?: Functions | undefined
  /** The route is a `GET`, which must not write. Default: false. */
  readonly reads?: boolean
  /** null if Firestore is not configured. Default: not checked. */
  readonly firestore?: FirestoreRules | null | undefined
  /** The owner of the document that contains the query. */
  readonly origin: 'platform' | 'tenant'
}

/** Finds a table by its name; undefined after a fault if the operation cannot use it. */
export function findTable (name: string, pointer: string, context: QueryContext, operation: TableOperation): Table | undefined {
  const { catalogue, faults } = context
  const table = catalogue.tables.get(name)
  if (table === undefined) {
    faults.add(pointer, `there is no table "${name}" in the schema "${catalogue.schema}"`, nearest(name, visibleTables(context)))
    return undefined
  }
  if (!isVisible(table, context)) {
    faults.add(
      pointer,
      `the table "${name}" has no tenant_id column: a tenant's route can use it only if the platform lists it in \`tenancy.sharedTables\``
    )
    return undefined
  }
  // An insert writes only to the table itself.
  if (table.tenantChildren !== undefined && operation !== 'insert') {
    const children = table.tenantChildren.map((child) => `"${child}"`).join(', ')
    faults.add(
      pointer,
      `a query on "${name}" reaches the rows of every tenant in ${children}, which inherits from it: use ${
        table.tenantChildren.length === 1 ? children : 'one of them'
      }, or give "${name}" a tenant_id column`
    )
    return undefined
  }
  const typeFault = operation === 'select' || operation === 'delete' ? tenantTypeFault(table) : writeTypeFault(table, catalogue)
  if (typeFault !== undefined) {
    faults.add(pointer, typeFault)
    return undefined
  }
  if (operation === 'select') return table
  if (table.view) faults.add(pointer, `"${name}" is a view: it can only be read`)
  else if (operation !== 'delete' && isTenantComputed(table)) faults.add(pointer, tenantComputed(name))
  else if (context.origin === 'tenant' && !table.tenantScoped) {
    faults.add(pointer, `the table "${name}" is shared by all tenants: a tenant's route can only read it`)
  } else return table
  return undefined
}

/** As `tenantTypeFault`, for a table with new rows: they refer only to rows of their tenant, which the other table must keep apart too. */
export function writeTypeFault (table: Table, { tables }: Catalogue): string | undefined {
  const own = tenantTypeFault(table)
  if (own !== undefined) return own
  for (const { referencedTable } of table.foreignKeys) {
    const referenced = tables.get(referencedTable)
    const fault = referenced === undefined ? undefined : tenantTypeFault(referenced)
    if (fault !== undefined) return `"${table.name}" refers to "${referencedTable}": ${fault}`
  }
  return undefined
}

export function tenantComputed (table: string): string {
  return `the database computes "tenant_id" of "${table}", so its rows can only be read and deleted: make it an ordinary column`
}

/** Whether a route of this origin may access the table. */
function isVisible (table: Table, { origin, sharedTables }: QueryContext): boolean {
  return origin === 'platform' || table.tenantScoped || sharedTables.has(table.name)
}

function visibleTables (context: QueryContext): string[] {
  return [...context.catalogue.tables.values()].filter((table) => isVisible(table, context)).map((table) => table.name)
}

/** Finds a column by its name; undefined after a fault. */
export function findColumn (table: Table, name: string, pointer: string, { faults }: QueryContext): Column | undefined {
  const column = table.columns.get(name)
  if (column === undefined) {
    const remedy = name.includes('.') ? ': filters and orders of embedded rows are in `embeds`' : ''
    faults.add(pointer, `the table "${table.name}" has no column "${name}"${remedy}`, nearest(name, table.columns.keys()))
  }
  return column
}

/** Removes duplicate references, keeping the order of their first use. */
export function uniqueReferences (references: readonly Reference[]): Reference[] {
  const known = new Map<string, Reference>()
  for (const reference of references) {
    const key = JSON.stringify([reference.source, ...reference.path])
    if (!known.has(key)) known.set(key, reference)
  }
  return [...known.values()]
}
