/** The types of `app.rateLimiter`, and the settings of routes. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ResponseEnd, RouteReply } from '../../lib/http/route-reply.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import type { Tenant } from '../tenancy/tenant.js'
import type { Limit } from './rules.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Requests with a tenant's token count for their caller, not for the plan or the default, so that no caller can block the route for
     * another one. A tenant's administrators, its API keys, and its other callers each have a total: the plan's requests a minute, at
     * least 300. Each caller has a tenth of it; the sessions of a user are spread over four such counts. Default: false.
     */
    callerLimit?: boolean
    /** The route opens a connection within which its caller asks for more: `rateLimiter.checkWithin` counts that. Default: false. */
    countsWithin?: boolean
    /** The limit of a route with `countsWithin`; undefined without one. Set by this plugin. */
    limitWithin?: Limit
  }
}

/** The type of `app.rateLimiter`. */
export interface RateLimiter {
  /**
   * Counts the request for its tenant, or for its address if no token or key proves the tenant. Throws `rateLimited` beyond
   * the limit. Returns a promise only if the store is outside this process, or if the refusal is delayed. If a request has several
   * counts, the headers show the one with the fewest requests left.
   */
  check(request: FastifyRequest, reply: FastifyReply, limit: Limit): void | Promise<void>
  /** Like `check`, for a call of a route within this process. It sets no headers. */
  checkCall(call: CountedCall, reply: CountedReply, limit: Limit): void | Promise<void>
  /**
   * Counts work that a caller asks for within an open connection, such as a message of a websocket, like another request to the route.
   * The route has `countsWithin`. It sets no headers, and never gives a request back.
   */
  checkWithin(request: FastifyRequest, caller: CallerWithin): void | Promise<void>
}

/** The caller of a connection, whose request may have had no token. */
export type CallerWithin = Pick<RouteCall, 'auth'> & { readonly tenant: Pick<Tenant, 'id' | 'plan'> }

export type CountedCall = Pick<RouteCall, 'auth' | 'tenant' | 'ip' | 'log'>
export type CountedReply = Pick<RouteReply, 'statusCode'> & { readonly raw: Pick<ResponseEnd, 'once'> }

export interface RouteLimiter extends RateLimiter {
  /** The limit of a route, with the plan's ceiling. */
  checkRoute(request: FastifyRequest, reply: FastifyReply, limit: Limit): void | Promise<void>
  /** Counts a request that failed before its limit was reached. It counts for the address, since the caller is not verified. */
  countFailure(request: FastifyRequest, reply: FastifyReply, limit: Limit): void | Promise<void>
  /** Call it when the response is sent: @fastify/rate-limit may have overwritten the headers. */
  mergeHeaders(request: FastifyRequest, reply: FastifyReply): void
}
