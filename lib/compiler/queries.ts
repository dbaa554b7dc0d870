/** Compiles the queries of a route, and describes the members of their results. */
import { type KnownResult, unknownResult } from '../expressions/known-members.js'
import type { TemplateContext } from '../expressions/reference.js'
import { isRecord } from '../json/plain-value.js'
import type { RouteQuery } from '../queries/compiled-query.js'
import { compileDocumentQuery, compileQuery, type QueryContext } from '../queries/index.js'
import { knownResultOf } from '../queries/query-result.js'
import { withheldBy } from '../queries/withheld.js'
import { pointerTo } from '../schema/faults.js'
import type { Route } from '../schema/route.js'
import { queriedSchema } from './result-schema.js'
import type { RouteContext } from './route-context.js'
import { methodOf, resultKey } from './route-parts.js'
import { computedNames, type TransformedResult } from './transform.js'

const none: ReadonlySet<string> = new Set()

/** Compiles table queries first, then document queries; each can read the results of earlier queries. */
export function compileQueries (route: Route, pointer: string, context: RouteContext, texts: TemplateContext) {
  const queries: RouteQuery[] = []
  const results = new Map<string, KnownResult>()
  const templates: TemplateContext = { ...texts, overridableEnv: context.overridableEnv ?? new Set() }
  const withheld = withheldBy(route, context.catalogue, templates)
  // The query string pages the route's only list. With several queries it would be ambiguous.
  const isOne = countQueries(route) === 1
  const first: QueryContext = {
    ...templates,
    results: new Map(),
    withheld,
    catalogue: context.catalogue,
    pagination: context.pagination,
    callerPages: isOne,
    ...isOne && { listRoute: `${methodOf(route)} ${route.path}` },
    excludeFields: route.excludeFields ?? [],
    softDelete: route.softDelete,
    sharedTables: context.sharedTables,
    deletesFiles: context.fileRules?.deletedWithRows === true,
    functions: context.functions,
    reads: methodOf(route) === 'GET',
    firestore: context.firestore,
    origin: context.origin
  }
  const queryContext = () => results.size === 0 ? first : { ...first, results: new Map(results) }
  const take = (key: string | undefined, query: RouteQuery | null, at: string) => {
    if (query !== null) queries.push(query)
    if (key === undefined || key.trim() === '') return
    // A query with faults keeps its key, so that references to its result are not reported too.
    if (results.has(key)) context.faults.add(at, `two queries have the result name "${key}": give one of them an \`alias\``)
    results.set(key, query === null ? unknownResult : knownResultOf(query))
  }
  for (const [index, query] of (route.queries ?? []).entries()) {
    const at = pointerTo(pointer, 'queries', index)
    take(resultKey(query), compileQuery(query, at, queryContext()), at)
  }
  for (const [index, query] of (route.firebaseQueries ?? []).entries()) {
    const at = pointerTo(pointer, 'firebaseQueries', index)
    // A missing collection has been reported already.
    const compiled = (query.collection ?? '').trim() === '' ? null : compileDocumentQuery(query, at, queryContext())
    take(resultKey(query), compiled, at)
  }
  return { queries, results }
}

/** The known properties of the response that a transform changes. `isComplete`: all queries were compiled. */
export function resultOf (route: Route, queries: readonly RouteQuery[], isComplete: boolean): TransformedResult {
  const several = countQueries(route) > 1
  const [query] = queries
  if (query === undefined || !isComplete) return { several, names: null, item: unknownResult, result: unknownResult }
  const hidden = new Set(queries.flatMap(({ excluded }) => [...excluded]))
  return {
    several,
    names: namesOf(queries),
    item: several || query.resultKind === 'deletion' ? unknownResult : { schema: () => query.record, hidden, excluded: none },
    result: { schema: () => queriedSchema(queries), hidden, excluded: none }
  }
}

/** The context of a route's response and transform: they may read excluded fields, because they show them only to callers who have them. */
export function withExcluded (context: TemplateContext): TemplateContext {
  if (context.results === undefined) return context
  const results = new Map<string, KnownResult>()
  for (const [key, { schema, hidden, excluded }] of context.results) {
    results.set(key, { schema, hidden: new Set([...hidden, ...excluded]), excluded: none })
  }
  return { ...context, results }
}

/** The context of a response after the transform of its route: the results also have the computed fields. */
export function withComputed (context: TemplateContext, { transform }: Route): TemplateContext {
  if (transform === undefined || context.results === undefined) return context
  const computed = computedNames(transform)
  const results = new Map<string, KnownResult>()
  for (const [key, result] of context.results) results.set(key, { ...result, hidden: new Set([...result.hidden, ...computed]) })
  return { ...context, results }
}

/** The fields of the records in a route's response; null if records may have any. */
function namesOf (queries: readonly RouteQuery[]): ReadonlySet<string> | null {
  const [query] = queries
  if (query === undefined || queries.length > 1 || query.fields === null || query.resultKind === 'deletion') return null
  const { properties } = query.record
  return new Set([...query.fields, ...Object.keys(isRecord(properties) ? properties : {})])
}

export function countQueries ({ queries = [], firebaseQueries = [] }: Route): number {
  return queries.length + firebaseQueries.length
}
