/**
 * Checks what a route says without its tables: templates, expressions, request rules, response and cache. A document
 * tells these faults together with all others, and although its database cannot be reached.
 */
import type { Env } from '../config/environment.js'
import type { FaultList } from '../config/faults.js'
import type { Route } from '../config/schema/route.js'
import type { TemplateContext } from './reference.js'
import { pointerTo } from '../config/faults.js'
import { compileDocumentQuery, type QueryContext } from './query/index.js'
import { checkMembers } from './query/operation.js'
import { checkQueryTexts } from './query/texts.js'
import { compileRequest } from './request.js'
import { compileResourceLimit } from './resource-limit.js'
import { compileResponse } from './response.js'
import { compileCache } from './route-cache.js'
import { pathParameters, resultKey, sourcesOf } from './route-parts.js'
import { checkRouteRules } from './route-rules.js'
import { compileTransform } from './transform.js'
import { compileWebhook } from './webhook.js'

/** What a route is checked against. */
export interface RouteCheck {
  readonly faults: FaultList
  readonly env: Env
}

/** What compiles a query but has no say in its texts. */
const without: Pick<QueryContext, 'catalogue' | 'pagination' | 'sharedTables' | 'origin'> = {
  catalogue: { schema: 'public', tables: new Map() },
  pagination: { defaultLimit: 1, maxLimit: 1, defaultOffset: 0 },
  sharedTables: new Set(),
  origin: 'platform'
}

/** Adds the faults that compileRoute would find whatever the tables are. */
export function checkRouteTexts (route: Route, pointer: string, { faults, env }: RouteCheck): void {
  const params = pathParameters(route.path)
  const context = { faults, env, sources: sourcesOf(route), params: new Set(params), bounded: false }
  const values = { ...context, results: checkQueries(route, pointer, context) }
  compileRequest(route.request, `${pointer}/request`, faults, { params, paginated: false, hardDelete: false })
  checkRouteRules(route, pointer, faults)
  if (route.transform !== undefined) compileTransform(route.transform, `${pointer}/transform`, values)
  if (route.response !== undefined) compileResponse(route.response, `${pointer}/response`, values)
  compileResourceLimit(route, pointer, values)
  compileWebhook(route, pointer, values)
  compileCache(route, [], pointer, { cache: { enabled: false, ttl: 1 }, pagination: without.pagination }, values)
}

/** Checks each query, which sees the results of those before it; returns the names of all results. */
function checkQueries (route: Route, pointer: string, context: TemplateContext): ReadonlySet<string> {
  const keys = new Set<string>()
  const queryContext = (): QueryContext => ({
    ...context,
    ...without,
    results: new Set(keys),
    excludeFields: route.excludeFields ?? [],
    softDelete: route.softDelete
  })
  const take = (key: string | undefined, at: string) => {
    if (key === undefined || key.trim() === '') return
    if (keys.has(key)) context.faults.add(at, `two queries answer under the name "${key}": give one of them an \`alias\``)
    keys.add(key)
  }
  for (const [index, query] of (route.queries ?? []).entries()) {
    const at = pointerTo(pointer, 'queries', index)
    checkMembers(query, at, queryContext())
    checkQueryTexts(query, at, queryContext())
    take(resultKey(query), at)
  }
  for (const [index, query] of (route.firebaseQueries ?? []).entries()) {
    const at = pointerTo(pointer, 'firebaseQueries', index)
    // Documents are in no table that could be missing; a collection without a name has its fault already.
    if ((query.collection ?? '').trim() !== '') compileDocumentQuery(query, at, queryContext())
    take(resultKey(query), at)
  }
  return keys
}
