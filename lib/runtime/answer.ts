/** The results of a route's queries, and the body that is made of them. */
import type { CompiledRoute } from '../compiler/route.js'
import type { DocumentSession } from '../firestore/types.js'
import type { Answer, AnswerForm, BoundQuery, CompiledQuery, FirestoreQuery, RouteQuery, Scope } from '../expressions/types.js'
import { formOf, maxAnswerBytes } from '../expressions/answer.js'
import { failure } from '../errors.js'
import { parseAnswer } from '../database/parse-answer.js'
import { stringifyJson } from '../json/stringify.js'
import { isPlatformAdmin } from '../identity/platform-admin.js'
import { withIndexLink } from '../firestore/failures.js'
import { placed } from './column-errors.js'

/** The stores that the queries of one request run on. */
export interface Stores {
  readonly sql: (bound: BoundQuery) => Promise<string | null>
  /** null where there is no Firestore, as no route then uses it. */
  readonly documents: DocumentSession | null
}

/** The last call that ran. */
export interface LastCall {
  readonly key: string
  readonly result: unknown
}

/** The JSON text that the queries or calls answer, and where its records are. */
export interface Answered {
  readonly text: string
  readonly form: AnswerForm
}

/** The body of a route that only reads, as it is in these stores. Rejects as the route does. */
export async function readIn (stores: Stores, route: CompiledRoute, scope: Scope): Promise<string> {
  route.copies?.response?.(scope, 0)
  return bodyOf(route, await answerOf(route, scope, stores), scope)
}

/** `last`: the call whose result is the answer where the route has no queries. */
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
  // The length of a computed text is unknown.
  copies?.response?.(computed, Infinity)
  return response.serialize(computed)
}

/** The results as a mapping reads them after a transform: the answer by the key of its query or call, and those that are no part of it. */
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

/** The queries in order; `{{results.<key>}}` of one reaches those after it. */
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
    throw placed(error, query, bound)
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

/** No row is "not found"; for an upsert, a row that another tenant owns. */
function found (query: Pick<RouteQuery, 'missing'>, text: string | null): string {
  if (text === null) throw failure(query.missing)
  return text
}
