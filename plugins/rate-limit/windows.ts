/** A limited number of windows in this process. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Limit } from './rules.js'
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../../lib/cache/lru-options.js'

export interface Window {
  count: number
  /** In milliseconds since 1970. */
  resetAt: number
}

/** Evicts the least recently used windows first. */
export class Windows {
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
    if (now >= window.resetAt || window.resetAt - now > windowMs) {
      window.count = 0
      window.resetAt = now + windowMs
    }
    return window
  }

  /** The window, ended or not; a new one has an end in the past. */
  open (client: string, bucket: string): Window {
    const key = keyOf(client, bucket)
    let window = this.#windows.get(key)
    if (window === undefined) this.#windows.set(key, window = { count: 0, resetAt: 0 })
    return window
  }

  find (client: string, bucket: string): Window | undefined {
    return this.#windows.get(keyOf(client, bucket))
  }
}

/** Windows of many owners. An owner's own windows are evicted first, then the least recently used owners. */
export class OwnedWindows {
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

/** Addresses and tenants' ids have no space. */
function keyOf (client: string, bucket: string): string {
  return `${client} ${bucket}`
}
