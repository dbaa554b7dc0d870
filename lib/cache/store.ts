/** A cache of texts, the contract that every adapter keeps; test/plugins/cache/conformance.ts runs against each. */
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
  }
}

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

/**
 * The state of the tables that a value is made from. A write to one of them makes another stamp. Only the store that made a
 * stamp can read it.
 */
export type Stamp = string | number

/** There is no value. */
export interface Miss {
  /** From before the value is made: `set` takes it. */
  readonly stamp: Stamp
}

/** In place of a tenant: all of them, and the platform. No tenant id holds this character. */
export const everyTenant = '*'

/**
 * The tenant is the first argument of every method, `''` for the platform: two tenants never share an item, whatever
 * their keys are.
 *
 * What was made from tables is never older than the last write that `invalidate` announced. `get` hands out the stamp of
 * the tables, then the value is made, then `set` keeps it under that stamp; a write in between has changed the stamp, and
 * so the value is never found. A table that is `scoped` is the tenant's part of it; the others are one for all tenants.
 *
 * A store that cannot be reached behaves as an empty one, and what it cannot keep it does not keep: no method but `ping`
 * throws or rejects, and none waits for longer than the store's time-out.
 */
export interface CacheStore {
  /** What it is made of, for those who look: a `CacheProvider`, or another name. */
  readonly provider: string
  /** All instances of the server have this one store: what one of them clears is gone for every other. */
  readonly shared: boolean
  /** The value that was made from these tables; a miss where there is none, its time is over, or one of them was written to. */
  get(tenant: string, key: string, reads?: readonly TableUse[]): MaybePromise<string | Miss>
  /** Keeps the value for `ttlMs` milliseconds (more than 0), or for as long as there is room. Without a stamp it is made of no table. */
  set(tenant: string, key: string, value: string, ttlMs: number, stamp?: Stamp): MaybePromise<void>
  /** The tables were written to: no value that was made from them, or that is being made, is found from now on. */
  invalidate(tenant: string, writes: readonly TableUse[]): MaybePromise<void>
  /** true where there was such an item. */
  delete(tenant: string, key: string): MaybePromise<boolean>
  /**
   * Removes every item of the tenant, or of `everyTenant`; values that are being made are not found either. The number of those
   * removed.
   */
  clear(tenant: string): MaybePromise<number>
  /** The keys of the tenant, in any order, at most `limit` (1000 without it). */
  keys(tenant: string, limit?: number): MaybePromise<string[]>
  /** What is held of the tenant, or of `everyTenant`. */
  stats(tenant: string): MaybePromise<CacheStats>
  /** Throws or rejects where the store cannot be reached within the time, in milliseconds. */
  ping(timeoutMs: number): MaybePromise<void>
  /** Ends connections; may be called twice. */
  close(): MaybePromise<void>
}

/** The stores that this package has. */
export type CacheProvider = 'memory' | 'redis' | 'lmdb'

/** How much a store keeps. */
export interface CacheBounds {
  /** Items at most, 1 to 100,000,000, over all tenants. Default: 10,000. */
  readonly maxSize?: number | undefined
  /** Megabytes (1,048,576 bytes) at most, above 0 and up to 1,048,576, keys and values together. Default: 64. */
  readonly maxMemoryMB?: number | undefined
}

export const defaultMaxSize = 10_000 // items
export const defaultMaxMemoryMB = 64

/** Called for values that could not be kept; at most one line of the log a minute. */
export type Warn = (reason: string, error?: unknown) => void
