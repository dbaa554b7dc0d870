/** The context that queries are compiled in, and the tables that they may name. */
import type { Catalogue, Column, Table } from '../database/catalogue.js'
import type { Functions } from '../schema/function.js'
import type { TableOperation } from '../schema/query.js'
import type { TemplateContext } from '../expressions/template.js'
import { nearest } from '../schema/faults.js'

/** Names by table or collection that no answer of the route holds: it writes them from secrets. */
export interface Withheld {
  readonly columns: ReadonlyMap<string, ReadonlySet<string>>
  readonly fields: ReadonlyMap<string, ReadonlySet<string>>
}

/** What a document says of Firestore. */
export interface FirestoreRules {
  /** Queries of documents that name no store use it. */
  readonly isDefault: boolean
  /** Collections of the platform, which no tenant writes. */
  readonly sharedCollections: ReadonlySet<string>
}

/** What a query is compiled against, besides what templates are. */
export interface QueryContext extends TemplateContext {
  readonly catalogue: Catalogue
  readonly pagination: { readonly defaultLimit: number, readonly maxLimit: number, readonly defaultOffset: number }
  /** A list takes `limit` and `offset` of the query string. Default: it takes its own alone. */
  readonly callerPages?: boolean
  /**
   * The route, such as `GET /articles`: pages of its list can follow a cursor. Default: it is none, or no caller could say of
   * which list.
   */
  readonly listRoute?: string
  /** The route's excluded fields; the query's own are added to them. */
  readonly excludeFields: readonly string[]
  /** The route's soft delete. */
  readonly softDelete?: { readonly enabled: boolean, readonly allowHardDelete?: boolean } | undefined
  /** Tables without `tenant_id` that a tenant's own document may read. */
  readonly sharedTables: ReadonlySet<string>
  /** What the route writes from secrets. Default: nothing. */
  readonly withheld?: Withheld
  /** A row that is deleted takes its files with it. Default: false. */
  readonly deletesFiles?: boolean
  /** The SQL functions that the document may call. Default: none. */
  readonly functions?: Functions | undefined
  /** The route is a `get`, which writes nothing that a caller could not repeat. Default: false. */
  readonly reads?: boolean
  /** null where there is no Firestore. Default: it is not judged. */
  readonly firestore?: FirestoreRules | null | undefined
  /** Whose document the query stands in. */
  readonly origin: 'platform' | 'tenant'
}

/** The table of that name, or undefined after a fault was added: the operation cannot use the table. */
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
      `the table "${name}" has no tenant_id column: a tenant's route cannot use it unless the platform lists it in \`tenancy.sharedTables\``
    )
    return undefined
  }
  // An insert writes to the table alone.
  if (table.tenantHeirs !== undefined && operation !== 'insert') {
    const heirs = table.tenantHeirs.map((heir) => `"${heir}"`).join(', ')
    faults.add(
      pointer,
      `a query on "${name}" reaches the rows of every tenant in ${heirs}, which inherits from it: use ${
        table.tenantHeirs.length === 1 ? heirs : 'one of them'
      }, or give "${name}" a tenant_id column`
    )
    return undefined
  }
  if (operation === 'select') return table
  if (table.view) faults.add(pointer, `"${name}" is a view: it can only be read`)
  else if (context.origin === 'tenant' && !table.tenantScoped) {
    faults.add(pointer, `the table "${name}" is shared by all tenants: a tenant's route can only read it`)
  } else return table
  return undefined
}

/** Whether a route of this origin may know the table. */
export function isVisible (table: Table, { origin, sharedTables }: QueryContext): boolean {
  return origin === 'platform' || table.tenantScoped || sharedTables.has(table.name)
}

function visibleTables (context: QueryContext): string[] {
  return [...context.catalogue.tables.values()].filter((table) => isVisible(table, context)).map((table) => table.name)
}

/** The column of that name, or undefined after a fault was added. */
export function findColumn (table: Table, name: string, pointer: string, { faults }: QueryContext): Column | undefined {
  const column = table.columns.get(name)
  if (column === undefined) faults.add(pointer, `the table "${table.name}" has no column "${name}"`, nearest(name, table.columns.keys()))
  return column
}
