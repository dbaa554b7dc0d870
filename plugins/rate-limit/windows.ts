/** Windows that run in this process, as many as there may be. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Limit } from './rules.js'

export interface Window {
  count: number
  /** In milliseconds since 1970. */
  resetAt: number
}

/** By bucket and client: two look-ups of strings whose hashes are known cost less than one of a string made anew. */
type Generation = Map<string, Map<string, Window>>

/**
 * Windows live in two generations: one that is used moves to the young one, and when that holds half of the bound the
 * old one is dropped as a whole. A client in use is thus never forgotten before that many others came.
 */
export class Windows {
  readonly #half: number
  #young: Generation = new Map()
  #old: Generation = new Map()
  #youngSize = 0
  #oldSize = 0

  /** @param max windows held at most */
  constructor (max: number) {
    this.#half = Math.max(1, Math.floor(max / 2))
  }

  /** How many are held; those that have ended count until they are dropped. */
  get size (): number {
    return this.#youngSize + this.#oldSize
  }

  /** The window that runs; a new one where none does, or its end is further away than a window is long, as after a clock was set back. */
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

  /** The window that is remembered, ended or not; a new one, with an end in the past, if there is none. */
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
 * Windows of many owners, each of whom pushes out its own first. Owners live in two generations too, by the windows
 * that they hold.
 */
export class OwnedWindows {
  readonly #half: number
  readonly #maxOfOwner: number
  #young = new Map<string, Windows>()
  #old = new Map<string, Windows>()
  #youngSize = 0

  /** @param max windows held at most, but for those that one owner may hold */
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
