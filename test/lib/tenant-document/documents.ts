/** Documents of tenants, and the server's routes and tables that they are checked against. */
import { checkConfig, ConfigError, formatFault } from '../../../lib/configuration/index.js'
import { wantedTables, withDeclared } from '../../../lib/database/declared-tables.js'
import { TenantryError } from '../../../lib/errors.js'
import { type CheckedTenantDocument, checkTenantDocument, type TenantDocumentContext } from '../../../lib/tenant-document/index.js'

const config = checkConfig({
  routes: [],
  tables: {
    notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text' } } },
    countries: { columns: { id: { type: 'text', primaryKey: true } } },
    ledgers: { columns: { id: { type: 'text', primaryKey: true } } }
  },
  tenancy: { sharedTables: ['countries'], env: ['REGION', 'UNSET'] }
}, { env: {} })

export const context: TenantDocumentContext = {
  env: { REGION: 'eu', JWT_SECRET: 'what no tenant may read' },
  tenancy: config.tenancy,
  pagination: config.pagination,
  catalogue: withDeclared({ schema: 'public', tables: new Map() }, wantedTables(config.tables)),
  taken: [
    { method: 'GET', path: '/items/:id' },
    { method: 'GET', path: '/assets/*' },
    { method: 'GET', path: '/years/:year(\\d+)' },
    { method: 'POST', path: '/Orders' }
  ]
}

/** A valid route with an effect. */
export const route = { path: '/notes', method: 'get', queries: [{ table: 'notes', operation: 'select' }] }

export function check (document: unknown): Promise<CheckedTenantDocument> {
  return checkTenantDocument(document, context)
}

/** The faults of a document, one per line; empty if it is valid. */
export async function faultsOf (document: unknown): Promise<string[]> {
  try {
    await check(document)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.map(formatFault)
  }
}

/** The pointers of routes that use a path of the server. */
export async function conflictsOf (...routes: unknown[]): Promise<string[]> {
  try {
    await check({ routes })
    return []
  } catch (error) {
    if (!(error instanceof TenantryError) || error.statusCode !== 409 || !Array.isArray(error.extras.details)) throw error
    return error.extras.details.map(({ path }: { path: string }) => path)
  }
}
