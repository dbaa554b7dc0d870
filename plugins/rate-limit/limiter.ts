/** Counts a request, writes the `X-RateLimit-*` headers, and refuses it beyond the limit. */
import { STATUS_CODES } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest, onSendHookHandler, RouteOptions } from 'fastify'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { catalogue, retryIn, TenantryError } from '../../lib/errors.js'
import { addressKey } from '../../lib/http/account.js'
import { type Owner, type TenantId, tenantIdOf } from '../../lib/identity/tenant-ref.js'
import { type Plans, unlimited } from '../../lib/plans/plans.js'
import { addStep } from '../../lib/plugin/pipeline.js'
import type { Tenant } from '../tenancy/tenant.js'
import { callerLimits } from './caller-limits.js'
import { createRefusalPace } from './refusal-pace.js'
import { createLimit, type Limit } from './rules.js'
import type { ClientKind, LimitResult, RateLimitStore } from './store.js'
import type { CountedCall, CountedReply, RateLimiter, RouteLimiter } from './types.js'

const planWindow = 60_000 // ms: plans limit requests per minute

export interface LimiterOptions {
  readonly store: RateLimitStore
  /** Read once the server is ready. null: plans have no limits. */
  readonly plans: () => Plans | null
  /** Whether a gateway names the tenant of requests whose token has none. */
  readonly trustsHeader: () => boolean
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
}

export function createLimiter ({ store, plans, trustsHeader, now }: LimiterOptions): RouteLimiter {
  let ceilings: Ceilings | undefined
  const pace = createRefusalPace()

  function tenantOf (request: Pick<CountedCall, 'auth'> & { readonly tenant: { readonly id: TenantId } | null }): TenantId | undefined {
    const named = request.auth?.tenant_id
    return named === undefined ? (trustsHeader() ? request.tenant?.id : undefined) : tenantIdOf(named)
  }

  /** Without a database of tenants there are no plans. */
  function ceilingOf (tenant: Pick<Tenant, 'plan'> | null | undefined): Limit | null {
    ceilings ??= createCeilings(plans())
    return tenant === undefined || tenant === null ? null : ceilings(tenant.plan)
  }

  /** A client that ignores refusals gets them later. */
  function refuse (kind: ClientKind, client: string, refused: TenantryError): Promise<void> {
    const delay = pace.next(kind, client)
    if (delay === 0) throw refused
    return sleep(delay).then(() => {
      throw refused
    })
  }

  function count (
    request: FastifyRequest,
    reply: FastifyReply,
    tenant: Owner | undefined,
    first: Limit,
    second: Limit | null
  ): void | Promise<void> {
    const kind = tenant === undefined ? 'address' : 'tenant'
    const client = tenant ?? addressKey(request.ip)
    return whenKnown(store.take(kind, client, first, second, now()), (taken) => {
      if (taken.admitted && first.isConditional) refundLater(reply, reply.log, kind, client, first, taken)
      const { limit, resetAt } = writeHeaders(request, reply, first, second, taken)
      if (taken.admitted) return
      request.rateLimited = true
      return refuse(kind, client, refusal(limit, resetAt - taken.now))
    })
  }

  return {
    check (request, reply, limit) {
      const tenant = tenantOf(request)
      if (tenant === undefined || !limit.addressesOnly) return count(request, reply, tenant, limit, null)
    },
    checkCall (call, reply, limit) {
      const tenant = tenantOf(call)
      if (tenant !== undefined && limit.addressesOnly) return
      const kind = tenant === undefined ? 'address' : 'tenant'
      const client = tenant ?? addressKey(call.ip)
      return whenKnown(store.take(kind, client, limit, null, now()), (taken) => {
        if (!taken.admitted) throw refusal(limit, taken.resetAt - taken.now)
        if (limit.isConditional) refundLater(reply, call.log, kind, client, limit, taken)
      })
    },
    checkRoute (request, reply, limit) {
      const tenant = tenantOf(request)
      const ceiling = ceilingOf(request.tenant)
      const limits = limitsFor(tenant, limit, ceiling)
      if (limits === null) return
      const isByCaller = tenant !== undefined && request.routeOptions.config.callerLimit === true
      return count(request, reply, tenant, ...isByCaller ? callerLimits(tenant, request.auth, limit, ceiling) : limits)
    },
    checkWithin (request, caller) {
      const { limitWithin: limit } = request.routeOptions.config
      if (limit === undefined) return
      const tenant = tenantOf(caller)
      const limits = limitsFor(tenant, limit, ceilingOf(caller.tenant))
      if (limits === null) return
      const kind = tenant === undefined ? 'address' : 'tenant'
      const client = tenant ?? addressKey(request.ip)
      return whenKnown(store.take(kind, client, ...limits, now()), (taken) => {
        if (taken.admitted) return
        const reached = strictest(...limits, taken)
        return refuse(kind, client, refusal(reached.limit, reached.resetAt - taken.now))
      })
    },
    countFailure (request, reply, limit) {
      // Shown in the headers, but never refused, so that the caller sees the original error. Checking a token takes a fraction of a
      // millisecond and no query. Work with a query has its own limit before it: for keys, the count of `x-api-key` in the plugin auth;
      // for tenants that unverified callers name, the limit of the route.
      if (limit.plansOnly) return
      const client = addressKey(request.ip)
      return whenKnown(store.take('address', client, limit, null, now()), (taken) => {
        if (limit.isConditional && taken.admitted) refundLater(reply, reply.log, 'address', client, limit, taken)
        writeHeaders(request, reply, limit, null, taken)
      })
    },
    mergeHeaders (request, reply) {
      mergeHeaders(request, reply, now)
    }
  }
}

/** The limits that count a request of the tenant, or of an address; null without any. */
function limitsFor (tenant: Owner | undefined, limit: Limit, ceiling: Limit | null): readonly [Limit, Limit | null] | null {
  if (tenant === undefined) return limit.plansOnly ? null : [limit, null]
  if (!limit.addressesOnly) return [limit, ceiling]
  return ceiling === null ? null : [ceiling, null]
}

/** The limit of a plan; null without one. */
type Ceilings = (tier: string) => Limit | null

function createCeilings (plans: Plans | null): Ceilings {
  if (plans === null) return () => null
  const known = new Map(plans.all.map(({ tier, limits: { api: { requestsPerMinute: max } } }) => [
    tier,
    max === unlimited ? null : createLimit({ max, windowMs: planWindow }, 'plan', { plan: tier })
  ]))
  return (tier) => {
    const ceiling = known.get(tier)
    return ceiling === undefined ? known.get(plans.of(tier).tier) ?? null : ceiling
  }
}

/** The limit with fewer requests left. If both are equal, the one that ends later. */
function strictest (first: Limit, second: Limit | null, taken: LimitResult): { limit: Limit, left: number, resetAt: number } {
  const left = Math.max(0, first.rule.max - taken.count)
  if (second !== null) {
    const leftOfSecond = Math.max(0, second.rule.max - taken.secondCount)
    if (leftOfSecond < left || (leftOfSecond === left && taken.secondResetAt > taken.resetAt)) {
      return { limit: second, left: leftOfSecond, resetAt: taken.secondResetAt }
    }
  }
  return { limit: first, left, resetAt: taken.resetAt }
}

function refusal ({ rule: { message, statusCode, max }, plan }: Limit, waitMs: number): TenantryError {
  const entry = statusCode === undefined
    ? catalogue.rateLimited
    : { ...catalogue.rateLimited, status: statusCode, title: STATUS_CODES[statusCode] ?? catalogue.rateLimited.title }
  const { extras, headers } = retryIn(Math.max(1, Math.ceil(waitMs / 1000)))
  const details = plan === null ? {} : { details: [{ path: '', message: planFault(plan, max), keyword: 'plan' }] }
  return new TenantryError(entry, { ...(message !== undefined && { message }), extras: { ...extras, ...details }, headers })
}

function planFault (plan: string, max: number): string {
  return `the plan "${plan}" includes ${max} request${max === 1 ? '' : 's'} a minute`
}

/**
 * Gives back a request that the rule does not count, once its status is known. An interrupted request stays counted. Until then it
 * counts, so that concurrent requests cannot exceed the limit.
 */
function refundLater (
  reply: CountedReply,
  log: FastifyBaseLogger,
  kind: ClientKind,
  client: string,
  limit: Limit,
  { store, resetAt }: LimitResult
): void {
  const { rule } = limit
  reply.raw.once('finish', () => {
    const skipped = reply.statusCode < 400 ? rule.skipSuccessfulRequests : rule.skipFailedRequests
    if (skipped !== true) return
    Promise.resolve(store.refund(kind, client, limit, resetAt)).catch((error: unknown) => {
      log.warn({ err: error }, 'a request could not be returned to its rate limit')
    })
  })
}

const limitHeader = 'x-ratelimit-limit'
const remainingHeader = 'x-ratelimit-remaining'
const resetHeader = 'x-ratelimit-reset'

const isCounted = Symbol('tenantry.rate-limit.counted')
const shownLimit = Symbol('tenantry.rate-limit.shown')

/** The values of the headers. */
interface Shown {
  readonly max: number
  readonly left: number
  /** Seconds since 1970. */
  readonly reset: number
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The route's limit has counted the request, or is about to. */
    [isCounted]: boolean
    /** The headers that this plugin wrote last; null without any. */
    [shownLimit]: Shown | null
  }
}

export function decorateRequests (app: FastifyInstance): void {
  app.decorateRequest('rateLimited', false)
  app.decorateRequest(isCounted, false)
  app.decorateRequest(shownLimit, null)
}

/** Writes the strictest limit, unless the request is admitted and the headers already show one with fewer requests left. Returns it. */
function writeHeaders (request: FastifyRequest, reply: FastifyReply, first: Limit, second: Limit | null, taken: LimitResult) {
  const shown = strictest(first, second, taken)
  const before = reply.getHeader(remainingHeader)
  const isStricter = taken.admitted && before !== undefined && Number(before) <= shown.left
  if (!isStricter) write(request, reply, { max: shown.limit.rule.max, left: shown.left, reset: Math.ceil(shown.resetAt / 1000) })
  return shown
}

/**
 * Call it when the response is sent. @fastify/rate-limit overwrites the headers with its own limit, whose reset is in seconds from
 * now. This keeps the stricter limit, with its reset in seconds since 1970. If both are equal, it keeps the one that ends later.
 *
 * @param now the clock, in milliseconds since 1970
 */
function mergeHeaders (request: FastifyRequest, reply: FastifyReply, now: () => number): void {
  const reset = reply.getHeader(resetHeader)
  const { [shownLimit]: own } = request
  if (reset === undefined || reset === own?.reset) return
  const theirs = {
    max: Number(reply.getHeader(limitHeader)),
    left: Number(reply.getHeader(remainingHeader)),
    reset: Math.ceil(now() / 1000) + Number(reset)
  }
  const isStricter = own !== null && (own.left < theirs.left || (own.left === theirs.left && own.reset > theirs.reset))
  write(request, reply, isStricter ? own : theirs)
}

function write (request: FastifyRequest, reply: FastifyReply, shown: Shown): void {
  request[shownLimit] = shown
  reply.header(limitHeader, shown.max)
  reply.header(remainingHeader, shown.left)
  reply.header(resetHeader, shown.reset)
}

export function addAddressStep (route: RouteOptions, limiter: RateLimiter, limit: Limit): void {
  addStep(route, 'address-limit', (request, reply, done) => {
    const pending = limiter.check(request, reply, limit)
    if (pending === undefined) done()
    else pending.then(() => done(), done)
  })
}

export function addRouteStep (route: RouteOptions, limiter: RouteLimiter, limit: Limit): void {
  addStep(route, 'rate-limit', (request, reply, done) => {
    request[isCounted] = true
    const pending = limiter.checkRoute(request, reply, limit)
    if (pending === undefined) done()
    else pending.then(() => done(), done)
  })
  // A request that failed earlier, for example with an invalid token, shows the limit too.
  const showAnyway: onSendHookHandler = (request, reply, payload, done) => {
    const finish = () => {
      limiter.mergeHeaders(request, reply)
      done(null, payload)
    }
    if (request[isCounted] || request.rateLimited || reply.statusCode < 400) return finish()
    request[isCounted] = true
    const pending = limiter.countFailure(request, reply, limit)
    if (pending === undefined) finish()
    else pending.then(finish, done)
  }
  route.onSend = [route.onSend ?? [], showAnyway].flat()
}

/** For routes whose limit is counted later, or only for addresses. */
export function addHeaderStep (route: RouteOptions, limiter: RouteLimiter): void {
  const merge: onSendHookHandler = (request, reply, payload, done) => {
    limiter.mergeHeaders(request, reply)
    done(null, payload)
  }
  route.onSend = [route.onSend ?? [], merge].flat()
}
