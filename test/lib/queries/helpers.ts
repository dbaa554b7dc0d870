/** Compiles queries against the hand-written library schema, and creates scopes to bind them to. */
import type { Catalogue } from '../../../lib/database/catalogue.js'
import type { Scope, TemplateSource } from '../../../lib/expressions/types.js'
import type { CompiledQuery, RouteQuery } from '../../../lib/queries/compiled-query.js'
import { compileDocumentQuery, compileQuery, type QueryContext } from '../../../lib/queries/index.js'
import { FaultList, formatFault } from '../../../lib/schema/faults.js'
import type { DocumentQuery, Query } from '../../../lib/schema/query.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { library } from './tables.js'

const sources: TemplateSource[] = ['body', 'params', 'query', 'headers', 'auth', 'tenant', 'results', 'now', 'uuid']

export function contextOf (faults: FaultList, changes: Partial<QueryContext> = {}): QueryContext {
  return {
    faults,
    sources: new Set(sources),
    env: {},
    catalogue: library(),
    pagination: { defaultLimit: 20, maxLimit: 100, defaultOffset: 0 },
    callerPages: true,
    excludeFields: [],
    sharedTables: new Set(),
    origin: 'platform',
    ...changes
  }
}

/** The compiled query. Throws if it has faults. */
export function compile (query: Query, changes?: Partial<QueryContext>): CompiledQuery {
  const faults = new FaultList()
  const compiled = compileQuery(query, '/queries/0', contextOf(faults, changes))
  if (compiled === null || faults.faults.length > 0) throw new Error(faults.faults.map(formatFault).join('\n'))
  return compiled
}

/** The faults of a query, as lines. */
export function faultsOf (query: Query, changes?: Partial<QueryContext>): string[] {
  const faults = new FaultList()
  const compiled = compileQuery(query, '/q', contextOf(faults, changes))
  if ((compiled === null) !== (faults.faults.length > 0)) throw new Error('a query is null exactly if it has faults')
  return faults.faults.map(formatFault)
}

export function compileDocument (query: DocumentQuery, changes?: Partial<QueryContext>): CompiledQuery {
  const faults = new FaultList()
  const compiled = compileDocumentQuery(query, '/firebaseQueries/0', contextOf(faults, changes))
  if (compiled === null || faults.faults.length > 0) throw new Error(faults.faults.map(formatFault).join('\n'))
  return onSql(compiled)
}

/** The query, which must be one of the SQL database. */
export function onSql (query: RouteQuery): CompiledQuery {
  if (query.store !== 'sql') throw new Error('a Firestore query')
  return query
}

export function documentFaultsOf (query: DocumentQuery, changes?: Partial<QueryContext>): string[] {
  const faults = new FaultList()
  const compiled = compileDocumentQuery(query, '/q', contextOf(faults, changes))
  if ((compiled === null) !== (faults.faults.length > 0)) throw new Error('a query is null exactly if it has faults')
  return faults.faults.map(formatFault)
}

/** A request of tenant `a`. */
export function scopeOf (changes: Partial<Scope> = {}): Scope {
  return {
    body: undefined,
    params: {},
    query: {},
    headers: {},
    auth: null,
    tenant: scopeTenant('a'),
    secrets: new Map(),
    results: {},
    fullAccess: false,
    ...changes
  }
}

/** The text and values of a query for a request. */
export function sqlOf (
  query: Query,
  scope: Partial<Scope> = {},
  changes?: Partial<QueryContext>
): { sql: string, values: unknown[], resultKind: string } {
  const compiled = compile(query, changes)
  const { statement, values, resultKind = compiled.resultKind } = compiled.bind(scopeOf(scope))
  return { sql: statement.text, values: [...values], resultKind }
}

/** A small catalogue instead of the library schema. */
export function using (catalogue: Catalogue): Partial<QueryContext> {
  return { catalogue }
}
