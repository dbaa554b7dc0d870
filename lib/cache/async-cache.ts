/**
 * Values that were read from the database, kept in memory until `invalidate` or `refresh`. The one cache of tenants, roles, keys,
 * secrets and documents: at most `max` entries, the least recently used leave first, one load at a time for a key.
 */
import { LRUCache } from 'lru-cache'
import { lruOptions } from './lru-options.js'

export interface AsyncCacheOptions<Value, Key extends string = string> {
  /** Entries at most. */
  readonly max: number
  /** Reads the value of a key. A rejection reaches all callers that wait, and nothing is kept. */
  readonly load: (key: Key) => Promise<Value>
  /** What all values together may weigh, where their sizes differ much; one that weighs more by itself is read each time. */
  readonly weight?: { readonly max: number, readonly of: (value: Value) => number }
  /** Milliseconds after which a value is read anew, whether it changed or not. Default: never. */
  readonly maxAgeMs?: number
  /** The clock, in milliseconds. Default: the process's monotonic one. */
  readonly now?: () => number
}

export interface AsyncCache<Value, Key extends string = string> {
  /** The value at once where it is known, so that a warm request waits for nothing; else a promise of it. */
  get(key: Key): Value | Promise<Value>
  /** The value where it is known; it is not read. */
  peek(key: Key): Value | undefined
  /** The same, and it is the last to leave. */
  touch(key: Key): Value | undefined
  /** The value has changed. Later calls get a value that is read from now on; calls that wait now wait for two loads at most. */
  invalidate(key: Key): void
  /** The value has changed; the old one is given until the new one is there. Rejects, and leaves the old one, where it cannot be read. */
  refresh(key: Key): Promise<Value>
  /** Any value may have changed. */
  clear(): void
  readonly size: number
}

/** A load that is under way. */
interface Load<Value> {
  /** What it reads. */
  readonly read: Promise<Value>
  /** What it reads, or where the value changed meanwhile what the load after it reads: that began after the change. */
  readonly fresh: Promise<Value>
  /** The value changed after it began. */
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
    // The load runs after it was noted down, so that whatever it does finds it there.
    const read = Promise.resolve().then(() => load(key))
    const started: Load<Value> = { read, fresh: finish(), stale: false }
    // It may reject when no call waits for it.
    started.fresh.catch(() => {})
    loads.set(key, started)
    return started

    async function finish (): Promise<Value> {
      try {
        const value = await read
        // Where an older value is still given, this one is better, although it may be old itself.
        if (!started.stale || known.has(key)) keep(key, value)
        // Of a key that changes faster than it loads each load is of use to those who asked before it began.
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
