/** Runs a compiled route's queries and calls, and makes the response body from their results. */
import { isLongRequest } from '../compiler/request.js'
import type { CompiledRoute } from '../compiler/route.js'
import type { HeldResults } from '../concurrency/result-memory.js'
import type { Engine, Isolation } from '../database/engine.js'
import { failure, isFailure } from '../errors.js'
import { formOf, maxResultBytes, type ResultKind } from '../expressions/result.js'
import type { Scope } from '../expressions/types.js'
import { lateWrites } from '../firestore/failures.js'
import { repeatableIds } from '../firestore/repeatable-ids.js'
import type { DocumentSession, DocumentStore } from '../firestore/types.js'
import type { RouteReply } from '../http/route-reply.js'
import { noTenant, tenantOrPlatform } from '../identity/tenant-ref.js'
import { parseResult } from '../json/parse.js'
import { stringifyJson } from '../json/stringify.js'
import type { BoundQuery, CompiledQuery, FirestoreQuery, RouteQuery } from '../queries/compiled-query.js'
import { inTransaction, inTurn, longResult, type Turns, unrefused } from './computing.js'
import type { Once } from './idempotency.js'
import { atInputPointers } from './input-pointers.js'
import type { ReceivedForm, RouteCall } from './route-call.js'
import { type CallParts, type LastCall, runIntegrations } from './run-integrations.js'
import type { RouteServices } from './services.js'
import { statementsOf } from './statements.js'

type Databases = Pick<RouteServices<RouteCall, RouteReply>, 'engine' | 'firestore' | 'cache'>

/** Runs the route for one request. Once writes have committed, invalidates the cache before it settles. See `run` for the body. */
export function runRoute (route: CompiledRoute, databases: Databases, scope: Scope, caller: Caller): Promise<string> {
  const { cache, engine, firestore } = databases
  const { isWanted, held } = caller
  if (route.isRead && route.integrations.length === 0) {
    const options = { tenant: scope.tenant?.id ?? noTenant, isWanted }
    const sql = (bound: BoundQuery) => engine.text(bound.statement, bound.values, options)
    return readIn({ sql, documents: firestore, held, turns: { memory: engine.resultMemory, waits: true } }, route, scope)
  }
  if (cache === null || route.writes.length === 0) return run(route, databases, scope, caller)
  const written = () => cache.invalidate(tenantOrPlatform(scope.tenant), route.writes)
  return run(route, databases, scope, caller, written).catch(async (error: unknown) => {
    // The connection was lost, but the database may have committed. After other errors, Firestore may have: its client repeats a commit
    // whose response was lost, and the repetition may find no document, a conflict or another version.
    if (isFailure(error, 'databaseUnavailable') || route.firestore === 'writes') await written()
    lateWrites(error)?.then(written).catch((err: unknown) => {
      caller.log.warn({ err, tenant: scope.tenant?.id ?? null }, 'cached responses may be outdated after a late write to Firestore')
    })
    throw error
  })
}

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
  written?: () => void | Promise<void>
): Promise<string> {
  if (route.firestore === 'writes' && firestore !== null) return await runOnFirestore(route, engine, firestore, scope, caller, written)
  const { once, guard, form = null, held } = caller
  const { options, sql } = statementsOf(engine, {
    tenant: scope.tenant?.id ?? noTenant,
    isolation: guard?.isolation,
    isWanted: caller.isWanted,
    held
  })
  const guardResponse = route.expansionGuards?.response ?? null
  // The size of the copied request values is known before the first query.
  guardResponse?.(scope, 0)
  const calls = route.integrations.length > 0
  /** The response is made in the transaction of the writes. */
  const isWhole = !calls && (form !== null || (route.write && (guardResponse !== null || once !== undefined)))
  /** Set if `isWhole`. */
  let body: string | undefined
  const turns = calls || route.write ? unrefused : { memory: engine.resultMemory, waits: true }
  const turn = { worker: scope, length: 0, turns }
  // The work in the transaction does not wait.
  if (isWhole && route.transform !== null) await inTurn(turn, () => {})
  const result = isWhole || route.transaction || guard !== undefined || form !== null || (once !== undefined && route.write)
    ? await engine.transaction(options, async (session) => {
      const own = (bound: BoundQuery) => session.text(bound.statement, bound.values)
      const stores: Stores = { sql: own, documents: firestore, held, turns: inTransaction }
      if (guard !== undefined) await guard.check(stores)
      await form?.complete(session)
      const result = await runQueries(route, scope, stores)
      if (isWhole) {
        body = await bodyOf(route, result, scope, inTransaction)
        reportCreated(result, caller)
        await once?.answered(session, body)
      } else if (route.write) await once?.written(session)
      return result
    })
    : await runQueries(route, scope, { sql, documents: firestore, held, turns })
  if (isWhole) once?.kept()
  // The written rows name the files, even if a later call fails.
  if (isWhole || route.write) form?.keep()
  if (written !== undefined) await written()
  if (body !== undefined) return body
  const last = calls ? await runIntegrations(route, scope, caller) : null
  const shown = calls && route.queries.length === 0
    ? { text: await inTurn(turn, () => stringifyJson(last?.result ?? null)), resultKind: 'value' as const }
    : result
  const shownBody = await bodyOf(route, shown, scope, turns, last)
  reportCreated(result, caller)
  return shownBody
}

/**
 * As `run`, for a route that writes to Firestore. Several queries, or a precondition, run in one Firestore transaction. Its SQL
 * queries only read. The files become readable before that transaction, and the idempotency key stores its response after it.
 */
async function runOnFirestore (
  route: CompiledRoute,
  engine: Engine,
  firestore: DocumentStore,
  scope: Scope,
  caller: Caller,
  written?: () => void | Promise<void>
): Promise<string> {
  const { once, guard, form = null, held, isWanted } = caller
  // After the write, the request goes on even if its caller has left.
  const options = { tenant: scope.tenant?.id ?? noTenant }
  const sql = (bound: BoundQuery) => engine.text(bound.statement, bound.values, { ...options, isWanted })
  route.expansionGuards?.response?.(scope, 0)
  held?.requireRoom()
  if (form !== null) await engine.transaction({ ...options, isWanted }, form.complete)
  const idsOfTry = repeatableIds()
  const write = async (): Promise<Result> => {
    if (route.queries.length === 1 && guard === undefined) {
      return await runQueries(route, scope, { sql, documents: firestore, held, turns: unrefused })
    }
    return await firestore.transaction(tenantOrPlatform(scope.tenant), async (documents) => {
      const stores = { sql, documents, held, turns: inTransaction }
      if (guard !== undefined) await guard.check(stores)
      return runQueries(route, { ...scope, newId: idsOfTry() }, stores)
    })
  }
  let result
  try {
    result = await write()
  } catch (error) {
    // A repetition would make it a second time.
    if (lateWrites(error) !== null) once?.wroteOutside()
    throw error
  }
  once?.wroteOutside()
  form?.keep()
  if (written !== undefined) await written()
  const calls = route.integrations.length > 0
  // The calls can outlast the process, or the lease of the key.
  if (once !== undefined && calls) await engine.transaction(options, (session) => once.written(session))
  const last = calls ? await runIntegrations(route, scope, caller) : null
  const body = await bodyOf(route, result, scope, unrefused, last)
  reportCreated(result, caller)
  if (once !== undefined) {
    await engine.transaction(options, (session) => once.answered(session, body))
    once.kept()
  }
  return body
}

function reportCreated ({ text, resultKind }: Result, { created }: Caller): void {
  if (created !== undefined && formOf(resultKind) === 'record') created(text)
}

/** The stores for the queries of one request. */
export interface Stores {
  readonly sql: (bound: BoundQuery) => Promise<string | null>
  /** null if Firestore is not configured; no route uses it then. */
  readonly documents: DocumentSession | null
  /** Set if results wait for a further query or call, or those of a write for a turn. */
  readonly held?: HeldResults | undefined
  readonly turns: Turns
}

/** The JSON text of the queries or calls, and its kind. */
interface Result {
  readonly text: string
  readonly resultKind: ResultKind | 'value'
}

const noResult: Result = { text: '{}', resultKind: 'record' }

/** The body of a route that only reads, from these stores. Rejects as the route does. */
export async function readIn (stores: Stores, route: CompiledRoute, scope: Scope): Promise<string> {
  route.expansionGuards?.response?.(scope, 0)
  return bodyOf(route, route.queries.length === 0 ? noResult : await runQueries(route, scope, stores), scope, stores.turns)
}

/** `last`: the call whose result becomes the response if the route has no queries. */
function bodyOf (route: CompiledRoute, result: Result, scope: Scope, turns: Turns, last: LastCall | null = null): string | Promise<string> {
  const { length } = result.text
  const { transform, response, integrations } = route
  const isCopied = length >= longResult || isLongRequest(scope.headers) || integrations.length > 0
  const mayTakeLong = transform !== null || (response !== null && isCopied)
  if (!mayTakeLong) return makeBody(route, result, scope, last)
  return inTurn({ worker: scope, length, turns }, () => makeBody(route, result, scope, last))
}

function makeBody (route: CompiledRoute, { text, resultKind }: Result, scope: Scope, last: LastCall | null): string {
  const { transform, response, expansionGuards } = route
  if (transform === null) {
    if (response === null) return text
    if (response.kind === 'schema') return response.serialize(parseResult(text), formOf(resultKind))
    expansionGuards?.response?.(scope, route.integrations.length > 0 ? Infinity : text.length)
    return response.serialize(scope)
  }
  const form = formOf(resultKind)
  const result = transform.apply(parseResult(text), scope, form)
  if (response === null) return stringifyJson(result)
  if (response.kind === 'schema') return response.serialize(result, form)
  const computed = { ...scope, results: resultsOf(route, result, scope, last) }
  // The length of a computed text is not known in advance.
  expansionGuards?.response?.(computed, Infinity)
  return response.serialize(computed)
}

/** The results that a mapping reads after a transform: the response under the key of its query or call, and the results outside it. */
function resultsOf (route: CompiledRoute, result: unknown, { results }: Scope, last: LastCall | null): Record<string, unknown> {
  const [first] = route.queries
  if (first === undefined) return last === null ? results : { ...results, [last.key]: result }
  if (route.queries.length === 1) return { ...results, [first.key]: result }
  return Object.assign({ ...results }, result)
}

function runQueries (route: CompiledRoute, scope: Scope, stores: Stores): Promise<Result> {
  const [first] = route.queries
  if (first === undefined) return Promise.resolve(noResult)
  return route.queries.length === 1 ? resultOf(first, 0, 0, route, scope, stores) : runAllQueries(route, scope, stores)
}

/** Runs the queries in order; later queries can read `{{results.<key>}}` of earlier ones. */
async function runAllQueries (route: CompiledRoute, scope: Scope, stores: Stores): Promise<Result> {
  const members: string[] = []
  let length = 0
  for (const [index, query] of route.queries.entries()) {
    const { text } = await resultOf(query, index, length, route, scope, stores)
    length += text.length
    if (length > maxResultBytes) throw failure('answerTooLarge')
    members.push(`${JSON.stringify(query.key)}:${text}`)
  }
  return { text: `{${members.join(',')}}`, resultKind: 'record' }
}

/** `length`: characters of the results before this one. */
async function resultOf (
  query: RouteQuery,
  index: number,
  length: number,
  route: CompiledRoute,
  scope: Scope,
  stores: Stores
): Promise<Result> {
  route.expansionGuards?.queries[index]?.(scope, length)
  const result = query.store === 'sql' ? await rowsOf(query, scope, stores) : await documentsOf(query, scope, stores)
  if (stores.held !== undefined) count(result.text, query, route, stores.held)
  if (route.readsResults) {
    const { text } = result
    const turn = { worker: scope, length: text.length, turns: stores.turns }
    scope.results[query.key] = text.length < longResult ? parseResult(text) : await inTurn(turn, () => parseResult(text))
  }
  return result
}

/** A write has had its effect, so only a read is refused here. */
function count ({ length }: string, { write }: RouteQuery, { readsResults }: CompiledRoute, held: HeldResults): void {
  held.text(length)
  if (readsResults) held.value(length)
  if (!write) held.requireRoom()
}

async function rowsOf (query: CompiledQuery, scope: Scope, { sql, turns }: Stores): Promise<Result> {
  const turn = { worker: scope, length: 0, turns }
  const bound = isLongRequest(scope.headers) ? await inTurn(turn, () => query.bind(scope)) : query.bind(scope)
  let text
  try {
    text = found(query, await sql(bound))
  } catch (error) {
    throw atInputPointers(error, query, bound)
  }
  return { text: bound.finish === undefined ? text : bound.finish(text), resultKind: bound.resultKind ?? query.resultKind }
}

async function documentsOf (query: FirestoreQuery, scope: Scope, { documents }: Stores): Promise<Result> {
  if (documents === null) throw new Error('the plugin database has no Firestore')
  const { operation, resultKind, finish } = query.bind(scope)
  const text = found(query, await documents.text(operation))
  return { text: finish === undefined ? text : finish(text), resultKind }
}

/** No row means "not found"; for an upsert, it means that another tenant owns the row. */
function found (query: Pick<RouteQuery, 'missing'>, text: string | null): string {
  if (text === null) throw failure(query.missing)
  return text
}

/** A check within the transaction of a write, before it writes. */
export interface Guard {
  readonly isolation: Isolation | undefined
  /** Rejects with `preconditionFailed` if the current version is a different one. */
  check(stores: Stores): Promise<void>
}

/** The needs of a request, besides its scope, to run queries and calls. */
interface Caller extends CallParts {
  /** Whether the response still has a receiver. Absent if other requests may share it. */
  readonly isWanted?: (() => boolean) | undefined
  /** Set if the request has an idempotency key. */
  readonly once?: Once | undefined
  /** Set if the request has a precondition. */
  readonly guard?: Guard | undefined
  /** The files of a form. They become readable in the transaction of the route's writes. */
  readonly form?: ReceivedForm | null | undefined
  /** Receives the one record that the route created, as JSON text, before the response is sent. */
  readonly created?: ((record: string) => void) | undefined
}
