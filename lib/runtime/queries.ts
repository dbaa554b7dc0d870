/** Runs a route's queries and makes the response body from their results. */
import type { CompiledRoute } from '../compiler/route.js'
import type { DocumentSession } from '../firestore/types.js'
import type { ResultKind, ResultForm, BoundQuery, CompiledQuery, FirestoreQuery, RouteQuery, Scope } from '../expressions/types.js'
import { formOf, maxResultBytes } from '../expressions/result.js'
import { failure } from '../errors.js'
import { parseResult } from '../database/parse-result.js'
import { stringifyJson } from '../json/stringify.js'
import { isPlatformAdmin } from '../identity/platform-admin.js'
import { withIndexLink } from '../firestore/failures.js'
import { ColumnsError } from '../database/failures.js'

/** The stores for the queries of one request. */
export interface Stores {
  readonly sql: (bound: BoundQuery) => Promise<string | null>
  /** null if Firestore is not configured; no route uses it then. */
  readonly documents: DocumentSession | null
}

export interface LastCall {
  readonly key: string
  readonly result: unknown
}

/** The JSON text of the queries or calls, and its form. */
export interface RouteResult {
  readonly text: string
  readonly form: ResultForm
}

/** The body of a read-only route, read from these stores. Rejects as the route does. */
export async function readIn (stores: Stores, route: CompiledRoute, scope: Scope): Promise<string> {
  route.copies?.response?.(scope, 0)
  return bodyOf(route, await runQueries(route, scope, stores), scope)
}

/** `last`: the call whose result becomes the response if the route has no queries. */
export function bodyOf (route: CompiledRoute, { text, form }: RouteResult, scope: Scope, last: LastCall | null = null): string {
  const { transform, response, copies } = route
  if (transform === null) {
    if (response === null) return text
    if (response.kind === 'schema') return response.serialize(parseResult(text), form)
    copies?.response?.(scope, route.integrations.length > 0 ? Infinity : text.length)
    return response.serialize(scope)
  }
  const result = transform.apply(parseResult(text), scope, form)
  if (response === null) return stringifyJson(result)
  if (response.kind === 'schema') return response.serialize(result, form)
  const computed = { ...scope, results: resultsOf(route, result, scope, last) }
  // The length of a computed text is not known in advance.
  copies?.response?.(computed, Infinity)
  return response.serialize(computed)
}

/** The results that a mapping reads after a transform: the response under the key of its query or call, and the results outside it. */
function resultsOf (route: CompiledRoute, result: unknown, { results }: Scope, last: LastCall | null): Record<string, unknown> {
  const [first] = route.queries
  if (first === undefined) return last === null ? results : { ...results, [last.key]: result }
  if (route.queries.length === 1) return { ...results, [first.key]: result }
  return Object.assign({ ...results }, result)
}

export function runQueries (route: CompiledRoute, scope: Scope, stores: Stores): Promise<RouteResult> {
  const [first] = route.queries
  if (first === undefined) return Promise.resolve({ text: '{}', form: 'record' })
  return route.queries.length === 1 ? resultOf(first, 0, 0, route, scope, stores) : runAllQueries(route, scope, stores)
}

/** Runs the queries in order; later queries can read `{{results.<key>}}` of earlier ones. */
async function runAllQueries (route: CompiledRoute, scope: Scope, stores: Stores): Promise<RouteResult> {
  const members: string[] = []
  let length = 0
  for (const [index, query] of route.queries.entries()) {
    const { text } = await resultOf(query, index, length, route, scope, stores)
    length += text.length
    if (length > maxResultBytes) throw failure('answerTooLarge')
    members.push(`${JSON.stringify(query.key)}:${text}`)
  }
  return { text: `{${members.join(',')}}`, form: 'record' }
}

/** `length`: characters of the results before this one. */
async function resultOf (
  query: RouteQuery,
  index: number,
  length: number,
  route: CompiledRoute,
  scope: Scope,
  stores: Stores
): Promise<RouteResult> {
  route.copies?.queries[index]?.(scope, length)
  const { text, resultKind } = query.store === 'sql' ? await rowsOf(query, scope, stores) : await documentsOf(query, scope, stores)
  if (route.readsResults) scope.results[query.key] = parseResult(text)
  return { text, form: formOf(resultKind) }
}

interface Result {
  readonly text: string
  readonly resultKind: ResultKind
}

async function rowsOf (query: CompiledQuery, scope: Scope, { sql }: Stores): Promise<Result> {
  const bound = query.bind(scope)
  let text
  try {
    text = found(query, await sql(bound))
  } catch (error) {
    throw atInputPointers(error, query, bound)
  }
  return { text: bound.finish === undefined ? text : bound.finish(text), resultKind: bound.resultKind }
}

async function documentsOf (query: FirestoreQuery, scope: Scope, { documents }: Stores): Promise<Result> {
  if (documents === null) throw new Error('the plugin database has no Firestore')
  const { operation, resultKind, finish } = query.bind(scope)
  try {
    const text = found(query, await documents.text(operation))
    return { text: finish === undefined ? text : finish(text), resultKind }
  } catch (error) {
    throw scope.auth !== null && isPlatformAdmin(scope.auth) ? withIndexLink(error) : error
  }
}

/** No row means "not found"; for an upsert, it means that another tenant owns the row. */
function found (query: Pick<RouteQuery, 'missing'>, text: string | null): string {
  if (text === null) throw failure(query.missing)
  return text
}

/** The database knows only the columns. */
export function atInputPointers (error: unknown, { table, resultKind, inputPointers }: CompiledQuery, bound: BoundQuery | null): unknown {
  if (bound?.failure !== undefined) return bound.failure(error)
  // For an array of records, the database does not report the record.
  if (!(error instanceof ColumnsError) || error.table !== table || bound?.resultKind !== resultKind) return error
  return error.at(inputPointers)
}
