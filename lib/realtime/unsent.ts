/** Bounds of the messages that slow clients have not read. */
import { KeyCounts } from '../concurrency/key-counts.js'
import type { Owner } from '../identity/tenant-ref.js'

const maxUnsentBytes = 1_048_576 // of a connection
const maxOfTenant = 67_108_864 // bytes of all its connections
const maxInAll = 4 * maxOfTenant
const uncountedBytes = 65_536 // of a connection; a client that reads has no more at the end of most turns of the event loop
/** Bytes of one write to the network. */
export const maxGatheredBytes = 65_536
/** Unsent bytes of a connection beyond which no earlier changes are read for its client. */
export const littleUnsentBytes = 262_144
const pauseMs = 20 // ms between checks
const stalledMs = 30_000 // ms without progress

/** Resolves with true when little is unsent, and with false after 30 seconds in which the client read nothing. */
export async function drain (unsent: () => number): Promise<boolean> {
  let [bytes, since] = [unsent(), performance.now()]
  while (bytes > littleUnsentBytes) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
    const before = bytes
    bytes = unsent()
    if (bytes < before) since = performance.now()
    else if (performance.now() - since >= stalledMs) return false
  }
  return true
}

export type UnsentBytes = ReturnType<typeof createUnsentBytes>
/** The unsent bytes of one connection. */
export type ConnectionBytes = ReturnType<UnsentBytes['of']>

/** Counts the unsent bytes of the connections of this process. */
export function createUnsentBytes () {
  const byTenant = new KeyCounts<Owner>()

  return {
    /** Begins the count of a new connection of the tenant. */
    of (tenant: Owner) {
      let own = 0
      const count = (bytes: number): void => {
        const counted = bytes > uncountedBytes ? bytes : 0
        if (counted === own) return
        byTenant.add(tenant, counted - own)
        own = counted
      }
      return {
        /** Whether the connection, with this many unsent bytes, may send another message of this many bytes. Counts it as unsent. */
        admits (unsent: number, bytes: number): boolean {
          count(unsent + bytes)
          if (own === 0 || (unsent <= maxUnsentBytes && !byTenant.exceedsShare(tenant, maxOfTenant, maxInAll))) return true
          count(unsent)
          return false
        },
        /** Counts the bytes that are unsent after a write: the network may have taken all of a large message. */
        update: count,
        /** All is sent, or the connection is closed. */
        release: () => count(0)
      }
    }
  }
}
