/**
 * Compiles one declared route into plain frozen data: what it demands of a caller, what it validates, the statements
 * it runs and how their texts become the body. Mounted by plugins/config-routes; nothing here knows Fastify.
 */
import type { FaultList } from '../schema/faults.js'
import type { Functions } from '../schema/function.js'
import type { RouteRateLimit } from '../schema/rate-limit.js'
import type { Route } from '../schema/route.js'
import type { CompiledRequest, CompiledResponse, Method, Reference, RouteQuery } from '../expressions/types.js'
import type { TableUse } from '../cache/store.js'
import type { TemplateContext } from '../expressions/reference.js'
import type { CompiledCache } from './route-cache.js'
import type { CompiledResourceLimit } from './resource-limit.js'
import type { CompiledTransform } from './transform.js'
import type { CopyCheck } from '../expressions/copies.js'
import { compileFiles, type CompiledFile } from './files.js'
import { nearest, pointerTo } from '../schema/faults.js'
import { isRecord } from '../json/plain-value.js'
import { faultsOfRoute } from '../document/webhook-routes.js'
import { withheldBy } from '../queries/withheld.js'
import { compileDocumentQuery, compileQuery, type FirestoreRules, type QueryContext } from '../queries/index.js'
import { unique } from '../queries/table-use.js'
import { compileCopies } from '../expressions/copies.js'
import { compileLocation, type RecordLocation, type RowPaths } from './location.js'
import { compileIntegrations, integrationKeys, type CompiledIntegration } from './integrations.js'
import { secretKeysOf } from '../expressions/reference.js'
import { PartUses } from '../expressions/secret-uses.js'
import { compileRequest } from './request.js'
import { compileResourceLimit } from './resource-limit.js'
import { compileResponse } from './response.js'
import { compileCache } from './route-cache.js'
import { fileNamesOf, methodOf, pathParameters, requestRulesOf, resultKey, sourcesOf } from './route-parts.js'
import { checkBounds, withBoundedFaults } from '../queries/tenant-limits.js'
import { checkCursorMembers, checkPromises } from './answer-schema.js'
import { checkRouteRules } from './route-rules.js'
import { checkStores, firestoreUse, type FirestoreUse } from './stores.js'
import { compileTransform } from './transform.js'
import {
  answerValues,
  compileRouteWorkflow,
  type CompiledRouteWorkflow,
  readableBy,
  type RouteWorkflowContext,
  workflowReferences
} from './workflow.js'
import { compileRouteMessage, type CompiledRouteMessage } from './realtime.js'
import { compileWebhook, type CompiledWebhook } from './webhook.js'

/** What a route is compiled against. */
export interface RouteContext extends RouteWorkflowContext {
  /** The document's `cache`: no route is cached where it is off; `ttl` in seconds for routes that name none. */
  readonly cache: { readonly enabled: boolean, readonly ttl: number }
  /** Whether routes can send messages to rooms. Default: it is not judged. */
  readonly messages?: boolean | undefined
  /** The SQL functions that the document may call. Default: none. */
  readonly functions?: Functions | undefined
  /** null where there is no Firestore. Default: it is not judged. */
  readonly firestore?: FirestoreRules | null | undefined
  /** Of the routes of the document. Default: none, so that no route answers a `Location`. */
  readonly rowPaths?: RowPaths
}

/** A route, ready to serve: at its path, or at any other of which `compiledParts` are the same. */
export interface CompiledRoute {
  readonly method: Method
  readonly requireAuth: boolean
  /** Whose tokens are accepted: `jwt`, the own ones, or the name of an identity provider. */
  readonly authProvider: string
  /** A caller without a token may name the tenant by header. */
  readonly publicTenant: boolean
  readonly permissions: readonly string[]
  readonly rateLimit: RouteRateLimit | null
  /** What a request uses of a limited resource. */
  readonly resourceLimit: CompiledResourceLimit | null
  /** Another service calls the route, and signs its requests; null for all other callers. */
  readonly webhook: CompiledWebhook | null
  readonly request: CompiledRequest
  /** The files of its form, which its body then is; null for a body of JSON. */
  readonly files: readonly CompiledFile[] | null
  readonly cache: CompiledCache | null
  readonly queries: readonly RouteQuery[]
  /** Calls to other services, run in order once what the queries wrote is committed. */
  readonly integrations: readonly CompiledIntegration[]
  /** The message to a room that it sends in the end; null for nearly all. */
  readonly realtime: CompiledRouteMessage | null
  /** What the route runs in place of queries; null for nearly all. */
  readonly workflow: CompiledRouteWorkflow | null
  /** The keys of the secrets that the route can read, each once: they are in the scope before a query is bound. */
  readonly secrets: readonly string[]
  /** Those of them that replace a setting: nothing is missing where there is none. */
  readonly optionalSecrets: ReadonlySet<string>
  /** A query reads or writes a tenant-scoped table. */
  readonly tenantScoped: boolean
  /** What its queries read and what they write: of two queries on one table, once. */
  readonly reads: readonly TableUse[]
  readonly writes: readonly TableUse[]
  /** One of several queries writes: all of them run in one transaction. */
  readonly transaction: boolean
  readonly firestore: FirestoreUse
  /** Members of the query string, and headers, that templates and expressions read. */
  readonly readsQuery: readonly string[]
  readonly readsHeaders: readonly string[]
  /** A later query, the transform or the response reads `results`: texts of queries are parsed. */
  readonly readsResults: boolean
  /** 202 where the answer comes before the work is done. */
  readonly status: 200 | 201 | 202
  readonly transform: CompiledTransform | null
  readonly response: CompiledResponse | null
  /** Where what it creates can be read, of a document with such a route; null for nearly all. */
  readonly location: RecordLocation | null
  /** Checks of what templates would copy, by query and of the response, each before it is evaluated; null where none is needed. */
  readonly copies: { readonly queries: readonly (CopyCheck | null)[], readonly response: CopyCheck | null } | null
}

/**
 * Compiles a route; null when faults were added to the context's list, or where a partial catalogue does not have its tables. The
 * first 50 faults of a tenant's route are reported.
 */
export function compileRoute (route: Route, pointer: string, context: RouteContext): CompiledRoute | null {
  const placed = faultsOfRoute(pointer, context.faults)
  if (context.origin === 'platform') return compileParts(route, pointer, { ...context, faults: placed })
  if (context.checked !== true && !checkBounds(route, pointer, placed)) return null
  return withBoundedFaults(placed, (faults) => compileParts(route, pointer, { ...context, faults }))
}

function compileParts (route: Route, pointer: string, context: RouteContext): CompiledRoute | null {
  const { faults } = context
  const before = faults.faults.length
  checkRouteRules(route, pointer, faults)
  const params = pathParameters(route.path)
  const files = compileFiles(route, pointer, context.fileRules, faults)
  const ofPart = context.secretUses?.of(pointer)
  const uses = new PartUses(ofPart)
  const texts = {
    faults,
    sources: sourcesOf(route),
    env: context.env,
    envNames: context.envNames,
    params: new Set(params),
    files: fileNamesOf(route),
    rules: requestRulesOf(route),
    uses
  } satisfies TemplateContext
  const queries = compileQueries(route, pointer, context, texts)
  const isComplete = queries.length === countQueries(route)
  if (isComplete && faults.faults.length === before) checkExcluded(route, queries, pointer, faults)
  checkStores(queries, pointer, faults)
  const queryKeys = [...route.queries ?? [], ...route.firebaseQueries ?? []].flatMap((query) => resultKey(query) ?? [])
  const values = {
    ...texts,
    results: new Set([...queryKeys, ...integrationKeys(route.integrations ?? [], queryKeys)]),
    bounded: context.origin === 'tenant'
  } satisfies TemplateContext
  const started = compileRouteWorkflow(route, pointer, context, values)
  const request = compileRequest(route.request, `${pointer}/request`, faults, {
    params,
    paginated: countQueries(route) === 1 && queries.some((query) => query.answer === 'page'),
    parameters: Object.assign({}, ...queries.map((query) => query.parameters)),
    hardDelete: route.softDelete?.allowHardDelete === true,
    ofTenant: context.origin === 'tenant',
    bulk: takesArrays(route),
    form: files !== null
  })
  const answers = answerValues(values, route, started)
  const transform = route.transform === undefined
    ? null
    : compileTransform(route.transform, `${pointer}/transform`, answers, {
      several: countQueries(route) > 1,
      names: isComplete ? namesOf(queries) : null
    })
  const response = route.response === undefined ? null : compileResponse(route.response, `${pointer}/response`, answers)
  if (isComplete && faults.faults.length === before) checkCursorMembers(queries, response, `${pointer}/response`, faults)
  const integrations = compileIntegrations(route.integrations ?? [], `${pointer}/integrations`, queryKeys, context.connectors, {
    ...values,
    overridableEnv: context.overridableEnv ?? none
  })
  const realtime = compileRouteMessage(route, pointer, values, context.messages)
  if (isComplete && route.workflow === undefined && faults.faults.length === before) checkPromises({ queries, transform, response }, `${pointer}/response`, faults)
  const references = [
    ...queries.flatMap((query) => query.references),
    ...integrations.flatMap((integration) => integration.references),
    ...realtime?.references ?? [],
    ...transform?.references ?? [],
    ...response?.kind === 'mapping' ? response.value.references : []
  ]
  const workflow = readableBy(references, started)
  references.push(...workflowReferences(workflow))
  const namesRead = (source: 'query' | 'headers') =>
    Object.freeze([...new Set(references.flatMap((reference) => reference.source === source ? String(reference.path[0]) : []))])
  checkCached(route, integrations, pointer, faults)
  const cache = compileCache(route, references, pointer, context, values)
  const resourceLimit = compileResourceLimit(route, pointer, values)
  const webhook = compileWebhook(route, pointer, { ...values, overridableEnv: context.overridableEnv ?? none, uses: ofPart })
  const method = methodOf(route)
  if (faults.faults.length > before || !isComplete || (workflow === null && route.workflow !== undefined)) return null

  return Object.freeze({
    method,
    requireAuth: route.requireAuth ?? (route.requiredPermissions?.length ?? 0) > 0,
    authProvider: route.authProvider ?? 'jwt',
    publicTenant: route.public ?? true,
    permissions: Object.freeze([...route.requiredPermissions ?? []]),
    rateLimit: route.rateLimit ?? null,
    resourceLimit,
    webhook,
    request,
    files,
    cache,
    queries: Object.freeze(queries),
    integrations: Object.freeze(integrations),
    realtime,
    workflow,
    secrets: Object.freeze([...new Set([...secretKeysOf(references), ...uses.keys])]),
    optionalSecrets: optionalIn(references),
    tenantScoped: queries.some((query) => query.tenantScoped) || workflow?.workflow.tenantScoped === true,
    reads: unique(queries.flatMap((query) => query.reads)),
    writes: unique(queries.flatMap((query) => query.writes)),
    transaction: queries.length > 1 && queries.some((query) => query.write),
    firestore: firestoreUse(queries),
    readsQuery: namesRead('query'),
    readsHeaders: namesRead('headers'),
    readsResults: response?.kind === 'mapping' || references.some((reference) => reference.source === 'results'),
    status: workflow?.async === true ? 202 : queries.length === 1 ? queries[0]!.status : 200,
    transform,
    response,
    location: compileLocation(route, queries, response, context.rowPaths ?? noPaths),
    copies: copiesOf(route, response, answers)
  })
}

function countQueries ({ queries = [], firebaseQueries = [] }: Route): number {
  return queries.length + firebaseQueries.length
}

/** The fields of the records that a route answers; null where they may have any. */
function namesOf (queries: readonly RouteQuery[]): ReadonlySet<string> | null {
  const [query] = queries
  if (query === undefined || queries.length > 1 || query.fields === null || query.answer === 'deletion') return null
  const { properties } = query.record
  return new Set([...query.fields, ...Object.keys(isRecord(properties) ? properties : {})])
}

/** Table queries first, then document queries; each sees the results of those before it. */
function compileQueries (route: Route, pointer: string, context: RouteContext, texts: TemplateContext): RouteQuery[] {
  const compiled: RouteQuery[] = []
  const keys = new Set<string>()
  const templates: TemplateContext = { ...texts, overridableEnv: context.overridableEnv ?? none }
  const withheld = withheldBy(route, context.catalogue, templates)
  // The query string pages the route's list: of several queries no caller could say which one.
  const isOne = countQueries(route) === 1
  const first: QueryContext = {
    ...templates,
    results: none,
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
  const queryContext = () => keys.size === 0 ? first : { ...first, results: new Set(keys) }
  const take = (key: string | undefined, query: RouteQuery | null, at: string) => {
    if (query !== null) compiled.push(query)
    if (key === undefined || key.trim() === '') return
    // A query with faults has a result too: those that read it are not wrong.
    if (keys.has(key)) context.faults.add(at, `two queries answer under the name "${key}": give one of them an \`alias\``)
    keys.add(key)
  }
  for (const [index, query] of (route.queries ?? []).entries()) {
    const at = pointerTo(pointer, 'queries', index)
    take(resultKey(query), compileQuery(query, at, queryContext()), at)
  }
  for (const [index, query] of (route.firebaseQueries ?? []).entries()) {
    const at = pointerTo(pointer, 'firebaseQueries', index)
    // One without a collection has its fault already.
    const compiled = (query.collection ?? '').trim() === '' ? null : compileDocumentQuery(query, at, queryContext())
    take(resultKey(query), compiled, at)
  }
  return compiled
}

function copiesOf (
  { queries = [], firebaseQueries = [], response: configured }: Route,
  response: CompiledResponse | null,
  context: TemplateContext
): CompiledRoute['copies'] {
  const ofQueries = [...queries, ...firebaseQueries].map((query) => compileCopies(query, context))
  const ofResponse = response?.kind === 'mapping' ? compileCopies(configured, context) : null
  return ofResponse === null && ofQueries.every((check) => check === null)
    ? null
    : Object.freeze({ queries: Object.freeze(ofQueries), response: ofResponse })
}

const none: ReadonlySet<string> = new Set()
const noPaths: RowPaths = new Map()

/** The keys of secrets that stand for settings, and for nothing else. */
function optionalIn (references: readonly Reference[]): ReadonlySet<string> {
  const secrets = references.filter(({ source }) => source === 'secret')
  const keys = secrets.filter(({ setting }) => setting === true).map(({ path }) => String(path[0]))
  return keys.length === 0 ? none : new Set(keys.filter((key) => secrets.every(({ path, setting }) => path[0] !== key || setting === true)))
}

/** A kept answer would leave out what a call does. */
function checkCached ({ cache }: Route, integrations: readonly CompiledIntegration[], pointer: string, faults: FaultList): void {
  if (cache === undefined) return
  for (const [index, { call }] of integrations.entries()) {
    if (call.method !== 'GET') {
      faults.add(pointerTo(pointer, 'integrations', index), 'a route that is cached makes calls of the method GET only')
    }
  }
}

const creating: ReadonlySet<string> = new Set(['insert', 'upsert', 'create', 'add'])

/** An array is a body where a query creates a record of each of its items: one that writes the body as a whole, and not as one record. */
function takesArrays ({ queries = [], firebaseQueries = [] }: Route): boolean {
  return [...queries.filter(({ single }) => single !== true), ...firebaseQueries].some(({ operation, data }) =>
    creating.has(operation) && (data === undefined || (typeof data === 'string' && /^\{\{\s*body\s*\}\}$/.test(data)))
  )
}

/** A misspelt field would not be excluded. */
function checkExcluded ({ excludeFields = [] }: Route, queries: readonly RouteQuery[], pointer: string, faults: FaultList): void {
  if (queries.some(({ fields }) => fields === null)) return
  const known = new Set(queries.flatMap(({ fields }) => [...fields ?? []]))
  for (const [index, name] of excludeFields.entries()) {
    if (!known.has(name)) {
      faults.add(pointerTo(pointer, 'excludeFields', index), `no query of this route has a field "${name}"`, nearest(name, known))
    }
  }
}
