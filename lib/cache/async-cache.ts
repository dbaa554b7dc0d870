/**
 * Values that were read from the database, kept in memory until `invalidate` or `refresh`. The cache of tenants, roles, keys,
 * secrets and documents: at most `max` entries, the least recently used leave first, one load at a time for each key.
 */
import { LRUCache } from 'lru-cache'
import { lruOptions } from './lru-options.js'

interface AsyncCacheOptions<Value, Key extends string = string> {
  readonly max: number
  /** Reads the value of a key. A rejection reaches all waiting callers and is not kept. */
  readonly load: (key: Key) => Promise<Value>
  /** The highest total weight, if sizes differ much. A value that weighs more by itself is read each time. */
  readonly weight?: { readonly max: number, readonly of: (value: Value) => number }
  /** Milliseconds after which a value is read again. Default: never. */
  readonly maxAgeMs?: number
  /** The clock, in milliseconds. Default: the process's monotonic one. */
  readonly now?: () => number
}

export interface AsyncCache<Value, Key extends string = string> {
  /** A known value at once, so that a warm request waits for nothing; otherwise a promise of it. */
  get(key: Key): Value | Promise<Value>
  /** The value if it is known; it is not read. */
  peek(key: Key): Value | undefined
  /** The value if it is known, marked as the most recently used. */
  touch(key: Key): Value | undefined
  /** Invalidates the key: later calls read the value again. Waiting calls wait for two loads at most. */
  invalidate(key: Key): void
  /** Replaces the value in the background; the old one is returned until then. If the load fails, rejects and keeps the old one. */
  refresh(key: Key): Promise<Value>
  clear(): void
  readonly size: number
}

interface Load<Value> {
  readonly read: Promise<Value>
  /** The loaded value, or, after an invalidation, that of the following load, which began after the change. */
  readonly fresh: Promise<Value>
  /** The value was invalidated after the load began. */
  stale: boolean
}

export function createAsyncCache<Value extends object, Key extends string = string> (
  { max, load, weight, maxAgeMs = 0, now }: AsyncCacheOptions<Value, Key>
): AsyncCache<Value, Key> {
  const known = new LRUCache<Key, Value>({
    // Unused values expire as well: secrets do not stay in memory for longer.
    ttl: maxAgeMs,
    ttlAutopurge: maxAgeMs > 0,
    ...maxAgeMs > 0 && { ttlResolution: 0, ...now !== undefined && { perf: { now } } },
    ...weight === undefined ? lruOptions(max) : { maxSize: weight.max, sizeCalculation: weight.of }
  })
  const loads = new Map<Key, Load<Value>>()

  function keep (key: Key, value: Value): void {
    known.set(key, value)
    if (known.size > max) known.pop()
  }

  function begin (key: Key): Load<Value> {
    // The load runs after it is registered, so that its callbacks find it.
    const read = Promise.resolve().then(() => load(key))
    const started: Load<Value> = { read, fresh: finish(), stale: false }
    // It may reject while no call waits for it.
    started.fresh.catch(() => {})
    loads.set(key, started)
    return started

    async function finish (): Promise<Value> {
      try {
        const value = await read
        // Replaces an older value that is still returned, even if this one may be outdated itself.
        if (!started.stale || known.has(key)) keep(key, value)
        // If a key changes faster than it loads, each load still serves the callers that waited for it.
        return started.stale ? await begin(key).read : value
      } finally {
        if (loads.get(key) === started) loads.delete(key)
      }
    }
  }

  return {
    get: (key) => known.get(key) ?? loads.get(key)?.fresh ?? begin(key).fresh,
    peek: (key) => known.peek(key),
    touch: (key) => known.get(key),
    invalidate (key) {
      known.delete(key)
      const load = loads.get(key)
      if (load !== undefined) load.stale = true
    },
    refresh (key) {
      const load = loads.get(key)
      if (load === undefined) return begin(key).fresh
      load.stale = true
      return load.fresh
    },
    clear () {
      known.clear()
      for (const load of loads.values()) load.stale = true
    },
    get size () {
      return known.size
    }
  }
}

/** Calls `next` with the value: at once if it is in memory, without a promise; otherwise when the promise resolves. */
export function whenKnown<Value, Result> (
  value: Value | Promise<Value>,
  next: (value: Value) => Result | Promise<Result>
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value)
}

/** The same for a hook, whose `done` is called after `next`. Throws the error of `next` if the value is in memory. */
export function hookWhenKnown<Value> (value: Value | Promise<Value>, next: (value: Value) => unknown, done: (error?: Error) => void): void {
  if (value instanceof Promise) {
    value.then(next).then(() => done(), done)
    return
  }
  next(value)
  done()
}
