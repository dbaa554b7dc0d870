/** Counts in this process. */
import type { Limit } from './rules.js'
import type { ClientKind, RateLimitStore } from './store.js'
import { createMemoryCounter } from './memory-counter.js'
import { OwnedWindows, Windows, type Window } from './windows.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'

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
      return { admitted, now, count, resetAt, secondCount: other?.count ?? 0, secondResetAt: other?.resetAt ?? 0, store }
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
