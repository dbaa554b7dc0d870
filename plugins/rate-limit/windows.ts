/** The windows of this process, up to a bound. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Limit } from './rules.js'

export interface Window {
  count: number
  /** In milliseconds since 1970. */
  resetAt: number
}

/** Two look-ups, by bucket and by client, cost less than one of a concatenated string: the hashes of both are known. */
type Generation = Map<string, Map<string, Window>>

/**
 * Windows have two generations. A used window moves to the young one. When that holds half of the bound, the old one is
 * dropped as a whole. So an active client is only forgotten after many others.
 */
export class Windows {
  readonly #half: number
  #young: Generation = new Map()
  #old: Generation = new Map()
  #youngSize = 0
  #oldSize = 0

  /** @param max windows at most */
  constructor (max: number) {
    this.#half = Math.max(1, Math.floor(max / 2))
  }

  /** The number of windows, including ended ones that are not dropped yet. */
  get size (): number {
    return this.#youngSize + this.#oldSize
  }

  /** The current window. A new one if there is none, or if its end is further away than its length: the clock was set back. */
  running (client: string, limit: Limit, now: number): Window {
    const { bucket, rule: { windowMs } } = limit
    const window = this.find(client, bucket)
    if (window === undefined) return this.#remember(client, bucket, { count: 0, resetAt: now + windowMs })
    if (now >= window.resetAt || window.resetAt - now > windowMs) {
      window.count = 0
      window.resetAt = now + windowMs
    }
    return window
  }

  /** The known window, even if it has ended; otherwise a new one with an end in the past. */
  open (client: string, bucket: string): Window {
    return this.find(client, bucket) ?? this.#remember(client, bucket, { count: 0, resetAt: 0 })
  }

  find (client: string, bucket: string): Window | undefined {
    const window = this.#young.get(bucket)?.get(client)
    if (window !== undefined) return window
    const clients = this.#old.get(bucket)
    const aged = clients?.get(client)
    if (aged === undefined) return undefined
    clients?.delete(client)
    this.#oldSize--
    return this.#remember(client, bucket, aged)
  }

  #remember (client: string, bucket: string, window: Window): Window {
    if (this.#youngSize >= this.#half) {
      this.#old = this.#young
      this.#oldSize = this.#youngSize
      this.#young = new Map()
      this.#youngSize = 0
    }
    let clients = this.#young.get(bucket)
    if (clients === undefined) this.#young.set(bucket, clients = new Map())
    clients.set(client, window)
    this.#youngSize++
    return window
  }
}

/**
 * Windows of many owners: each owner pushes out its own windows first. Owners have two generations too, by their number of
 * windows.
 */
export class OwnedWindows {
  readonly #half: number
  readonly #maxOfOwner: number
  #young = new Map<string, Windows>()
  #old = new Map<string, Windows>()
  #youngSize = 0

  /** @param max windows at most, apart from those of a single owner */
  constructor (max: number, maxOfOwner: number) {
    this.#half = Math.max(1, Math.floor(max / 2))
    this.#maxOfOwner = maxOfOwner
  }

  get size (): number {
    let size = 0
    for (const owners of [this.#young, this.#old]) {
      for (const windows of owners.values()) size += windows.size
    }
    return size
  }

  running (owner: Owner, client: string, limit: Limit, now: number): Window {
    const windows = this.#of(owner)
    const before = windows.size
    const window = windows.running(client, limit, now)
    this.#youngSize += windows.size - before
    return window
  }

  find (owner: Owner, client: string, bucket: string): Window | undefined {
    const windows = this.#young.get(owner)
    if (windows === undefined) return this.#old.get(owner)?.find(client, bucket)
    const before = windows.size
    const window = windows.find(client, bucket)
    this.#youngSize += windows.size - before
    return window
  }

  #of (owner: Owner): Windows {
    const known = this.#young.get(owner)
    if (known !== undefined) return known
    if (this.#youngSize >= this.#half) {
      this.#old = this.#young
      this.#young = new Map()
      this.#youngSize = 0
    }
    const windows = this.#old.get(owner) ?? new Windows(this.#maxOfOwner)
    this.#old.delete(owner)
    this.#young.set(owner, windows)
    this.#youngSize += windows.size
    return windows
  }
}
