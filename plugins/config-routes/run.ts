/** Runs the statements and the calls of a compiled route and makes its body. */
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { BoundQuery, CompiledQuery, Scope } from '../../lib/compiler/types.js'
import type { Engine, Session } from '../../lib/database/engine.js'
import type { CacheStore } from '../cache/store.js'
import type { AnswerForm } from '../../lib/compiler/types.js'
import { formOf, maxAnswerBytes } from '../../lib/compiler/answer.js'
import { failure, isFailure } from '../../lib/errors.js'
import { parseAnswer } from '../../lib/database/parse-answer.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { runIntegrations, type Caller, type LastCall } from './integrations.js'
import { placed } from './placed.js'

type Run = (bound: BoundQuery) => Promise<string | null>

/** The JSON text that the queries or calls answer, and where its records are. */
interface Answered {
  readonly text: string
  readonly form: AnswerForm
}

/**
 * Runs the route for one request; its writes are announced to the cache once they are committed and before this resolves or
 * rejects. See `run` for the body.
 */
export async function runRoute (route: CompiledRoute, engine: Engine, cache: CacheStore | null, scope: Scope, caller: Caller): Promise<string> {
  if (cache === null || route.writes.length === 0) return run(route, engine, scope, caller, nothingWritten)
  const written = () => cache.invalidate(scope.tenant?.id ?? '', route.writes)
  try {
    return await run(route, engine, scope, caller, written)
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
async function run (route: CompiledRoute, engine: Engine, scope: Scope, caller: Caller, written: () => void | Promise<void>): Promise<string> {
  const { once, guard, form = null } = caller
  const options = { tenantId: scope.tenant?.id ?? null, isolation: guard?.isolation }
  const copies = route.copies?.response ?? null
  // What it copies of the request is known before anything is asked of the database.
  if (copies !== null) copies(scope, 0)
  const calls = route.integrations.length > 0
  const writes = (copies !== null || once !== undefined || form !== null) && route.queries.some((query) => query.write)
  if ((writes || form !== null) && !calls) {
    const body = await engine.transaction(options, async (session) => {
      if (guard !== undefined) await guard.check(session)
      await form?.complete(session)
      const answer = await answerOf(route, scope, (bound) => textIn(session, bound))
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
      if (guard !== undefined) await guard.check(session)
      await form?.complete(session)
      const answer = await answerOf(route, scope, (bound) => textIn(session, bound))
      if (once !== undefined && writes) await once.written(session)
      return answer
    })
    : await answerOf(route, scope, (bound) => engine.text(bound.statement, bound.values, options))
  // Rows that are written name the files, whatever the calls do.
  if (writes) form?.keep()
  const telling = written()
  if (telling instanceof Promise) await telling
  const last = calls ? await runIntegrations(route, scope, caller) : null
  const answered = calls && route.queries.length === 0 ? { text: stringifyJson(last?.result ?? null), form: 'value' as const } : answer
  const body = bodyOf(route, answered, scope, last)
  reportCreated(answer, caller)
  return body
}

/** The body of a route that only reads, as it is within the session. Rejects as the route does. */
export async function readIn (session: Session, route: CompiledRoute, scope: Scope): Promise<string> {
  route.copies?.response?.(scope, 0)
  return bodyOf(route, await answerOf(route, scope, (bound) => textIn(session, bound)), scope)
}

function reportCreated ({ text, form }: Answered, { created }: Caller): void {
  if (created !== undefined && form === 'record') created(text)
}

/** `last`: the call whose result is the answer where the route has no queries. */
function bodyOf (route: CompiledRoute, { text, form }: Answered, scope: Scope, last: LastCall | null = null): string {
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

function answerOf (route: CompiledRoute, scope: Scope, run: Run): Promise<Answered> {
  const [first] = route.queries
  if (first === undefined) return Promise.resolve({ text: '{}', form: 'record' })
  return route.queries.length === 1 ? resultOf(first, 0, 0, route, scope, run) : answerOfAll(route, scope, run)
}

/** The queries in order; `{{results.<key>}}` of one reaches those after it. */
async function answerOfAll (route: CompiledRoute, scope: Scope, run: Run): Promise<Answered> {
  const members: string[] = []
  let length = 0
  for (const [index, query] of route.queries.entries()) {
    const { text } = await resultOf(query, index, length, route, scope, run)
    length += text.length
    if (length > maxAnswerBytes) throw failure('answerTooLarge')
    members.push(`${JSON.stringify(query.key)}:${text}`)
  }
  return { text: `{${members.join(',')}}`, form: 'record' }
}

/** `length`: characters of the results before this one. */
async function resultOf (query: CompiledQuery, index: number, length: number, route: CompiledRoute, scope: Scope, run: Run): Promise<Answered> {
  route.copies?.queries[index]?.(scope, length)
  const bound = query.bind(scope)
  let text
  try {
    text = found(query, await run(bound))
  } catch (error) {
    throw placed(error, query, bound)
  }
  if (bound.finish !== undefined) text = bound.finish(text)
  if (route.readsResults) scope.results[query.key] = parseAnswer(text)
  return { text, form: formOf(bound.answer) }
}

function textIn (session: Session, bound: BoundQuery): Promise<string | null> {
  return session.text(bound.statement, bound.values)
}

/** No row is "not found"; for an upsert, a row that another tenant owns. */
function found (query: CompiledQuery, text: string | null): string {
  if (text === null) throw failure(query.missing)
  return text
}
