/**
 * Shares a limited number of connections among tenants. A tenant with busy connections gets another one only while enough stay free
 * for other tenants. If a tenant without connections waits, a tenant with the most gives one up.
 */
import { KeyCounts } from '../../lib/concurrency/key-counts.js'
import { platformRef, type TenantLife } from '../../lib/identity/tenant-ref.js'
import type { Connection } from './connection.js'

/** The owner of connections that serve all tenants. The document limits their number. */
export const allTenants: typeof platformRef = platformRef

/** The owner of a connection. A later tenant with the id gets none of an earlier one. */
export type ConnectionOwner = TenantLife | typeof allTenants

export function isOfTenant (owner: ConnectionOwner): owner is TenantLife {
  return owner !== allTenants
}

const heldPerFree = 4 // a tenant alone gets four fifths of the connections

export interface Entry {
  readonly key: string
  readonly owner: ConnectionOwner
  readonly opened: Promise<Connection>
  /** null until the connection is open. */
  connection: Connection | null
  /** Calls that use the connection. */
  active: number
}

/** @param entries least recently used first */
export function sharesOf (entries: Iterable<Entry>, max: number) {
  const all = [...entries]
  const busy = all.filter(isBusy)
  const busyOf = countByOwner(busy)
  /** Busy connections of the owner. 0 for `allTenants`, whose claims come first. */
  const held = (owner: ConnectionOwner): number => busyOf.of(owner)

  return {
    held,
    /** Whether the owner may have another connection, if necessary by replacing an idle one. */
    mayTake (owner: ConnectionOwner): boolean {
      const free = max - busy.length
      return free > 0 && (free - 1) * heldPerFree >= held(owner)
    },
    /** The idle connection to replace: the least recently used one of the owner with the most connections. */
    idle (): Entry | undefined {
      const owned = countByOwner(all)
      return most(all.filter((entry) => !isBusy(entry)), ({ owner }) => Math.max(1, owned.of(owner)))
    },
    /**
     * The busy connection to give up: the least recently used one of the owner with the most.
     * Its owner must hold two more than the claimant, or any if the claimant has none.
     */
    spare (claimant: ConnectionOwner, except: ReadonlySet<Entry>): Entry | undefined {
      const kept = countByOwner(busy.filter((entry) => !except.has(entry)))
      const enough = held(claimant) === 0 ? 1 : held(claimant) + 2
      const given = busy.filter((entry) => !except.has(entry) && entry.owner !== claimant && kept.of(entry.owner) >= enough)
      return most(given, ({ owner }) => kept.of(owner))
    }
  }
}

/** A connection that is still opening cannot be ended either. */
function isBusy ({ active, connection }: Entry): boolean {
  return active > 0 || connection === null
}

function countByOwner (entries: readonly Entry[]): KeyCounts<ConnectionOwner> {
  const counts = new KeyCounts<ConnectionOwner>()
  for (const { owner } of entries) if (isOfTenant(owner)) counts.add(owner, 1)
  return counts
}

/** The first entry with the highest number. */
function most (entries: readonly Entry[], numberOf: (entry: Entry) => number): Entry | undefined {
  let best: Entry | undefined
  for (const entry of entries) if (best === undefined || numberOf(entry) > numberOf(best)) best = entry
  return best
}
