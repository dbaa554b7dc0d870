/** Counts in this process. */
import type { Limit } from './rules.js'
import type { ClientKind, RateLimitStore, Taken } from './store.js'
import { createMemoryCounter } from './memory-counter.js'
import { OwnedWindows, Windows, type Window } from './windows.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'

const defaultMaxWindows = 100_000 // about 10 MB
const ownerShare = 50 // tenants, whose documents' windows fill what all have; one alone takes no more than its part

export interface MemoryStore extends RateLimitStore {
  /** Windows held. */
  readonly size: number
}

/**
 * Tenants, addresses and what the tenants' own documents count are apart: no flood of addresses pushes out the count of
 * a tenant, nor does a tenant with many rules that of another.
 *
 * @param maxWindows windows held at most, of each of the three. Default: 100,000
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
      taken.admitted = window.count < first.rule.max && (second === null || other === null || other.count < second.rule.max)
      if (taken.admitted) {
        window.count++
        if (other !== null) other.count++
      }
      taken.now = now
      taken.count = window.count
      taken.resetAt = window.resetAt
      taken.secondCount = other === null ? 0 : other.count
      taken.secondResetAt = other === null ? 0 : other.resetAt
      return taken
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
  /** The one answer, written anew for each request: nothing is made for it. */
  const taken: Taken = { admitted: false, now: 0, count: 0, resetAt: 0, secondCount: 0, secondResetAt: 0, store }
  return store
}

/** Callers of a tenant's own routes are its own, whom it counts together, and addresses. */
function ownClient (kind: ClientKind, client: string): string {
  return kind === 'tenant' ? '' : client
}
