/** Counts in this process: those of this plugin, and those of @fastify/rate-limit. */
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../../lib/cache/lru-options.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { boundedKey, type Limit } from './rules.js'
import type { ClientKind, Counter, CounterOptions, RateLimitStore } from './store.js'

const defaultMaxWindows = 100_000 // about 10 MB
const ownerShare = 50 // tenants whose documents' windows fill the shared limit; a single tenant gets at most this share

export interface MemoryStore extends RateLimitStore {
  /** The number of windows in memory. */
  readonly size: number
}

/**
 * Windows of tenants, of addresses and of tenants' own documents are separate. A flood of addresses cannot evict the count of a
 * tenant, and a tenant with many rules cannot evict the counts of another.
 *
 * @param maxWindows windows of each of the three kinds at most. Default: 100,000
 */
export function createMemoryStore (maxWindows = defaultMaxWindows): MemoryStore {
  const tenants = new Windows(maxWindows)
  const addresses = new Windows(maxWindows)
  const owned = new OwnedWindows(maxWindows, Math.ceil(maxWindows / ownerShare))

  function running (kind: ClientKind, client: string, limit: Limit, now: number): Window {
    if (limit.owner !== platformRef) return owned.running(limit.owner, ownClient(kind, client), limit, now)
    return (kind === 'tenant' ? tenants : addresses).running(client, limit, now)
  }

  const store: MemoryStore = {
    get size () {
      return tenants.size + addresses.size + owned.size
    },
    take (kind, client, first, second, now) {
      const window = running(kind, client, first, now)
      const other = second === null ? null : running(kind, client, second, now)
      const admitted = window.count < first.rule.max && (second === null || other === null || other.count < second.rule.max)
      if (admitted) {
        window.count++
        if (other !== null) other.count++
      }
      const { count, resetAt } = window
      const result = { admitted, now, count, resetAt, secondCount: other?.count ?? 0, secondResetAt: other?.resetAt ?? 0, store }
      if (!admitted) for (const each of [window, other]) if (each !== null) endUnused(each, now)
      return result
    },
    refund (kind, client, limit, resetAt) {
      const { owner, bucket } = limit
      const window = owner !== platformRef
        ? owned.find(owner, ownClient(kind, client), bucket)
        : (kind === 'tenant' ? tenants : addresses).find(client, bucket)
      if (window?.resetAt === resetAt && window.count > 0) window.count--
    },
    counter: createMemoryCounter
  }
  return store
}

/** The callers of a tenant's own routes: the tenant, whose callers share a count, and addresses. */
function ownClient (kind: ClientKind, client: string): string {
  return kind === 'tenant' ? '' : client
}

export function createMemoryCounter ({ cache, renewal }: CounterOptions): Counter {
  const windows = new Windows(cache)
  return {
    hit (key, windowMs, max, now) {
      const window = windows.open(boundedKey(key), '')
      if (!isRunning(window, now)) begin(window, windowMs, now)
      window.count++
      const beyond = window.count - max
      if (beyond > 0 && renewal !== 'none') {
        const factor = renewal === 'double' ? 2 ** (beyond - 1) : 1
        window.begunAt = now
        window.resetAt = now + Math.min(windowMs * factor, Number.MAX_SAFE_INTEGER - now)
      }
      return { current: window.count, ttl: window.resetAt - now }
    },
    read (key, now) {
      const window = windows.find(boundedKey(key), '')
      return window !== undefined && isRunning(window, now) ? { current: window.count, ttl: window.resetAt - now } : { current: 0, ttl: 0 }
    }
  }
}

interface Window {
  count: number
  /** The time of its first request, or of its renewal, in milliseconds since 1970. */
  begunAt: number
  /** In milliseconds since 1970. */
  resetAt: number
}

function begin (window: Window, windowMs: number, now: number): void {
  window.count = 0
  window.begunAt = now
  window.resetAt = now + windowMs
}

/** A refused request begins no window. */
function endUnused (window: Window, now: number): void {
  if (window.count === 0 && window.begunAt === now) window.resetAt = 0
}

/** Not before its begin either: the clock was set back. */
function isRunning ({ begunAt, resetAt }: Window, now: number): boolean {
  return begunAt <= now && now < resetAt
}

/** Evicts the least recently used windows first. */
class Windows {
  readonly #windows: LRUCache<string, Window>

  constructor (max: number) {
    this.#windows = new LRUCache(lruOptions(max))
  }

  /** Includes windows that have ended. */
  get size (): number {
    return this.#windows.size
  }

  /** The current window. It is new after the old one's end, and after the clock was set back by more than a window. */
  running (client: string, limit: Limit, now: number): Window {
    const { bucket, rule: { windowMs } } = limit
    const window = this.open(client, bucket)
    if (now >= window.resetAt || window.resetAt - now > windowMs) begin(window, windowMs, now)
    return window
  }

  /** The window, ended or not; a new one has an end in the past. */
  open (client: string, bucket: string): Window {
    const key = keyOf(client, bucket)
    let window = this.#windows.get(key)
    if (window === undefined) this.#windows.set(key, window = { count: 0, begunAt: 0, resetAt: 0 })
    return window
  }

  find (client: string, bucket: string): Window | undefined {
    return this.#windows.get(keyOf(client, bucket))
  }
}

/** Windows of many owners. An owner's own windows are evicted first, then the least recently used owners. */
class OwnedWindows {
  readonly #owners: LRUCache<Owner, Windows>
  readonly #maxOfOwner: number

  constructor (max: number, maxOfOwner: number) {
    this.#owners = new LRUCache({ maxSize: max })
    this.#maxOfOwner = maxOfOwner
  }

  get size (): number {
    return this.#owners.calculatedSize
  }

  running (owner: Owner, client: string, limit: Limit, now: number): Window {
    const windows = this.#owners.get(owner) ?? new Windows(this.#maxOfOwner)
    const before = windows.size
    const window = windows.running(client, limit, now)
    if (windows.size !== before) {
      // The cache would keep the earlier size of a value.
      this.#owners.delete(owner)
      this.#owners.set(owner, windows, { size: windows.size })
    }
    return window
  }

  find (owner: Owner, client: string, bucket: string): Window | undefined {
    return this.#owners.get(owner)?.find(client, bucket)
  }
}

/** Addresses and tenants' ids have no space. A new text would be hashed at each request. */
function keyOf (client: string, bucket: string): string {
  return bucket === '' ? client : `${client} ${bucket}`
}
