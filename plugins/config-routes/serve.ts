/** Serves one request on a compiled route: validation, permissions, limits, cache, statements, calls, body. */
import type {} from '../idempotency/index.js'
import type {} from '../resource-limits/index.js'
import type {} from '../realtime/types.js'
import type {} from '../secrets/index.js'
import type {} from '../webhooks/index.js'
import type {} from '../workflows/index.js'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { CompiledCache } from '../../lib/compiler/route-cache.js'
import type { Scope } from '../../lib/expressions/types.js'
import type { Engine } from '../../lib/database/engine.js'
import type { DocumentStore } from '../../lib/firestore/types.js'
import type { PlaceOf } from '../../lib/expressions/fault-log.js'
import type { CacheStore } from '../cache/store.js'
import type { RouteFiles } from '../files/declared.js'
import type { Idempotency } from '../idempotency/service.js'
import type { ResourceLimits } from '../resource-limits/service.js'
import type { SecretValues } from '../secrets/service.js'
import type { Realtime } from '../realtime/types.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import type { Receipts } from './receipts.js'
import { takesIdempotencyKey } from '../../lib/compiler/idempotency.js'
import { locationOf, type RecordLocation } from '../../lib/compiler/location.js'
import { tagOfBody, withTag } from '../../lib/http/entity-tags.js'
import { idempotencyKeyIn } from '../../lib/http/idempotency-key.js'
import { traceOf } from '../../lib/log/trace-context.js'
import { optional } from '../../lib/plugin/optional.js'
import { holds, requirePermissions } from '../auth/access.js'
import { createInbound, type Inbound } from './inbound.js'
import { withForm } from './forms.js'
import type { Caller } from './integrations.js'
import { withinLimit } from './limits.js'
import { sendMessage } from './message.js'
import { once, type Once } from './once.js'
import { guardingOf, type Guarding } from './precondition.js'
import { runRoute } from './run.js'
import { createWarned, secretsFor, type SecretSource } from './secrets.js'
import { answerOfWorkflow, type WorkflowServing } from './workflow.js'

const contentType = 'application/json; charset=utf-8'

/** What serving needs besides the route. */
export interface Serving extends SecretSource, WorkflowServing {
  readonly engine: Engine
  /** null where there is no Firestore, as no route then uses it. */
  readonly firestore: DocumentStore | null
  /** null where the plugin is not registered, as no route then is cached. */
  readonly cache: CacheStore | null
  /** Bodies that are being made of cached routes. Every one of them has a request that waits for it. */
  readonly loads: Map<string, Promise<string>>
  /** null where the plugin is not registered: no tenant then has limits. */
  readonly limits: ResourceLimits | null
  /** null if the plugin is off: writes then have no events. */
  readonly webhooks: Pick<Webhooks, 'hears' | 'wake'> | null
  /** A permission that a tenant's own callers must hold to bypass field exclusion by naming their tenant in X-Tenant-ID. */
  readonly dashboardPermission: string | undefined
  /** null where the plugin is not registered: idempotency keys then have no effect. */
  readonly idempotency: Idempotency | null
  /** null where the plugin is not registered, as no route then takes forms. */
  readonly files: () => RouteFiles | null
  /** null where the plugin is not registered, as no route then sends messages. */
  readonly realtime: () => Realtime | null
  /** Verifies what other services send. */
  readonly inbound: Inbound
  /** What stands before the paths of the document. */
  readonly prefix: string
}

export interface ServingOptions {
  readonly dashboardPermission: string | undefined
  readonly overridableEnv?: readonly string[]
  /** The setting APP_URL: the address that callers see. Default: the one that a request names. */
  readonly appUrl: string | undefined
  readonly receipts: Receipts
  readonly prefix: string
}

/** What the plugins of an app give to its routes. */
export function servingOf (
  app: FastifyInstance,
  { dashboardPermission, overridableEnv = [], appUrl = '', receipts, prefix }: ServingOptions
): Serving {
  const secrets = optional(app, 'secrets')()
  const warned = createWarned()
  return {
    engine: app.engine,
    firestore: app.firestore,
    cache: optional(app, 'cache')(),
    loads: new Map(),
    limits: optional(app, 'resourceLimits')(),
    integrations: optional(app, 'integrations'),
    workflows: optional(app, 'workflows')(),
    secrets,
    overridableEnv: new Set(overridableEnv),
    warned,
    webhooks: optional(app, 'webhooks')(),
    dashboardPermission,
    idempotency: optional(app, 'idempotency')(),
    files: optional(app, 'routeFiles'),
    realtime: optional(app, 'realtime'),
    prefix,
    inbound: createInbound(app, { secrets, appUrl: appUrl.trim().replace(/\/+$/, ''), warned, receipts })
  }
}

/** The document that a route stands in. */
export interface Origin {
  /** Keeps the cached answers of two versions of a document apart. */
  readonly generation: string
  /** Places in the document: what is compiled of a tenant's route may be shared, and has places within the route. */
  readonly placeOf: PlaceOf
  /** The `GET` route on the path of the route, which shows the versions of what the route changes; null without one. */
  readOnPath(): CompiledRoute | null
}

/** What of a request its transaction heeds. */
type Terms = Pick<Caller, 'once' | 'guard'>

/** Answers the request with the body as JSON text; or has sent 304 for a read that the caller has already. */
export function serveRoute (
  route: CompiledRoute,
  serving: Serving,
  request: FastifyRequest,
  reply: FastifyReply,
  origin: Origin
): Promise<string | FastifyReply> {
  if (route.webhook !== null) return serving.inbound(route.webhook, request, reply, () => serve(route, serving, request, reply, origin))
  return isRead(route) ? serveRead(route, serving, request, reply, origin) : serve(route, serving, request, reply, origin)
}

async function serve (
  route: CompiledRoute,
  serving: Serving,
  request: FastifyRequest,
  reply: FastifyReply,
  origin: Origin
): Promise<string> {
  const guarding = guardingOf(route, origin, serving, request)
  route.request.validate(request)
  const permitted = route.permissions.length > 0 ? requirePermissions(request, route.permissions) : undefined
  if (permitted !== undefined) await permitted
  if (route.files !== null) return withForm(route, serving.files(), request, () => keyed(route, serving, request, reply, origin, guarding))
  return keyed(route, serving, request, reply, origin, guarding)
}

/** Once for each idempotency key. */
async function keyed (
  route: CompiledRoute,
  serving: Serving,
  request: FastifyRequest,
  reply: FastifyReply,
  origin: Origin,
  guarding: Guarding | undefined
): Promise<string> {
  const { idempotency } = serving
  const key = idempotency !== null && takesIdempotencyKey(route) ? idempotencyKeyIn(request.headers) : undefined
  if (idempotency === null || key === undefined) return scoped(route, serving, request, reply, origin, guarding)
  // The address of a run's status holds a token.
  return once(idempotency, { key, encrypted: route.workflow !== null }, request, reply, (once) => {
    reply.code(route.status).header('content-type', contentType)
    return scoped(route, serving, request, reply, origin, undefined, once)
  })
}

async function scoped (
  route: CompiledRoute,
  serving: Serving,
  request: FastifyRequest,
  reply: FastifyReply,
  origin: Origin,
  guarding: Guarding | undefined,
  once?: Once
): Promise<string> {
  const secrets = secretsFor(route, serving, request)
  const fullAccess = hasFullAccess(request, serving.dashboardPermission)
  // Most routes write nothing that anybody hears of: they wait for nothing here.
  const events = writes(route) && serving.webhooks !== null && serving.webhooks.hears(request.tenant?.id ?? '')
  const scope = scopeOf(
    request,
    fullAccess instanceof Promise ? await fullAccess : fullAccess,
    secrets instanceof Promise ? await secrets : secrets,
    events instanceof Promise ? await events : events
  )
  const terms: Terms = { once, guard: guarding === undefined ? undefined : await guarding(scope) }
  if (scope.events === true) return limited(route, serving, request, reply, scope, origin, terms).finally(serving.webhooks?.wake)
  return limited(route, serving, request, reply, scope, origin, terms)
}

/** What it answers may be kept by its caller, to be asked for with `If-None-Match`. */
function isRead (route: CompiledRoute): boolean {
  return route.method === 'GET' && route.workflow === null && !writes(route)
}

async function serveRead (
  route: CompiledRoute,
  serving: Serving,
  request: FastifyRequest,
  reply: FastifyReply,
  origin: Origin
): Promise<string | FastifyReply> {
  const body = await serve(route, serving, request, reply, origin)
  const { tenant = null, auth = null } = request
  reply.header('cache-control', tenant === null && auth === null ? 'no-cache' : 'private, no-cache')
  const tag = tagOfBody(body)
  return tag === undefined ? body : withTag(request, reply, tag, body)
}

/** By its queries, or by the steps of its workflow. */
function writes ({ writes, workflow }: CompiledRoute): boolean {
  return writes.length > 0 || (workflow !== null && workflow.workflow.writes.length > 0)
}

/** Within the limit of the caller's user, where the route has one. */
function limited (
  route: CompiledRoute,
  serving: Serving,
  request: FastifyRequest,
  reply: FastifyReply,
  scope: Scope,
  origin: Origin,
  terms: Terms
): Promise<string> {
  reply.code(route.status).header('content-type', contentType)
  if (route.resourceLimit === null || serving.limits === null) return answer(route, serving, request, reply, scope, origin, terms)
  return withinLimit(
    route.resourceLimit,
    serving.limits,
    request,
    scope,
    () => answer(route, serving, request, reply, scope, origin, terms)
  )
}

/** What the statements give, or was cached of them. */
function answer (
  route: CompiledRoute,
  serving: Serving,
  request: FastifyRequest,
  reply: FastifyReply,
  scope: Scope,
  origin: Origin,
  terms: Terms
): Promise<string> {
  const { engine, firestore, cache, loads, integrations } = serving
  const form = route.files === null ? null : request.receivedForm
  if (route.workflow !== null) {
    const run = () => answerOfWorkflow(route, workflow, serving, request, reply, scope, origin.placeOf)
    const { workflow } = route
    return form === null ? run() : engine.transaction({ tenantId: scope.tenant?.id ?? null }, form.complete).then(run)
  }
  if (route.cache === null || cache === null) {
    const created = route.location === null ? undefined : locate(route.location, serving.prefix, reply)
    const body = runRoute(route, { engine, firestore }, cache, scope, {
      integrations,
      log: request.log,
      placeOf: origin.placeOf,
      form,
      created,
      ...terms
    })
    const { realtime } = route
    return realtime === null
      ? body
      : body.then((text) => {
        sendMessage(realtime, scope, serving.realtime(), request.log)
        return text
      })
  }
  return cachedAnswer(route, route.cache, { engine, firestore, cache, loads, integrations }, request, reply, scope, origin)
}

function locate (location: RecordLocation, prefix: string, reply: FastifyReply): (record: string) => void {
  return (record) => {
    const path = locationOf(location, record)
    if (path !== undefined) reply.header('location', prefix + path)
  }
}

type Cached = Pick<Serving, 'engine' | 'firestore' | 'loads' | 'integrations'> & { readonly cache: CacheStore }

async function cachedAnswer (
  route: CompiledRoute,
  { key: keyOf, ttlMs }: CompiledCache,
  { engine, firestore, cache, loads, integrations }: Cached,
  request: FastifyRequest,
  reply: FastifyReply,
  scope: Scope,
  origin: Origin
): Promise<string> {
  const { url } = request
  const mark = url.indexOf('?')
  const target = { method: route.method, path: mark < 0 ? url : url.slice(0, mark), query: mark < 0 ? '' : url.slice(mark + 1) }
  const key = origin.generation + keyOf(scope, target)
  const tenant = scope.tenant?.id ?? ''
  const looked = cache.get(tenant, key, route.reads)
  const found = looked instanceof Promise ? await looked : looked
  if (typeof found === 'string') {
    reply.header('x-cache', 'HIT')
    return found
  }
  reply.header('x-cache', 'MISS')
  const { stamp } = found
  // A request after a write has another stamp, and never joins work that began before it.
  const id = `${tenant}:${stamp} ${key}`
  const known = loads.get(id)
  if (known !== undefined) return known
  const body = runRoute(route, { engine, firestore }, cache, scope, { integrations, log: request.log, placeOf: origin.placeOf })
  loads.set(id, body)
  // The response does not wait until it is kept. Until then, requests share it.
  const end = () => {
    loads.delete(id)
  }
  body.then((text) => cache.set(tenant, key, text, ttlMs, stamp)).then(end, end)
  return body
}

function scopeOf (request: FastifyRequest, fullAccess: boolean, secrets: SecretValues, events: boolean): Scope {
  return {
    body: request.body,
    params: Object(request.params),
    query: Object(request.query),
    headers: request.headers,
    auth: request.auth ?? null,
    tenant: request.tenant ?? null,
    secrets,
    results: {},
    files: request.receivedForm?.files,
    fullAccess,
    events,
    // Only routes that are webhooks read it.
    payload: request.body,
    trace: traceOf(request.headers)
  }
}

/** Callers who see excluded fields: administrators, and a tenant's own callers that name their tenant by header. */
function hasFullAccess (request: FastifyRequest, dashboardPermission: string | undefined): boolean | Promise<boolean> {
  const { auth, headers } = request
  if (auth === null || auth === undefined) return false
  if (auth.role === 'admin') return true
  if (auth.tenant_id === undefined || headers['x-tenant-id'] !== auth.tenant_id) return false
  return dashboardPermission === undefined || holds(request, dashboardPermission)
}
