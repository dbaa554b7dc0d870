/** One request on a compiled route. Read from the top: `serve` begins, and the steps follow in order. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { locationOf } from '../compiler/location.js'
import type { CompiledRouteMessage } from '../compiler/realtime.js'
import { isLongValidation } from '../compiler/request.js'
import type { CompiledRoute } from '../compiler/route.js'
import { takesIdempotencyKey } from '../compiler/write-headers.js'
import { noScope } from '../expressions/no-scope.js'
import type { Scope } from '../expressions/types.js'
import { withIndexLink } from '../firestore/failures.js'
import { tagOfBody, withTag } from '../http/caching.js'
import { idempotencyHeader, idempotencyKeyIn } from '../http/idempotency-key.js'
import type { RouteReply } from '../http/route-reply.js'
import { isPlatformAdmin, noTenant, tenantOrPlatform } from '../identity/tenant-ref.js'
import { traceOf } from '../log/trace-context.js'
import { depthOf } from '../webhooks/depth.js'
import { throughCache } from './cached.js'
import { inTurn, unrefused } from './computing.js'
import { type Once, once } from './idempotency.js'
import { type CreateGuard, guardCreatorOf } from './precondition.js'
import type { RouteCall } from './route-call.js'
import { type Guard, runRoute } from './run.js'
import { secretsFor } from './secrets.js'
import type { Access, Origin, RouteServices } from './services.js'

const contentType = 'application/json; charset=utf-8'

/** A step that undoes its work after a failure calls the next step: `receive` removes files, `claim` frees the key, `limit` gives back. */
export class RouteRequest<Request extends RouteCall = FastifyRequest, Reply extends RouteReply = FastifyReply> {
  /** Set by `If-Match`. */
  #createGuard: CreateGuard | undefined
  #guard: Guard | undefined
  /** Set by an idempotency key. */
  #once: Once | undefined

  constructor (
    private readonly route: CompiledRoute,
    private readonly services: RouteServices<Request, Reply>,
    private readonly request: Request,
    private readonly reply: Reply,
    private readonly origin: Origin
  ) {}

  /** Resolves with the body as JSON text, or with the reply if 304 was sent. Rejects with errors of the error catalogue. */
  serve (): Promise<string | Reply> {
    const { webhook, isRead } = this.route
    if (webhook !== null) return this.services.inbound(webhook, this.request, this.reply, () => this.handle())
    return isRead ? this.handle().then((body) => this.respond(body)) : this.handle()
  }

  /** As `serve`, without the HTTP-only steps: signatures and 304. */
  async handle (): Promise<string> {
    if (isLongValidation(this.route.request, this.request)) await this.#inTurn(() => this.validate())
    else this.validate()
    if (this.route.permissions.length > 0) await this.authorize()
    return await this.receive()
  }

  /** Throws `badRequest` for invalid input. */
  validate (): void {
    // Validation converts the parameters, but a precondition needs them as sent.
    if (this.request.headers['if-match'] !== undefined) {
      this.#createGuard = guardCreatorOf(this.route, this.origin, this.services, this.request)
    }
    this.route.request.validate(this.request)
  }

  #inTurn (work: () => void): Promise<void> {
    return inTurn({ worker: this.request, length: 0, turns: unrefused }, work)
  }

  /** Throws `forbidden` for a caller without the route's permissions. */
  async authorize (): Promise<void> {
    await this.services.access.requirePermissions(this.request, this.route.permissions)
  }

  /** Reads the form of a route with files. Its fields become the body. Its files are removed if a later step fails. */
  receive (): Promise<string> {
    const { files } = this.route
    return files === null ? this.claim() : this.#receiveForm(files)
  }

  async #receiveForm (files: NonNullable<CompiledRoute['files']>): Promise<string> {
    const { validateForm } = this.route.request
    const forms = this.services.files()
    // The start of the server has checked the plugins that the route uses.
    if (forms === null) throw new Error('the plugin files is not registered')
    const validate = async (fields: Record<string, unknown>) => {
      if (isLongValidation(this.route.request, this.request)) await this.#inTurn(() => validateForm?.(fields))
      else validateForm?.(fields)
    }
    const form = await forms.receive(this.request, this.reply, { files, validate })
    this.request.receivedForm = form
    this.request.body = form.fields
    try {
      // The role's permissions may have changed while the form arrived.
      if (this.route.permissions.length > 0) await this.authorize()
      const body = await this.claim()
      await form.end()
      return body
    } catch (error) {
      await form.discard(error)
      throw error
    }
  }

  /** Runs once for each idempotency key. A repeated request gets the first response. */
  claim (): Promise<string> {
    const { idempotency } = this.services
    const { headers } = this.request
    if (headers[idempotencyHeader] === undefined || idempotency === null || !takesIdempotencyKey(this.route)) return this.resolve()
    const key = idempotencyKeyIn(headers)
    if (key === undefined) return this.resolve()
    // The status address of an asynchronous run contains a token.
    return once(idempotency, { key, encrypted: this.route.workflow !== null }, this.request, this.reply, (once) => {
      this.#once = once
      this.reply.code(this.route.status).header('content-type', contentType)
      return this.resolve()
    })
  }

  /** Collects the values that templates and expressions read. */
  async resolve (): Promise<string> {
    const { access, webhooks, dashboardPermission } = this.services
    const secrets = this.route.secrets.length === 0 ? noScope.secrets : await secretsFor(this.route, this.services, this.request)
    const full = callerHasFullAccess(this.request, dashboardPermission, access)
    const fullAccess = typeof full === 'boolean' ? full : await full
    const events = webhooks !== null && writes(this.route) && await webhooks.hasSubscribers(tenantOrPlatform(this.request.tenant))
    const scope = scopeOf(this.request, fullAccess, secrets, events)
    try {
      if (this.#createGuard !== undefined) this.#guard = await this.#createGuard(scope)
      return await (events ? this.limit(scope).finally(webhooks?.wake) : this.limit(scope))
    } catch (error) {
      // Callers that share a load share its error, too.
      throw scope.auth !== null && isPlatformAdmin(scope.auth) ? withIndexLink(error) : error
    }
  }

  /** Throws `resourceLimit` if the caller's limit is reached. Gives the amount back if a later step fails. */
  limit (scope: Scope): Promise<string> {
    const { resourceLimit, status } = this.route
    const { limits } = this.services
    this.reply.code(status).header('content-type', contentType)
    return resourceLimit === null || limits === null ? this.cache(scope) : this.#within(resourceLimit, limits, scope)
  }

  async #within (
    { resource, metric, amount }: NonNullable<CompiledRoute['resourceLimit']>,
    limits: NonNullable<RouteServices<Request, Reply>['limits']>,
    scope: Scope
  ): Promise<string> {
    const { give } = await limits.take(this.request, { resource, metric, amount: amount(scope) })
    try {
      return await this.cache(scope)
    } catch (error) {
      // The retry must find the amount free again.
      await give()
      throw error
    }
  }

  /** Answers from the cache if the route has one. Concurrent misses share one execution. */
  cache (scope: Scope): Promise<string> {
    const { cache: settings, workflow } = this.route
    const { cache } = this.services
    if (workflow !== null || settings === null || cache === null) return this.execute(scope)
    const { url } = this.request
    const mark = url.indexOf('?')
    const target = { method: this.route.method, path: mark < 0 ? url : url.slice(0, mark), query: mark < 0 ? '' : url.slice(mark + 1) }
    const item = {
      tenant: tenantOrPlatform(scope.tenant),
      key: this.origin.generation + settings.key(scope, target),
      reads: this.route.reads,
      ttlMs: settings.ttlMs
    }
    return throughCache(cache, this.services.loads, item, this.reply, () => this.execute(scope, true))
  }

  /** Runs the workflow, or the queries and the calls to other services. `isShared`: other requests may wait for the same response. */
  execute (scope: Scope, isShared = false): Promise<string> {
    const { workflow, files, realtime, location } = this.route
    const { engine } = this.services
    const { log, receivedForm } = this.request
    const form = files === null ? null : receivedForm
    if (workflow !== null) return this.#runWorkflow(workflow, form, scope)
    const held = keepsResults(this.route) ? engine.resultMemory.hold(scope.tenant?.id ?? noTenant) : undefined
    const body = runRoute(this.route, this.services, scope, {
      integrations: this.services.integrations,
      log,
      placeOf: this.origin.placeOf,
      form,
      isWanted: isShared ? undefined : () => !this.reply.raw.destroyed,
      created: location === null ? undefined : (record) => this.#locate(record),
      once: this.#once,
      guard: this.#guard,
      held
    })
    if (held !== undefined) body.then(held.release, held.release)
    return realtime === null ? body : body.then((text) => this.#sent(realtime, scope, text))
  }

  async #runWorkflow (workflow: NonNullable<CompiledRoute['workflow']>, form: RouteCall['receivedForm'], scope: Scope): Promise<string> {
    const { route, request, reply, origin: { placeOf } } = this
    if (form !== null) await this.services.engine.transaction({ tenant: scope.tenant?.id ?? noTenant }, form.complete)
    return this.services.runWorkflow(workflow, { route, request, reply, scope, placeOf, claim: this.#once?.claim })
  }

  /** Sends 304 if the caller already has the current version. */
  respond (body: string): string | Reply {
    const { tenant = null, auth = null } = this.request
    this.reply.header('cache-control', tenant === null && auth === null ? 'no-cache' : 'private, no-cache')
    const tag = tagOfBody(body)
    return tag === undefined ? body : withTag(this.request, this.reply, tag, body)
  }

  /** Sends the message and returns the body. The route's writes have committed, so an unsent message does not fail the request. */
  async #sent ({ make, pointer }: CompiledRouteMessage, scope: Scope, body: string): Promise<string> {
    const { tenant } = scope
    const rooms = this.services.realtime()
    if (tenant === null || rooms === null) return body
    try {
      await rooms.publish(tenant, make(scope))
    } catch (err) {
      // The caller chooses the values of the room and the data.
      const level = this.services.warned.levelOf(tenant.id, 'message', this.origin.placeOf(pointer))
      this.request.log[level]({ err, tenant: tenant.id }, 'the message of a route to a room was not sent')
    }
    return body
  }

  #locate (record: string): void {
    const { location } = this.route
    const path = location === null ? undefined : locationOf(location, record)
    if (path !== undefined) this.reply.header('location', this.services.prefix + path)
  }
}

/** Whether its queries or the steps of its workflow change rows or documents, of which webhooks tell. */
function writes ({ writes, workflow }: CompiledRoute): boolean {
  return writes.length > 0 || (workflow !== null && workflow.workflow.writes.length > 0)
}

/** Whether results wait for a further query or call. Those of a write or a call also wait for the turn that makes the body. */
function keepsResults ({ queries, integrations, write, transform, response }: CompiledRoute): boolean {
  return queries.length > 1 || integrations.length > 0 || (write && (transform !== null || response !== null))
}

function scopeOf (request: RouteCall, fullAccess: boolean, secrets: Scope['secrets'], events: boolean): Scope {
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
    // Only webhook routes read it.
    payload: request.body,
    trace: request.headers['traceparent'] === undefined ? null : traceOf(request.headers),
    depth: request.signed === true ? depthOf(request.headers) : 0,
    ip: request.tenant?.id === undefined ? request.ip : undefined
  }
}

/**
 * Whether the caller can read and write excluded fields: administrators, and a tenant's own callers that name their tenant by header. The
 * latter must also hold the permission, if it is set (`tenancy.dashboardPermission`).
 */
export function callerHasFullAccess (
  request: RouteCall,
  dashboardPermission: string | undefined,
  access: Pick<Access, 'hasPermission'>
): boolean | Promise<boolean> {
  const { auth, headers } = request
  // Undefined without the plugin auth.
  if (auth === null || auth === undefined) return false
  if (auth.role === 'admin') return true
  if (auth.tenant_id === undefined || headers['x-tenant-id'] !== auth.tenant_id) return false
  return dashboardPermission === undefined || access.hasPermission(request, dashboardPermission)
}
