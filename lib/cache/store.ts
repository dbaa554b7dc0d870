/** A cache of texts: the contract of all adapters. test/plugins/cache/conformance.ts runs against each. */
import type {} from 'fastify'

/** A table (or a collection of documents) that a query reads or writes. */
export interface TableUse {
  readonly table: string
  /** Only the rows of the request's tenant; false for rows without a tenant. */
  readonly scoped: boolean
}

declare module 'fastify' {
  interface FastifyInstance {
    cache: CacheStore
    /** The document's `cache.enabled` and `cache.ttl`, for the plugins that compile routes. */
    cacheDefaults: CacheDefaults
  }
}

export interface CacheDefaults {
  readonly enabled: boolean
  /** In seconds. */
  readonly ttl: number | undefined
}

/** A value now, or later from a store outside this process. */
export type MaybePromise<Value> = Value | Promise<Value>

/** The content of a cache, of one tenant or of all. */
export interface CacheStats {
  readonly items: number
  /** Bytes that keys and values take, as the adapter estimates them. */
  readonly bytes: number
  /** Since the start of this process. */
  readonly hits: number
  readonly misses: number
}

/** The state of the tables that a value is read from: a write to one of them changes it. Only the store that created it can read it. */
export type Stamp = string | number

/** There is no value. */
export interface Miss {
  /** Created before the value is computed; `set` takes it. */
  readonly stamp: Stamp
}

/** In place of a tenant: all tenants and the platform. No tenant id contains this character. */
export const everyTenant = '*'

/**
 * The tenant is the first argument of every method, `''` for the platform: two tenants never share an item, even with equal keys.
 *
 * A value is never older than the last write that `invalidate` announced. `get` returns the stamp of the tables, the caller computes the
 * value, and `set` stores it under that stamp. A write in between changes the stamp, so the value is never found. A `scoped` table is the
 * tenant's part of it; other tables are shared by all tenants.
 *
 * An unreachable store behaves like an empty one, and drops values that it cannot store. Only `ping` throws or rejects, and no method waits
 * longer than the store's timeout.
 */
export interface CacheStore {
  /** For display: a `CacheProvider`, or another name. */
  readonly provider: string
  /** All instances of the server share this store: an item that one of them clears is gone for all. */
  readonly shared: boolean
  /** The value computed from these tables; a miss if there is no value, it has expired, or one of them was written to. */
  get(tenant: string, key: string, reads?: readonly TableUse[]): MaybePromise<string | Miss>
  /** Stores the value for `ttlMs` milliseconds (more than 0), or as long as there is room. Without a stamp it depends on no table. */
  set(tenant: string, key: string, value: string, ttlMs: number, stamp?: Stamp): MaybePromise<void>
  /** The tables were written to: values that were computed from them, or are being computed, are no longer found. */
  invalidate(tenant: string, writes: readonly TableUse[]): MaybePromise<void>
  /** true if the item existed. */
  delete(tenant: string, key: string): MaybePromise<boolean>
  /** Removes every item of the tenant, or of `everyTenant`, even if it is still being computed. Returns the number of removed items. */
  clear(tenant: string): MaybePromise<number>
  /** The keys of the tenant, in any order, at most `limit` (1000 by default). */
  keys(tenant: string, limit?: number): MaybePromise<string[]>
  /** The content of the tenant, or of `everyTenant`. */
  stats(tenant: string): MaybePromise<CacheStats>
  /** Throws or rejects if the store is unreachable within the time, in milliseconds. */
  ping(timeoutMs: number): MaybePromise<void>
  /** Ends connections; may be called twice. */
  close(): MaybePromise<void>
}

/** The built-in stores. */
export type CacheProvider = 'memory' | 'redis' | 'lmdb'

/** The capacity of a store. */
export interface CacheBounds {
  /** Items at most, 1 to 100,000,000, over all tenants. Default: 10,000. */
  readonly maxSize?: number | undefined
  /** Megabytes (1,048,576 bytes) at most, above 0 and up to 1,048,576, keys and values together. Default: 64. */
  readonly maxMemoryMB?: number | undefined
}

/** The capacity in items and in bytes. */
export function capacityOf ({ maxSize = 10_000, maxMemoryMB = 64 }: CacheBounds) {
  return { maxSize, maxBytes: Math.max(1, Math.floor(maxMemoryMB * 1_048_576)) }
}

/** Called for values that could not be stored; logs at most one line a minute. */
export type Warn = (reason: string, error?: unknown) => void
