/** Runs a route's queries and makes the response body from their results. */
import type { CompiledRoute } from '../compiler/route.js'
import type { DocumentSession } from '../firestore/types.js'
import type { Answer, AnswerForm, BoundQuery, CompiledQuery, FirestoreQuery, RouteQuery, Scope } from '../expressions/types.js'
import { formOf, maxAnswerBytes } from '../expressions/answer.js'
import { failure } from '../errors.js'
import { parseAnswer } from '../database/parse-answer.js'
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
export interface Answered {
  readonly text: string
  readonly form: AnswerForm
}

/** The body of a read-only route, read from these stores. Rejects as the route does. */
export async function readIn (stores: Stores, route: CompiledRoute, scope: Scope): Promise<string> {
  route.copies?.response?.(scope, 0)
  return bodyOf(route, await answerOf(route, scope, stores), scope)
}

/** `last`: the call whose result becomes the response if the route has no queries. */
export function bodyOf (route: CompiledRoute, { text, form }: Answered, scope: Scope, last: LastCall | null = null): string {
  const { transform, response, copies } = route
  if (transform === null) {
    if (response === null) return text
    if (response.kind === 'schema') return response.serialize(parseAnswer(text), form)
    copies?.response?.(scope, route.integrations.length > 0 ? Infinity : text.length)
    return response.serialize(scope)
  }
  const answer = transform.apply(parseAnswer(text), scope, form)
  if (response === null) return stringifyJson(answer)
  if (response.kind === 'schema') return response.serialize(answer, form)
  const computed = { ...scope, results: resultsOf(route, answer, scope, last) }
  // The length of a computed text is not known in advance.
  copies?.response?.(computed, Infinity)
  return response.serialize(computed)
}

/**
 * The results that a mapping reads after a transform: the response under the key of its query or call, and the results outside
 * it.
 */
function resultsOf (route: CompiledRoute, answer: unknown, { results }: Scope, last: LastCall | null): Record<string, unknown> {
  const [first] = route.queries
  if (first === undefined) return last === null ? results : { ...results, [last.key]: answer }
  if (route.queries.length === 1) return { ...results, [first.key]: answer }
  return Object.assign({ ...results }, answer)
}

export function answerOf (route: CompiledRoute, scope: Scope, stores: Stores): Promise<Answered> {
  const [first] = route.queries
  if (first === undefined) return Promise.resolve({ text: '{}', form: 'record' })
  return route.queries.length === 1 ? resultOf(first, 0, 0, route, scope, stores) : answerOfAll(route, scope, stores)
}

/** Runs the queries in order; later queries can read `{{results.<key>}}` of earlier ones. */
async function answerOfAll (route: CompiledRoute, scope: Scope, stores: Stores): Promise<Answered> {
  const members: string[] = []
  let length = 0
  for (const [index, query] of route.queries.entries()) {
    const { text } = await resultOf(query, index, length, route, scope, stores)
    length += text.length
    if (length > maxAnswerBytes) throw failure('answerTooLarge')
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
): Promise<Answered> {
  route.copies?.queries[index]?.(scope, length)
  const { text, answer } = query.store === 'sql' ? await rowsOf(query, scope, stores) : await documentsOf(query, scope, stores)
  if (route.readsResults) scope.results[query.key] = parseAnswer(text)
  return { text, form: formOf(answer) }
}

interface Result {
  readonly text: string
  readonly answer: Answer
}

async function rowsOf (query: CompiledQuery, scope: Scope, { sql }: Stores): Promise<Result> {
  const bound = query.bind(scope)
  let text
  try {
    text = found(query, await sql(bound))
  } catch (error) {
    throw atInputPointers(error, query, bound)
  }
  return { text: bound.finish === undefined ? text : bound.finish(text), answer: bound.answer }
}

async function documentsOf (query: FirestoreQuery, scope: Scope, { documents }: Stores): Promise<Result> {
  if (documents === null) throw new Error('the plugin database has no Firestore')
  const { operation, answer, finish } = query.bind(scope)
  try {
    const text = found(query, await documents.text(operation))
    return { text: finish === undefined ? text : finish(text), answer }
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
export function atInputPointers (error: unknown, { table, answer, inputPointers }: CompiledQuery, bound: BoundQuery | null): unknown {
  if (bound?.failure !== undefined) return bound.failure(error)
  // For an array of records, the database does not report the record.
  if (!(error instanceof ColumnsError) || error.table !== table || bound?.answer !== answer) return error
  return error.at(inputPointers)
}
