/** The counts of requests: the contract that memory and Redis keep. */
import type { Limit } from './rules.js'

/** What a client is: a tenant, or an address where no tenant is known. */
export type ClientKind = 'tenant' | 'address'

/** What became of a request. It may be the store's own record: read it at once, never keep it. */
export interface Taken {
  /** false: one of its counts is used up, and it was added to none. */
  admitted: boolean
  /** The clock of the store, in milliseconds since 1970. */
  now: number
  /** Requests of the first limit in the window that runs, this one included where it was admitted. */
  count: number
  /** When that window ends, in milliseconds since 1970. */
  resetAt: number
  /** The same of the second limit; 0 without one. */
  secondCount: number
  secondResetAt: number
  /** Which store has counted it, and takes it back. */
  store: RateLimitStore
}

/**
 * Counts requests in fixed windows that begin with a client's first request. The first part of every count is the client,
 * or the tenant with the rule in its document, so that counts of different tenants never mix.
 */
export interface RateLimitStore {
  /**
   * Counts one request of the client in the first limit, and in the second where there is one: in both or, where one
   * of them is used up, in neither.
   *
   * @param now the clock of this process, in milliseconds since 1970; a store that others share has its own
   */
  take(kind: ClientKind, client: string, first: Limit, second: Limit | null, now: number): Taken | Promise<Taken>
  /** Takes one request back from the window that ends at `resetAt`; none where another window runs by now. */
  refund(kind: ClientKind, client: string, limit: Limit, resetAt: number): void | Promise<void>
  /** Makes a count of @fastify/rate-limit. Default: it counts in this process. */
  counter?(options: CounterOptions): Counter
}

/** A count of @fastify/rate-limit: that of a route with `config.rateLimit`, or of a limiter of `app.createRateLimit`. */
export interface CounterOptions {
  /** The same in all instances of a server. */
  readonly name: string
  /** How many clients are remembered in memory. */
  readonly cache: number
  /** What a request beyond the limit does to the window: nothing, begin it anew, or double it. */
  readonly renewal: 'none' | 'restart' | 'double'
}

export interface Counted {
  /** Requests in the window. */
  readonly current: number
  /** Milliseconds until the window ends. */
  readonly ttl: number
}

export interface Counter {
  /**
   * Counts one request, also beyond `max`.
   *
   * @param key the client; a caller may have chosen it, of any length
   * @param now the clock of this process, in milliseconds since 1970; a store that others share has its own
   */
  hit(key: string, windowMs: number, max: number, now: number): Counted | Promise<Counted>
  /** Counts nothing. */
  read(key: string, now: number): Counted | Promise<Counted>
}
