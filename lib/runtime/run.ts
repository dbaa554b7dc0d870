/** Runs a compiled route's queries and calls and makes the response body. */
import type { CompiledRoute } from '../compiler/route.js'
import type { BoundQuery, Scope } from '../expressions/types.js'
import type { Engine, Session } from '../database/engine.js'
import type { DocumentSession, DocumentStore } from '../firestore/types.js'
import type { CacheStore } from '../cache/store.js'
import { isFailure } from '../errors.js'
import { stringifyJson } from '../json/stringify.js'
import { type RouteResult, runQueries, bodyOf, type Stores } from './queries.js'
import { runIntegrations, type Caller } from './integrations.js'
import { tenantOrNone, tenantOrPlatform } from '../identity/tenant-ref.js'

export interface Databases {
  readonly engine: Engine
  /** null if Firestore is not configured. */
  readonly firestore: DocumentStore | null
}

/**
 * Runs the route for one request. Invalidates the cache once the writes have committed, before it resolves or rejects. See `run`
 * for the body.
 */
export async function runRoute (
  route: CompiledRoute,
  databases: Databases,
  cache: CacheStore | null,
  scope: Scope,
  caller: Caller
): Promise<string> {
  if (cache === null || route.writes.length === 0) return run(route, databases, scope, caller, nothingWritten)
  const written = () => cache.invalidate(tenantOrPlatform(scope.tenant), route.writes)
  try {
    return await run(route, databases, scope, caller, written)
  } catch (error) {
    // The connection was lost, but the database may have committed.
    if (isFailure(error, 'databaseUnavailable')) await written()
    throw error
  }
}

const nothingWritten = (): void => {}

/**
 * Runs the route and returns its body as JSON text. If JavaScript does not need the rows, PostgreSQL builds this text. Throws
 * errors of the error catalogue. A response that is too large rolls its writes back, unless calls to other services follow: their
 * size is not known before the commit.
 */
async function run (
  route: CompiledRoute,
  { engine, firestore }: Databases,
  scope: Scope,
  caller: Caller,
  written: () => void | Promise<void>
): Promise<string> {
  if (route.firestore === 'writes' && firestore !== null) return runOnFirestore(route, { engine, firestore }, scope, caller, written)
  const { once, guard, form = null } = caller
  const options = { tenant: tenantOrNone(scope.tenant), isolation: guard?.isolation, isWanted: caller.isWanted }
  const copies = route.copies?.response ?? null
  // The size of the copied request values is known before the first query.
  if (copies !== null) copies(scope, 0)
  const calls = route.integrations.length > 0
  const writes = (copies !== null || once !== undefined || form !== null) && route.queries.some((query) => query.write)
  if ((writes || form !== null) && !calls) {
    const body = await engine.transaction(options, async (session) => {
      const stores = storesOf(session, firestore)
      if (guard !== undefined) await guard.check(stores)
      await form?.complete(session)
      const result = await runQueries(route, scope, stores)
      const body = bodyOf(route, result, scope)
      reportCreated(result, caller)
      if (once !== undefined) await once.answered(session, body)
      return body
    })
    once?.kept()
    form?.keep()
    await written()
    return body
  }
  const result = route.transaction || guard !== undefined || form !== null || (once !== undefined && writes)
    ? await engine.transaction(options, async (session) => {
      const stores = storesOf(session, firestore)
      if (guard !== undefined) await guard.check(stores)
      await form?.complete(session)
      const result = await runQueries(route, scope, stores)
      if (once !== undefined && writes) await once.written(session)
      return result
    })
    : await runQueries(route, scope, { sql: (bound) => engine.text(bound.statement, bound.values, options), documents: firestore })
  // The written rows name the files, even if a later call fails.
  if (writes) form?.keep()
  await written()
  const last = calls ? await runIntegrations(route, scope, caller) : null
  const shown = calls && route.queries.length === 0 ? { text: stringifyJson(last?.result ?? null), form: 'value' as const } : result
  const body = bodyOf(route, shown, scope, last)
  reportCreated(result, caller)
  return body
}

/**
 * As `run`, for a route that writes to Firestore. Several queries, or a precondition, run in one Firestore transaction. Its SQL
 * queries only read. The files become readable before that transaction, and the idempotency key stores its response after it.
 */
async function runOnFirestore (
  route: CompiledRoute,
  { engine, firestore }: Databases & { readonly firestore: DocumentStore },
  scope: Scope,
  caller: Caller,
  written: () => void | Promise<void>
): Promise<string> {
  const { once, guard, form = null } = caller
  const options = { tenant: tenantOrNone(scope.tenant), isWanted: caller.isWanted }
  const sql = (bound: BoundQuery) => engine.text(bound.statement, bound.values, options)
  route.copies?.response?.(scope, 0)
  if (form !== null) await engine.transaction(options, form.complete)
  const result = route.queries.length > 1 || guard !== undefined
    ? await firestore.transaction(async (documents) => {
      const stores = { sql, documents }
      if (guard !== undefined) await guard.check(stores)
      return runQueries(route, scope, stores)
    })
    : await runQueries(route, scope, { sql, documents: firestore })
  form?.keep()
  await written()
  const last = route.integrations.length > 0 ? await runIntegrations(route, scope, caller) : null
  const body = bodyOf(route, result, scope, last)
  reportCreated(result, caller)
  if (once !== undefined) {
    await engine.transaction(options, (session) => once.answered(session, body))
    once.kept()
  }
  return body
}

function storesOf (session: Session, documents: DocumentSession | null): Stores {
  return { sql: (bound) => session.text(bound.statement, bound.values), documents }
}

function reportCreated ({ text, form }: RouteResult, { created }: Caller): void {
  if (created !== undefined && form === 'record') created(text)
}
