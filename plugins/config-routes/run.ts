/** Runs the statements of a compiled route and makes its body. */
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { BoundQuery, CompiledQuery, Scope } from '../../lib/compiler/types.js'
import type { Engine, Session } from '../../lib/database/engine.js'
import { ColumnsError } from '../../lib/database/failures.js'
import { failure } from '../../lib/errors.js'

/**
 * Runs the route for one request and returns its body as JSON text. Where nothing needs the rows in JavaScript, the
 * text is the one that PostgreSQL built. Throws the errors of the catalogue.
 */
export async function runRoute (route: CompiledRoute, engine: Engine, scope: Scope): Promise<string> {
  const text = await answerOf(route, engine, scope)
  const { transform, response } = route
  if (transform === null) {
    if (response === null) return text
    return response.kind === 'mapping' ? response.serialize(scope) : response.serialize(JSON.parse(text))
  }
  const answer = transform.apply(JSON.parse(text), scope)
  if (response === null) return JSON.stringify(answer)
  if (response.kind === 'schema') return response.serialize(answer)
  return response.serialize({ ...scope, results: resultsOf(route, answer) })
}

/** The results as a mapping reads them after a transform: the answer by the key of its query. */
function resultsOf (route: CompiledRoute, answer: unknown): Record<string, unknown> {
  const [first] = route.queries
  if (first !== undefined && route.queries.length === 1) return { [first.key]: answer }
  return Object.assign({}, answer)
}

async function answerOf (route: CompiledRoute, engine: Engine, scope: Scope): Promise<string> {
  const { queries } = route
  const [first] = queries
  if (first === undefined) return '{}'
  const options = { tenantId: scope.tenant?.id ?? null }
  if (queries.length === 1) {
    const bound = first.bind(scope)
    let text
    try {
      text = found(first, await engine.text(bound.statement, bound.values, options))
    } catch (error) {
      throw placed(error, first, bound)
    }
    if (route.readsResults) scope.results[first.key] = JSON.parse(text)
    return text
  }
  if (route.transaction) {
    return engine.transaction(options, (session) => answerOfAll(route, scope, (bound) => textIn(session, bound)))
  }
  return answerOfAll(route, scope, (bound) => engine.text(bound.statement, bound.values, options))
}

/** The queries in order; `{{results.<key>}}` of one reaches those after it. */
async function answerOfAll (route: CompiledRoute, scope: Scope, run: (bound: BoundQuery) => Promise<string | null>): Promise<string> {
  const members: string[] = []
  for (const query of route.queries) {
    const bound = query.bind(scope)
    let text
    try {
      text = found(query, await run(bound))
    } catch (error) {
      throw placed(error, query, bound)
    }
    if (route.readsResults) scope.results[query.key] = JSON.parse(text)
    members.push(`${JSON.stringify(query.key)}:${text}`)
  }
  return `{${members.join(',')}}`
}

function textIn (session: Session, bound: BoundQuery): Promise<string | null> {
  return session.text(bound.statement, bound.values)
}

/** A broken rule of the table is told by where the request gave its columns; the database knows only the columns. */
function placed (error: unknown, { table, answer, places }: CompiledQuery, bound: BoundQuery): unknown {
  // Of an array of records the database does not say which one it was.
  if (!(error instanceof ColumnsError) || error.table !== table || bound.answer !== answer) return error
  return error.at(places)
}

/** No row is "not found"; for an upsert, a row that another tenant owns. */
function found (query: CompiledQuery, text: string | null): string {
  if (text === null) throw failure(query.missing)
  return text
}
