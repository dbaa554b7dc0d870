/** Counts a request, writes the `X-RateLimit-*` headers, and refuses it beyond the limit. */
import { tenantIdOf, type Owner, type TenantId } from '../../lib/identity/tenant-ref.js'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Plans } from '../../lib/plans/plans.js'
import type { ClientKind, RateLimitStore, Taken } from './store.js'
import { STATUS_CODES } from 'node:http'
import { catalogue, TenantryError } from '../../lib/errors.js'
import { unlimited } from '../../lib/plans/plans.js'
import { addressKey } from '../../lib/http/address-key.js'
import { whenKnown } from '../../lib/concurrency/when-known.js'
import { mergeHeaders, showLimit } from './headers.js'
import { createLimit, type Limit, type RateLimitRule } from './rules.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * The route stays open to a tenant that has used up the requests of its plan: 30 a minute of their own count in their place.
     * Default: false.
     */
    beyondPlan?: boolean
  }
}

const planWindow = 60_000 // ms: a plan says requests a minute
/** Of all routes with `beyondPlan` together, for each tenant. */
const beyondPlan = createLimit({ max: 30, windowMs: planWindow }, 'beyond the plan')

/** What `app.rateLimiter` is. */
export interface RateLimiter {
  /**
   * Counts the request for its tenant, or for its address if no token or key proves the tenant. Throws `rateLimited` beyond
   * the limit. Returns a promise only if the store is outside this process. If a request has several counts, the headers
   * show the one with the least left.
   */
  check(request: FastifyRequest, reply: FastifyReply, limit: Limit): void | Promise<void>
}

/** What the routes of this server are held to. */
export interface RouteLimiter extends RateLimiter {
  /** The limit of a route, and the plan's ceiling beside it. */
  checkRoute(request: FastifyRequest, reply: FastifyReply, limit: Limit): void | Promise<void>
  /** Counts for the address a request that failed before it came to its limit: whatever the caller claims to be is not known. */
  countFailure(request: FastifyRequest, reply: FastifyReply, limit: Limit): void | Promise<void>
  /** Call it when the response is sent: @fastify/rate-limit may have overwritten the headers. */
  mergeHeaders(request: FastifyRequest, reply: FastifyReply): void
}

export interface LimiterOptions {
  readonly store: RateLimitStore
  /** Read once the server is ready. null: no plan limits anybody. */
  readonly plans: () => Plans | null
  /** Whether a gateway vouches for the tenant of a request whose token names none. */
  readonly trustsHeader: () => boolean
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
}

export function createLimiter ({ store, plans, trustsHeader, now }: LimiterOptions): RouteLimiter {
  let ceilings: Ceilings | undefined

  function tenantOf (request: FastifyRequest): TenantId | undefined {
    const named = request.auth?.tenant_id
    return named === undefined ? (trustsHeader() ? request.tenant?.id : undefined) : tenantIdOf(named)
  }

  function ceilingOf ({ tenant, routeOptions: { config } }: FastifyRequest): Limit | null {
    ceilings ??= createCeilings(plans())
    // A server without tenants in a database knows no plan of theirs.
    const ceiling = tenant === undefined || tenant === null ? null : ceilings(tenant.plan)
    return ceiling !== null && config.beyondPlan === true ? beyondPlan : ceiling
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
    return whenKnown(
      store.take(kind, client, first, second, now()),
      (counted) => settle(request, reply, kind, client, first, second, counted)
    )
  }

  return {
    check (request, reply, limit) {
      const tenant = tenantOf(request)
      if (tenant === undefined || !limit.addressesOnly) return count(request, reply, tenant, limit, null)
    },
    checkRoute (request, reply, limit) {
      const tenant = tenantOf(request)
      if (tenant === undefined) return limit.plansOnly ? undefined : count(request, reply, tenant, limit, null)
      const ceiling = ceilingOf(request)
      if (!limit.addressesOnly) return count(request, reply, tenant, limit, ceiling)
      if (ceiling !== null) return count(request, reply, tenant, ceiling, null)
    },
    countFailure (request, reply, limit) {
      // In the headers and never refused, so that what failed stays the answer: a token, of any algorithm, is judged in a fraction of a
      // millisecond and without a look-up. What needs one is refused before it: keys by the count of `x-api-key` in the
      // plugin auth, and tenants that strangers name by the limit of the route, which comes before they are looked up.
      if (limit.plansOnly) return
      const client = addressKey(request.ip)
      const taken = store.take('address', client, limit, null, now())
      const tell = (counted: Taken) => {
        if (limit.isConditional && counted.admitted) refundLater(reply, 'address', client, limit, counted)
        writeHeaders(request, reply, limit, null, counted)
      }
      return whenKnown(taken, tell)
    },
    mergeHeaders (request, reply) {
      mergeHeaders(request, reply, now())
    }
  }
}

/** The ceiling of a tier; null where it has none. */
type Ceilings = (tier: string) => Limit | null

function createCeilings (plans: Plans | null): Ceilings {
  if (plans === null) return () => null
  const known = new Map(plans.all.map(({ tier, limits: { api: { requestsPerMinute: max } } }) => [
    tier,
    max === unlimited ? null : createLimit({ max, windowMs: planWindow }, 'plan')
  ]))
  return (tier) => {
    const ceiling = known.get(tier)
    return ceiling === undefined ? known.get(plans.of(tier).tier) ?? null : ceiling
  }
}

function settle (
  request: FastifyRequest,
  reply: FastifyReply,
  kind: ClientKind,
  client: string,
  first: Limit,
  second: Limit | null,
  taken: Taken
): void {
  const { admitted, now } = taken
  if (admitted && first.isConditional) refundLater(reply, kind, client, first, taken)
  const shown = writeHeaders(request, reply, first, second, taken)
  if (admitted) return
  request.rateLimited = true
  throw refusal(shown.rule, (shown === first ? taken.resetAt : taken.secondResetAt) - now)
}

/** Shows the limit with fewer requests left, of equal ones the one that ends later, and returns it. */
function writeHeaders (request: FastifyRequest, reply: FastifyReply, first: Limit, second: Limit | null, taken: Taken): Limit {
  let shown = first
  let left = Math.max(0, first.rule.max - taken.count)
  let resetAt = taken.resetAt
  if (second !== null) {
    const leftOfSecond = Math.max(0, second.rule.max - taken.secondCount)
    if (leftOfSecond < left || (leftOfSecond === left && taken.secondResetAt > resetAt)) {
      shown = second
      left = leftOfSecond
      resetAt = taken.secondResetAt
    }
  }
  showLimit(request, reply, taken.admitted, shown.rule.max, left, resetAt)
  return shown
}

function refusal ({ message, statusCode }: RateLimitRule, waitMs: number): TenantryError {
  const retryAfter = Math.max(1, Math.ceil(waitMs / 1000))
  const entry = statusCode === undefined
    ? catalogue.rateLimited
    : { ...catalogue.rateLimited, status: statusCode, title: STATUS_CODES[statusCode] ?? catalogue.rateLimited.title }
  return new TenantryError(entry, {
    ...(message !== undefined && { message }),
    extras: { retryAfter },
    headers: { 'retry-after': String(retryAfter) }
  })
}

/**
 * A request that the rule does not count is given back once its answer is known; one that was cut off stays counted.
 * Until then it counts: of requests at the same time no more are admitted than may fail.
 */
function refundLater (reply: FastifyReply, kind: ClientKind, client: string, limit: Limit, { store, resetAt }: Taken): void {
  const { rule } = limit
  reply.raw.once('finish', () => {
    const skipped = reply.statusCode < 400 ? rule.skipSuccessfulRequests : rule.skipFailedRequests
    if (skipped !== true) return
    Promise.resolve(store.refund(kind, client, limit, resetAt)).catch((error: unknown) => {
      reply.log.warn({ err: error }, 'a request could not be given back to its rate limit')
    })
  })
}
