/** Where requests are counted. The contract stands here; the memory adapter below it. */

/** What a client has drawn from a bucket. It may be the store's own record: read it at once, never keep it. */
export interface Usage {
  /** Requests in the window that runs, the one just counted included. */
  readonly count: number
  /** When the window ends, in milliseconds since 1970. */
  readonly resetAt: number
}

/**
 * Counts requests in fixed windows that begin with a client's first request. The client (a tenant, or an address) is the
 * first part of every key: no client can draw on another's count.
 */
export interface RateLimitStore {
  /** Counts one request of the client at the time `now`, in milliseconds since 1970. */
  take (client: string, bucket: string, windowMs: number, now: number): Usage | Promise<Usage>
  /** Takes one request back from the window that ends at `resetAt`; none where another window runs by now. */
  giveBack (client: string, bucket: string, resetAt: number): void | Promise<void>
}

interface Window {
  count: number
  resetAt: number
}

/** Windows by bucket and client: two look-ups of strings whose hashes are known cost less than one of a string made anew. */
type Generation = Map<string, Map<string, Window>>

const defaultMaxWindows = 100_000 // about 10 MB

/**
 * Counts in this process. Windows live in two generations: one that is used moves to the young one, and when that holds
 * half of the bound the old one is dropped as a whole. A client in use is thus never forgotten before 50,000 others came.
 *
 * @param maxWindows windows held at most, over all clients and buckets. Default: 100,000
 */
export function createMemoryStore (maxWindows = defaultMaxWindows): RateLimitStore {
  const half = Math.max(1, Math.floor(maxWindows / 2))
  let young: Generation = new Map()
  let old: Generation = new Map()
  let youngWindows = 0

  function remember (client: string, bucket: string, window: Window): void {
    if (youngWindows >= half) {
      old = young
      young = new Map()
      youngWindows = 0
    }
    let clients = young.get(bucket)
    if (clients === undefined) young.set(bucket, clients = new Map())
    clients.set(client, window)
    youngWindows++
  }

  function find (client: string, bucket: string): Window | undefined {
    const window = young.get(bucket)?.get(client)
    if (window !== undefined) return window
    const clients = old.get(bucket)
    const aged = clients?.get(client)
    if (aged === undefined) return undefined
    clients?.delete(client)
    remember(client, bucket, aged)
    return aged
  }

  return {
    take (client, bucket, windowMs, now) {
      const window = find(client, bucket)
      if (window === undefined) {
        const begun = { count: 1, resetAt: now + windowMs }
        remember(client, bucket, begun)
        return begun
      }
      if (now >= window.resetAt) {
        window.count = 1
        window.resetAt = now + windowMs
      } else {
        window.count++
      }
      return window
    },
    giveBack (client, bucket, resetAt) {
      const window = find(client, bucket)
      if (window?.resetAt === resetAt && window.count > 0) window.count--
    }
  }
}
