/** The contract of the stores that count requests: memory and Redis. */
import type { Limit } from './rules.js'

/** A client: a tenant, or an address if the tenant is unknown. */
export type ClientKind = 'tenant' | 'address'

export interface LimitResult {
  /** false: one of the limits is used up, and neither count was increased. */
  admitted: boolean
  /** The clock of the store, in milliseconds since 1970. */
  now: number
  /** Requests of the first limit in the current window, including this one if it was admitted. */
  count: number
  /** The end of that window, in milliseconds since 1970. */
  resetAt: number
  /** The same for the second limit; 0 without one. */
  secondCount: number
  secondResetAt: number
  /** The store that counted the request and can give it back. */
  store: RateLimitStore
}

/**
 * Counts requests in fixed windows, which begin with a client's first request. Every key begins with the client, or with the tenant
 * whose document declares the rule, so that counts of different tenants never mix.
 */
export interface RateLimitStore {
  /**
   * Counts one request in the first limit and in the second, if there is one. If one of them is used up, neither is increased.
   *
   * @param now the clock of this process, in milliseconds since 1970; a shared store uses its own
   */
  take(kind: ClientKind, client: string, first: Limit, second: Limit | null, now: number): LimitResult | Promise<LimitResult>
  /** Gives a request back to the window that ends at `resetAt`, unless that window has ended. */
  refund(kind: ClientKind, client: string, limit: Limit, resetAt: number): void | Promise<void>
  /** Makes a counter for @fastify/rate-limit. Default: it counts in this process. */
  counter?(options: CounterOptions): Counter
}

/** A counter for @fastify/rate-limit: for a route with `config.rateLimit`, or for a limiter of `app.createRateLimit`. */
export interface CounterOptions {
  /** Equal in all instances of a server. */
  readonly name: string
  /** The number of clients in memory. */
  readonly cache: number
  /** The effect of a request beyond the limit on the window: none, restart it, or double it. */
  readonly renewal: 'none' | 'restart' | 'double'
}

export interface WindowCount {
  readonly current: number
  /** Milliseconds until the window ends. */
  readonly ttl: number
}

export interface Counter {
  /**
   * Counts one request, also beyond `max`.
   *
   * @param key the client; the caller may have chosen it, with any length
   * @param now the clock of this process, in milliseconds since 1970; a shared store uses its own
   */
  hit(key: string, windowMs: number, max: number, now: number): WindowCount | Promise<WindowCount>
  /** Reads the window without counting. */
  read(key: string, now: number): WindowCount | Promise<WindowCount>
}
