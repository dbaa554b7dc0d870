/** Compiles one declared route into plain frozen data and functions, independent of Fastify. plugins/config-routes mounts it. */
import type { TableUse } from '../cache/store.js'
import { faultsOfRoute } from '../document/webhook-routes.js'
import { compileExpansionGuard, type ExpansionGuard } from '../expressions/expansion-guard.js'
import { unknownResult } from '../expressions/known-members.js'
import { optionalSecretsOf, secretKeysOf, type TemplateContext } from '../expressions/reference.js'
import { PartUses } from '../expressions/secret-uses.js'
import type { Reference } from '../expressions/types.js'
import type { RouteQuery } from '../queries/compiled-query.js'
import { faultOfExcluded } from '../queries/document-parts.js'
import { unique } from '../queries/table-use.js'
import { checkBounds, withBoundedFaults } from '../queries/tenant-limits.js'
import { type FaultList, nearest, pointerTo } from '../schema/faults.js'
import type { RouteRateLimit } from '../schema/limits.js'
import type { Route } from '../schema/route.js'
import { type CompiledFile, compileFiles } from './files.js'
import { type CompiledIntegration, compileIntegrations, integrationKeys } from './integrations.js'
import { compileLocation, type RecordLocation, type RowPaths } from './location.js'
import { compileQueries, countQueries, resultOf, withComputed, withExcluded } from './queries.js'
import { type CompiledRouteMessage, compileRouteMessage } from './realtime.js'
import { type CompiledRequest, compileRequest, type RequestRoute } from './request.js'
import { type CompiledResourceLimit, compileResourceLimit } from './resource-limit.js'
import { type CompiledResponse, compileResponse } from './response.js'
import { checkCursorMembers, checkPromises } from './result-schema.js'
import { compileCache, type CompiledCache } from './route-cache.js'
import type { RouteContext } from './route-context.js'
import { formFilesOf, type Method, methodOf, pathParameters, requestRulesOf, sourcesOf } from './route-parts.js'
import { checkRouteRules, checkStores, type FirestoreUse, firestoreUse } from './route-rules.js'
import { type CompiledTransform, compileTransform } from './transform.js'
import { type CompiledWebhook, compileWebhook } from './webhook.js'
import {
  type CompiledRouteWorkflow, compileRouteWorkflow, readableBy, responseContextOf, workflowReferences
} from './workflow.js'

/** A compiled route. It serves its own path and every other path with the same `compiledParts`. */
export interface CompiledRoute {
  readonly method: Method
  readonly requireAuth: boolean
  /** The issuer of accepted tokens: `jwt` for the server's own, or the name of an identity provider. */
  readonly authProvider: string
  /** A caller without a token may name the tenant by header. */
  readonly publicTenant: boolean
  readonly permissions: readonly string[]
  readonly rateLimit: RouteRateLimit | null
  /** The amount of a limited resource that a request uses. */
  readonly resourceLimit: CompiledResourceLimit | null
  /** Set if another service calls the route and signs its requests; otherwise null. */
  readonly webhook: CompiledWebhook | null
  readonly request: CompiledRequest
  /** The files of its form body; null for a JSON body. */
  readonly files: readonly CompiledFile[] | null
  readonly cache: CompiledCache | null
  readonly queries: readonly RouteQuery[]
  /** Calls to other services, run in order after the queries have committed. */
  readonly integrations: readonly CompiledIntegration[]
  /** The message to a room after success; usually null. */
  readonly realtime: CompiledRouteMessage | null
  /** The workflow that runs instead of queries; usually null. */
  readonly workflow: CompiledRouteWorkflow | null
  /** The keys of the secrets that the route can read, without duplicates. They are loaded before a query is bound. */
  readonly secrets: readonly string[]
  /** Secrets that override a setting. The setting serves if such a secret is missing. */
  readonly optionalSecrets: ReadonlySet<string>
  /** A query reads or writes a tenant-scoped table. */
  readonly tenantScoped: boolean
  /** The tables that its queries read and write, each table once. */
  readonly reads: readonly TableUse[]
  readonly writes: readonly TableUse[]
  /** A query writes, if only through a function that is declared without tables. */
  readonly write: boolean
  /** Callers may cache its response and revalidate it with `If-None-Match`: a `GET` that changes nothing. */
  readonly isRead: boolean
  /** Set if there are several queries and one of them writes: all of them run in one transaction. */
  readonly transaction: boolean
  readonly firestore: FirestoreUse
  /** Members of the query string, and headers, that templates and expressions read. */
  readonly readsQuery: readonly string[]
  readonly readsHeaders: readonly string[]
  /** Members of the body that they read; null: the body as a whole. */
  readonly readsBody: readonly string[] | null
  /** Set if a later query, the transform or the response reads `results`: the texts of queries are then parsed. */
  readonly readsResults: boolean
  /** 202 if the response is sent before the work is done. */
  readonly status: 200 | 201 | 202
  readonly transform: CompiledTransform | null
  readonly response: CompiledResponse | null
  /** The path that reads the created record, if the document has such a route; usually null. */
  readonly location: RecordLocation | null
  /** Limits on the values that templates copy, for each query and the response, checked before evaluation; null if no check is needed. */
  readonly expansionGuards: { readonly queries: readonly (ExpansionGuard | null)[], readonly response: ExpansionGuard | null } | null
}

/** Compiles a route; null after faults, or if a partial catalogue lacks its tables. Reports at most 50 faults of a tenant's route. */
export function compileRoute (route: Route, pointer: string, context: RouteContext): CompiledRoute | null {
  const placed = faultsOfRoute(pointer, context.faults)
  if (context.origin === 'platform') {
    return compileWhole(route, pointer, placed === context.faults ? context : { ...context, faults: placed })
  }
  if (context.checked !== true && !checkBounds(route, pointer, placed)) return null
  return withBoundedFaults(placed, (faults) => compileWhole(route, pointer, { ...context, faults }))
}

function compileWhole (route: Route, pointer: string, context: RouteContext): CompiledRoute | null {
  const before = context.faults.faults.length
  const parts = compileParts(route, pointer, context)
  const { isComplete, workflow } = parts
  if (context.faults.faults.length > before || !isComplete || (workflow === null && route.workflow !== undefined)) return null
  return freezeRoute(route, parts, context)
}

/** Compiles all parts, also after faults, so that all of them are reported. `isComplete`: all queries were compiled. */
function compileParts (route: Route, pointer: string, context: RouteContext) {
  const { faults } = context
  const before = faults.faults.length
  if (context.checked !== true) checkRouteRules(route, pointer, faults)
  const params = pathParameters(route.path)
  const files = compileFiles(route, pointer, context.fileRules, faults)
  const ofPart = context.secretUses?.of(pointer)
  const uses = new PartUses(ofPart)
  const texts = templateContextOf(route, params, context, uses)
  const { queries, results } = compileQueries(route, pointer, context, texts)
  const isComplete = queries.length === countQueries(route)
  const isSound = () => isComplete && faults.faults.length === before
  if (isSound()) checkExcluded(route, queries, pointer, faults)
  checkStores(queries, pointer, faults)
  const values = {
    ...texts,
    results: new Map([...results, ...integrationKeys(route.integrations ?? [], results.keys()).map((key) => [key, unknownResult] as const)])
  } satisfies TemplateContext
  const started = compileRouteWorkflow(route, pointer, context, values)
  const request = compileRequest(route.request, `${pointer}/request`, faults, requestRouteOf(route, params, queries, context))
  const responseContext = withExcluded(responseContextOf(values, route, started))
  const transform = compileTransform(route.transform, `${pointer}/transform`, responseContext, resultOf(route, queries, isComplete))
  const response = compileResponse(route.response, `${pointer}/response`, withComputed(responseContext, route))
  if (isSound()) checkCursorMembers({ queries, transform, response }, pointer, faults)
  const settings = { ...values, overridableEnv: context.overridableEnv ?? none }
  const integrations = compileIntegrations(route.integrations ?? [], `${pointer}/integrations`, results, context.connectors, settings)
  const realtime = compileRouteMessage(route, pointer, values, context.messages)
  if (isSound() && route.workflow === undefined) checkPromises({ queries, transform, response }, `${pointer}/response`, faults)
  const references = [
    ...queries.flatMap((query) => query.references),
    ...integrations.flatMap((integration) => integration.references),
    ...realtime?.references ?? [],
    ...transform?.references ?? [],
    ...response?.kind === 'mapping' ? response.value.references : []
  ]
  const workflow = readableBy(references, started)
  references.push(...workflowReferences(workflow))
  checkCached(route, integrations, pointer, faults)
  const cache = compileCache(route, { references, integrations }, pointer, context, values)
  const resourceLimit = compileResourceLimit(route, pointer, values)
  const webhook = compileWebhook(route, pointer, { ...settings, uses: ofPart })
  return {
    isComplete,
    files,
    queries,
    request,
    responseContext,
    transform,
    response,
    integrations,
    realtime,
    references,
    workflow,
    cache,
    resourceLimit,
    webhook,
    secretKeys: uses.keys
  }
}

function freezeRoute (route: Route, parts: ReturnType<typeof compileParts>, { rowPaths = noPaths }: RouteContext): CompiledRoute {
  const { queries, response, references, workflow } = parts
  const method = methodOf(route)
  const write = queries.some((query) => query.write)
  return Object.freeze({
    method,
    requireAuth: route.requireAuth ?? (route.requiredPermissions?.length ?? 0) > 0,
    authProvider: route.authProvider ?? 'jwt',
    publicTenant: route.public ?? true,
    permissions: Object.freeze([...route.requiredPermissions ?? []]),
    rateLimit: route.rateLimit ?? null,
    resourceLimit: parts.resourceLimit,
    webhook: parts.webhook,
    request: parts.request,
    files: parts.files,
    cache: parts.cache,
    queries: Object.freeze(queries),
    integrations: Object.freeze(parts.integrations),
    realtime: parts.realtime,
    workflow,
    secrets: Object.freeze([...new Set([...secretKeysOf(references), ...parts.secretKeys])]),
    optionalSecrets: optionalSecretsOf(references),
    tenantScoped: queries.some((query) => query.tenantScoped) || workflow?.workflow.tenantScoped === true,
    reads: unique(queries.flatMap((query) => query.reads)),
    writes: unique(queries.flatMap((query) => query.writes)),
    write,
    isRead: method === 'GET' && workflow === null && !write,
    transaction: queries.length > 1 && write,
    firestore: firestoreUse(queries),
    readsQuery: namesRead(references, 'query'),
    readsHeaders: namesRead(references, 'headers'),
    readsBody: bodyMembersIn(references, workflow),
    readsResults: response?.kind === 'mapping' || references.some((reference) => reference.source === 'results'),
    status: statusOf(queries, workflow),
    transform: parts.transform,
    response,
    location: compileLocation(route, queries, response, rowPaths),
    expansionGuards: expansionGuardsOf(route, response, parts.responseContext)
  })
}

/** The status of a single query counts. With several, the response is their results. */
function statusOf ([query, ...others]: readonly RouteQuery[], workflow: CompiledRouteWorkflow | null): CompiledRoute['status'] {
  if (workflow?.async === true) return 202
  return query !== undefined && others.length === 0 ? query.status : 200
}

/** The context of templates before the queries: they read the request only. */
function templateContextOf (route: Route, params: readonly string[], { faults, env, envNames, origin }: RouteContext, uses: PartUses) {
  return {
    faults,
    sources: sourcesOf(route),
    env,
    envNames,
    params: new Set(params),
    files: new Set(Object.keys(formFilesOf(route))),
    rules: requestRulesOf(route),
    ofTenant: origin === 'tenant',
    uses
  } satisfies TemplateContext
}

/** The properties of the route that its request rules depend on. */
function requestRouteOf (route: Route, params: readonly string[], queries: readonly RouteQuery[], { origin }: RouteContext): RequestRoute {
  return {
    params,
    paginated: countQueries(route) === 1 && queries.some((query) => query.resultKind === 'page'),
    parameters: Object.assign({}, ...queries.map((query) => query.parameters)),
    hardDelete: route.softDelete?.allowHardDelete === true,
    ofTenant: origin === 'tenant',
    bulk: takesArrays(route),
    form: route.multipart === true
  }
}

/** The members of a part of the request that templates and expressions name. */
function namesRead (references: readonly Reference[], part: 'query' | 'headers'): readonly string[] {
  const names = references.flatMap(({ source, path: [name] }) => source === part && name !== undefined ? String(name) : [])
  return Object.freeze([...new Set(names)])
}

function expansionGuardsOf (
  { queries = [], firebaseQueries = [], response: configured }: Route,
  response: CompiledResponse | null,
  context: TemplateContext
): CompiledRoute['expansionGuards'] {
  const ofQueries = [...queries, ...firebaseQueries].map((query) => compileExpansionGuard(query, context))
  const ofResponse = response?.kind === 'mapping' ? compileExpansionGuard(configured, context) : null
  return ofResponse === null && ofQueries.every((check) => check === null)
    ? null
    : Object.freeze({ queries: Object.freeze(ofQueries), response: ofResponse })
}

/** A workflow without `input` gets the body as its input. */
function bodyMembersIn (references: readonly Reference[], workflow: CompiledRouteWorkflow | null): CompiledRoute['readsBody'] {
  const names = references.filter(({ source }) => source === 'body' || (source === 'input' && workflow?.input === null))
    .map(({ path: [name] }) => name)
  return names.every((name) => typeof name === 'string') ? Object.freeze([...new Set(names)]) : null
}

const none: ReadonlySet<string> = new Set()
const noPaths: RowPaths = new Map()

/** A cached response would skip the calls. */
function checkCached ({ cache }: Route, integrations: readonly CompiledIntegration[], pointer: string, faults: FaultList): void {
  if (cache === undefined) return
  for (const [index, { call }] of integrations.entries()) {
    if (call.method !== 'GET') {
      faults.add(pointerTo(pointer, 'integrations', index), 'a cached route can only make calls with the method GET')
    }
  }
}

const creating: ReadonlySet<string> = new Set(['insert', 'upsert', 'create', 'add'])

/** Whether the body may be an array: a query must write the whole body, and create one record for each item. */
function takesArrays ({ queries = [], firebaseQueries = [] }: Route): boolean {
  return [...queries.filter(({ single }) => single !== true), ...firebaseQueries].some(({ operation, data }) =>
    creating.has(operation) && (data === undefined || (typeof data === 'string' && /^\{\{\s*body\s*\}\}$/.test(data)))
  )
}

/** Without this check, a misspelled field would not be excluded. */
function checkExcluded ({ excludeFields = [] }: Route, queries: readonly RouteQuery[], pointer: string, faults: FaultList): void {
  if (excludeFields.length === 0) return
  const known = new Set(queries.flatMap(({ fields }) => [...fields ?? []]))
  const hasDocuments = queries.some(({ fields }) => fields === null)
  for (const [index, name] of excludeFields.entries()) {
    if (known.has(name)) continue
    const at = pointerTo(pointer, 'excludeFields', index)
    const fault = faultOfExcluded(name)
    if (!hasDocuments) faults.add(at, `no query of this route has a field "${name}"`, nearest(name, known))
    else if (fault !== undefined) faults.add(at, fault)
  }
}
