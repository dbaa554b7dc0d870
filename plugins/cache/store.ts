/** A cache of texts, the contract that every adapter keeps; test/plugins/cache/conformance.ts runs against each. */

/** A value now, or later from a store outside this process. */
export type MaybePromise<Value> = Value | Promise<Value>

/** What a cache holds, of one tenant or of all. */
export interface CacheStats {
  readonly items: number
  /** Bytes that keys and values take, as the adapter estimates them. */
  readonly bytes: number
  /** Since the start of this process. */
  readonly hits: number
  readonly misses: number
}

/** In place of a tenant: all of them, and the platform. No tenant id holds this character. */
export const everyTenant = '*'

/**
 * The tenant is the first argument of every method, `''` for the platform: two tenants never share an item, whatever
 * their keys are. A store that cannot be reached behaves as an empty one; it never fails a request.
 */
export interface CacheStore {
  /** The value; undefined where there is none, or its time is over. */
  get (tenant: string, key: string): MaybePromise<string | undefined>
  /** Keeps the value for `ttlMs` milliseconds (more than 0), or for as long as there is room. */
  set (tenant: string, key: string, value: string, ttlMs: number): MaybePromise<void>
  /** true where there was such an item. */
  delete (tenant: string, key: string): MaybePromise<boolean>
  /** Removes every item of the tenant, or of `everyTenant`; the number of those removed. */
  clear (tenant: string): MaybePromise<number>
  /** The keys of the tenant, in any order, at most `limit` (1000 without it). */
  keys (tenant: string, limit?: number): MaybePromise<string[]>
  /** What is held of the tenant, or of `everyTenant`. */
  stats (tenant: string): MaybePromise<CacheStats>
  /** Ends connections; may be called twice. */
  close (): MaybePromise<void>
}
