/**
 * Checks what a route says without its tables: templates, expressions, request rules, response and cache. A document
 * tells these faults together with all others, and although its database cannot be reached.
 */
import type { Env } from '../config/environment.js'
import type { FaultList } from '../config/faults.js'
import type { DocumentQuery, Filter, Query } from '../config/schema/query.js'
import type { Route } from '../config/schema/route.js'
import type { TemplateContext } from './reference.js'
import { pointerTo } from '../config/faults.js'
import { compileDocumentQuery, type QueryContext } from './query/index.js'
import { compileConditions } from './query/filter.js'
import { compileFilterValue } from './query/filter-value.js'
import { checkMembers } from './query/operation.js'
import { compilePage } from './query/page.js'
import { isRecord } from './query/write-input.js'
import { compileRequest } from './request.js'
import { compileResponse } from './response.js'
import { compileCache } from './route-cache.js'
import { methodOf, pathParameters, resultKey, routeSources } from './route-parts.js'
import { compileValue } from './template.js'
import { compileTransform } from './transform.js'

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
  const context = { faults, env, sources: routeSources, params: new Set(params), bounded: false }
  const values = { ...context, results: checkQueries(route, pointer, context) }
  compileRequest(route.request, `${pointer}/request`, faults, { params, paginated: false, hardDelete: false })
  if (route.request?.body !== undefined && methodOf(route) === 'GET') faults.add(`${pointer}/request/body`, 'a `get` request has no body')
  if (route.transform !== undefined) checkTransform(route, route.transform, `${pointer}/transform`, values)
  if (route.response !== undefined) compileResponse(route.response, `${pointer}/response`, values)
  compileCache(route, [], pointer, { enabled: true, ttl: 1 }, values)
}

/** A transform that computes nothing, or has nothing to compute from. */
function checkTransform (route: Route, transform: NonNullable<Route['transform']>, pointer: string, context: TemplateContext): void {
  const names = [transform, ...transform.operations ?? []].flatMap(({ fields }) => Object.keys(fields ?? {}))
  if (names.length === 0) context.faults.add(pointer, 'the transform computes nothing: expected `fields`')
  else if (route.queries === undefined && route.firebaseQueries === undefined) context.faults.add(pointer, 'there is no answer of a query to compute from: templates in `response` say the rest')
  compileTransform(transform, pointer, context)
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
    checkTableQuery(query, at, queryContext())
    take(resultKey(query), at)
  }
  for (const [index, query] of (route.firebaseQueries ?? []).entries()) {
    const at = pointerTo(pointer, 'firebaseQueries', index)
    // Documents are in no table that could be missing; a collection without a name has its fault already.
    if ((query.collection ?? '').trim() !== '') compileDocumentQuery(withoutFaulty(query, ['docId', 'limit', 'offset'], at, queryContext()), at, queryContext())
    take(resultKey(query), at)
  }
  return keys
}

/** Values whose templates are wrong are told here and taken away, so that nothing is expected of them besides. */
function withoutFaulty<Given extends Query | DocumentQuery> (query: Given, members: readonly (keyof Given & string)[], pointer: string, context: QueryContext): Given {
  const result = { ...query }
  for (const member of members) {
    const { length } = context.faults.faults
    if (query[member] !== undefined) compileValue(query[member], pointerTo(pointer, member), context)
    if (context.faults.faults.length > length) Object.assign(result, { [member]: undefined }) // still there, for whoever needs it to be
  }
  return result
}

/** The members that the operation uses: of one that it has no use for, that is the fault. */
function checkTableQuery (query: Query, pointer: string, context: QueryContext): void {
  checkMembers(query, pointer, context)
  const { operation, id, single, filters, data } = query
  if (id !== undefined) checkMemberValues(id, pointerTo(pointer, 'id'), context)
  if (operation !== 'insert') checkFilters(filters ?? [], operation, pointerTo(pointer, 'filters'), context)
  if (operation === 'select' && id === undefined && single !== true) compilePage(withoutFaulty(query, ['limit', 'offset'], pointer, context), pointer, context)
  if (operation !== 'select' && operation !== 'delete' && data !== undefined) checkMemberValues(data, pointerTo(pointer, 'data'), context)
}

function checkFilters (filters: readonly Filter[], operation: Query['operation'], pointer: string, context: QueryContext): void {
  compileConditions(filters, pointer, context, (filter, at) => {
    // The filters of an upsert are values of its row.
    if (operation === 'upsert') compileValue(filter.value, pointerTo(at, 'value'), context)
    else compileFilterValue(filter, at, context)
    return undefined
  })
}

/** Each column's value is a value of its own. */
function checkMemberValues (value: unknown, pointer: string, context: TemplateContext): void {
  if (!isRecord(value)) compileValue(value, pointer, context)
  else for (const [name, member] of Object.entries(value)) compileValue(member, pointerTo(pointer, name), context)
}
