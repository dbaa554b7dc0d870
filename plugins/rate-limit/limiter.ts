/** Counts a request, shows the count in its response, and refuses it beyond the limit. */
import { STATUS_CODES } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { catalogue, retryIn, TenantryError } from '../../lib/errors.js'
import { addressKey } from '../../lib/http/account.js'
import { type Owner, type TenantId, tenantIdOf } from '../../lib/identity/tenant-ref.js'
import { type Plans, unlimited } from '../../lib/plans/plans.js'
import type { Tenant } from '../tenancy/tenant.js'
import { callerLimits } from './caller-limits.js'
import { mergeHeaders, strictest, writeHeaders } from './headers.js'
import { createRefusalPace } from './refusal-pace.js'
import { createLimit, type Limit } from './rules.js'
import type { ClientKind, LimitResult, RateLimitStore } from './store.js'
import type { CountedCall, CountedReply, RouteLimiter } from './types.js'

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
    if (named !== undefined) return tenantIdOf(named)
    return trustsHeader() ? request.tenant?.id : undefined
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
