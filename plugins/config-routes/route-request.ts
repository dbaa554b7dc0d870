/** One request on a compiled route. Read from the top: `serve` begins, and the steps follow in their order. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RouteCall, RouteReply } from '../../lib/http/route-exchange.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { Scope } from '../../lib/expressions/types.js'
import type { SecretValues } from '../secrets/service.js'
import type { Guard } from './integrations.js'
import type { Origin, Serving } from './serving.js'
import { takesIdempotencyKey } from '../../lib/compiler/idempotency.js'
import { locationOf } from '../../lib/compiler/location.js'
import { tagOfBody, withTag } from '../../lib/http/entity-tags.js'
import { idempotencyKeyIn } from '../../lib/http/idempotency-key.js'
import { traceOf } from '../../lib/log/trace-context.js'
import { hasPermission, requirePermissions } from '../auth/access.js'
import { throughCache } from './cached.js'
import { withForm } from './forms.js'
import { withinLimit } from './limits.js'
import { sendMessage } from './message.js'
import { once, type Once } from './once.js'
import { guardingOf, type Guarding } from './precondition.js'
import { runRoute } from './run.js'
import { secretsFor } from './secrets.js'
import { runRouteWorkflow } from './workflow.js'
import { tenantOrNone, tenantOrPlatform } from '../../lib/identity/tenant-ref.js'

const contentType = 'application/json; charset=utf-8'

/**
 * A step that must undo its own work where a later one fails calls the next step: `receive` removes files, `claim` frees the
 * idempotency key, `limit` gives back the amount.
 */
export class RouteRequest<Request extends RouteCall = FastifyRequest, Reply extends RouteReply = FastifyReply> {
  readonly #route: CompiledRoute
  readonly #serving: Serving<Request, Reply>
  readonly #request: Request
  readonly #reply: Reply
  readonly #origin: Origin
  /** Set by `If-Match`. */
  #guarding: Guarding | undefined
  #guard: Guard | undefined
  /** Set by an idempotency key. */
  #once: Once | undefined

  constructor (route: CompiledRoute, serving: Serving<Request, Reply>, request: Request, reply: Reply, origin: Origin) {
    this.#route = route
    this.#serving = serving
    this.#request = request
    this.#reply = reply
    this.#origin = origin
  }

  /** Resolves with the body as JSON text, or with the reply where 304 was sent. Rejects with errors of the catalogue. */
  async serve (): Promise<string | Reply> {
    const { webhook } = this.#route
    if (webhook !== null) return this.#serving.inbound(webhook, this.#request, this.#reply, () => this.#handle())
    const body = await this.#handle()
    return isRead(this.#route) ? this.respond(body) : body
  }

  async #handle (): Promise<string> {
    this.validate()
    if (this.#route.permissions.length > 0) await this.authorize()
    return this.receive()
  }

  /** Throws `badRequest` for input that the route does not take. */
  validate (): void {
    // Validation converts the parameters. A precondition reads them as they were sent.
    this.#guarding = guardingOf(this.#route, this.#origin, this.#serving, this.#request)
    this.#route.request.validate(this.#request)
  }

  /** Throws `forbidden` for a caller without the permissions of the route. */
  async authorize (): Promise<void> {
    await requirePermissions(this.#request, this.#route.permissions)
  }

  /** Reads the files of a form. */
  receive (): Promise<string> {
    if (this.#route.files === null) return this.claim()
    return withForm(this.#route, this.#serving.files(), this.#request, () => this.claim())
  }

  /** Runs once for each idempotency key. A repeated request gets the first response. */
  claim (): Promise<string> {
    const { idempotency } = this.#serving
    const key = idempotency !== null && takesIdempotencyKey(this.#route) ? idempotencyKeyIn(this.#request.headers) : undefined
    if (idempotency === null || key === undefined) return this.resolve()
    // The status address of an asynchronous run holds a token.
    return once(idempotency, { key, encrypted: this.#route.workflow !== null }, this.#request, this.#reply, (once) => {
      this.#once = once
      this.#reply.code(this.#route.status).header('content-type', contentType)
      return this.resolve()
    })
  }

  /** Collects the values that templates and expressions read. */
  async resolve (): Promise<string> {
    const { webhooks, dashboardPermission } = this.#serving
    const secrets = await secretsFor(this.#route, this.#serving, this.#request)
    const fullAccess = await hasFullAccess(this.#request, dashboardPermission)
    const events = webhooks !== null && writes(this.#route) && await webhooks.hasSubscribers(tenantOrPlatform(this.#request.tenant))
    const scope = scopeOf(this.#request, fullAccess, secrets, events)
    this.#guard = await this.#guarding?.(scope)
    return events ? this.limit(scope).finally(webhooks?.wake) : this.limit(scope)
  }

  /** Throws `resourceLimit` where the caller's limit has no room. */
  limit (scope: Scope): Promise<string> {
    const { resourceLimit, status } = this.#route
    const { limits } = this.#serving
    this.#reply.code(status).header('content-type', contentType)
    if (resourceLimit === null || limits === null) return this.cache(scope)
    return withinLimit(resourceLimit, limits, this.#request, scope, () => this.cache(scope))
  }

  /** Answers from the cache where the route has one. Requests that miss at the same time share one execution. */
  cache (scope: Scope): Promise<string> {
    const { cache: settings, workflow } = this.#route
    const { cache } = this.#serving
    if (workflow !== null || settings === null || cache === null) return this.execute(scope)
    const { url } = this.#request
    const mark = url.indexOf('?')
    const target = { method: this.#route.method, path: mark < 0 ? url : url.slice(0, mark), query: mark < 0 ? '' : url.slice(mark + 1) }
    const item = {
      tenant: tenantOrPlatform(scope.tenant),
      key: this.#origin.generation + settings.key(scope, target),
      reads: this.#route.reads,
      ttlMs: settings.ttlMs
    }
    return throughCache(cache, this.#serving.loads, item, this.#reply, () => this.execute(scope))
  }

  /** Runs the workflow, or the queries and the calls to other services. */
  async execute (scope: Scope): Promise<string> {
    const { workflow, files, realtime } = this.#route
    const { engine, cache } = this.#serving
    const { log, receivedForm } = this.#request
    const form = files === null ? null : receivedForm
    if (workflow !== null) {
      if (form !== null) await engine.transaction({ tenant: tenantOrNone(scope.tenant) }, form.complete)
      return runRouteWorkflow(this.#route, workflow, this.#serving, this.#request, this.#reply, scope, this.#origin.placeOf)
    }
    const text = await runRoute(this.#route, this.#serving, cache, scope, {
      integrations: this.#serving.integrations,
      log,
      placeOf: this.#origin.placeOf,
      form,
      created: this.#route.location === null ? undefined : (record) => this.#locate(record),
      once: this.#once,
      guard: this.#guard
    })
    if (realtime !== null) sendMessage(realtime, scope, this.#serving.realtime(), log)
    return text
  }

  /** Sends 304 for a read that the caller has already. */
  respond (body: string): string | Reply {
    const { tenant = null, auth = null } = this.#request
    this.#reply.header('cache-control', tenant === null && auth === null ? 'no-cache' : 'private, no-cache')
    const tag = tagOfBody(body)
    return tag === undefined ? body : withTag(this.#request, this.#reply, tag, body)
  }

  #locate (record: string): void {
    const { location } = this.#route
    const path = location === null ? undefined : locationOf(location, record)
    if (path !== undefined) this.#reply.header('location', this.#serving.prefix + path)
  }
}

/** Only reads, so that its response may be kept by the caller and asked for with `If-None-Match`. */
function isRead (route: CompiledRoute): boolean {
  return route.method === 'GET' && route.workflow === null && !writes(route)
}

/** By its queries, or by the steps of its workflow. */
function writes ({ writes, workflow }: CompiledRoute): boolean {
  return writes.length > 0 || (workflow !== null && workflow.workflow.writes.length > 0)
}

function scopeOf (request: RouteCall, fullAccess: boolean, secrets: SecretValues, events: boolean): Scope {
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
function hasFullAccess (request: RouteCall, dashboardPermission: string | undefined): boolean | Promise<boolean> {
  const { auth, headers } = request
  if (auth === null || auth === undefined) return false
  if (auth.role === 'admin') return true
  if (auth.tenant_id === undefined || headers['x-tenant-id'] !== auth.tenant_id) return false
  return dashboardPermission === undefined || hasPermission(request, dashboardPermission)
}
