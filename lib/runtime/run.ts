/** Runs the statements and the calls of a compiled route and makes its body. */
import type { CompiledRoute } from '../compiler/route.js'
import type { BoundQuery, Scope } from '../expressions/types.js'
import type { Engine, Session } from '../database/engine.js'
import type { DocumentSession, DocumentStore } from '../firestore/types.js'
import type { CacheStore } from '../cache/store.js'
import { isFailure } from '../errors.js'
import { stringifyJson } from '../json/stringify.js'
import { type Answered, answerOf, bodyOf, type Stores } from './answer.js'
import { runIntegrations, type Caller } from './integrations.js'
import { tenantOrNone, tenantOrPlatform } from '../identity/tenant-ref.js'

/** The databases of an app. */
export interface Databases {
  readonly engine: Engine
  /** null where there is no Firestore. */
  readonly firestore: DocumentStore | null
}

/**
 * Runs the route for one request; its writes are announced to the cache once they are committed and before this resolves or
 * rejects. See `run` for the body.
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
    // The connection was lost: the database may have committed all the same.
    if (isFailure(error, 'databaseUnavailable')) await written()
    throw error
  }
}

const nothingWritten = (): void => {}

/**
 * Runs the route and returns its body as JSON text. Where nothing needs the rows in JavaScript, the
 * text is the one that PostgreSQL built. Throws the errors of the catalogue; what would be too large is not written, but where
 * calls to other services follow, which are unknown before.
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
  const options = { tenant: tenantOrNone(scope.tenant), isolation: guard?.isolation }
  const copies = route.copies?.response ?? null
  // What it copies of the request is known before anything is asked of the database.
  if (copies !== null) copies(scope, 0)
  const calls = route.integrations.length > 0
  const writes = (copies !== null || once !== undefined || form !== null) && route.queries.some((query) => query.write)
  if ((writes || form !== null) && !calls) {
    const body = await engine.transaction(options, async (session) => {
      const stores = storesOf(session, firestore)
      if (guard !== undefined) await guard.check(stores)
      await form?.complete(session)
      const answer = await answerOf(route, scope, stores)
      const body = bodyOf(route, answer, scope)
      reportCreated(answer, caller)
      if (once !== undefined) await once.answered(session, body)
      return body
    })
    once?.kept()
    form?.keep()
    await written()
    return body
  }
  const answer = route.transaction || guard !== undefined || form !== null || (once !== undefined && writes)
    ? await engine.transaction(options, async (session) => {
      const stores = storesOf(session, firestore)
      if (guard !== undefined) await guard.check(stores)
      await form?.complete(session)
      const answer = await answerOf(route, scope, stores)
      if (once !== undefined && writes) await once.written(session)
      return answer
    })
    : await answerOf(route, scope, { sql: (bound) => engine.text(bound.statement, bound.values, options), documents: firestore })
  // Rows that are written name the files, whatever the calls do.
  if (writes) form?.keep()
  await written()
  const last = calls ? await runIntegrations(route, scope, caller) : null
  const answered = calls && route.queries.length === 0 ? { text: stringifyJson(last?.result ?? null), form: 'value' as const } : answer
  const body = bodyOf(route, answered, scope, last)
  reportCreated(answer, caller)
  return body
}

/**
 * The same for a route that writes to Firestore, in one transaction where it has several queries or a precondition. Its
 * queries on the SQL database only read. Files become readable before, and an idempotency key keeps its answer after.
 */
async function runOnFirestore (
  route: CompiledRoute,
  { engine, firestore }: Databases & { readonly firestore: DocumentStore },
  scope: Scope,
  caller: Caller,
  written: () => void | Promise<void>
): Promise<string> {
  const { once, guard, form = null } = caller
  const options = { tenant: tenantOrNone(scope.tenant) }
  const sql = (bound: BoundQuery) => engine.text(bound.statement, bound.values, options)
  route.copies?.response?.(scope, 0)
  if (form !== null) await engine.transaction(options, form.complete)
  const answer = route.queries.length > 1 || guard !== undefined
    ? await firestore.transaction(async (documents) => {
      const stores = { sql, documents }
      if (guard !== undefined) await guard.check(stores)
      return answerOf(route, scope, stores)
    })
    : await answerOf(route, scope, { sql, documents: firestore })
  form?.keep()
  await written()
  const last = route.integrations.length > 0 ? await runIntegrations(route, scope, caller) : null
  const body = bodyOf(route, answer, scope, last)
  reportCreated(answer, caller)
  if (once !== undefined) {
    await engine.transaction(options, (session) => once.answered(session, body))
    once.kept()
  }
  return body
}

function storesOf (session: Session, documents: DocumentSession | null): Stores {
  return { sql: (bound) => session.text(bound.statement, bound.values), documents }
}

function reportCreated ({ text, form }: Answered, { created }: Caller): void {
  if (created !== undefined && form === 'record') created(text)
}
