/**
 * Shares a limited number of connections among tenants. A tenant with busy connections gets another one only while enough stay free
 * for other tenants. If a tenant without connections waits, a tenant with the most gives one up.
 */
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import type { Connection } from './connection.js'

/** The owner of connections that serve all tenants. The document limits their number. */
export const allTenants: Owner = platformRef

const heldPerFree = 4 // a tenant alone gets four fifths of the connections

export interface Entry {
  readonly key: string
  /** The tenant, or `allTenants`. */
  readonly owner: Owner
  readonly opened: Promise<Connection>
  /** null until the connection is open. */
  connection: Connection | null
  /** Calls that use the connection. */
  active: number
}

export interface Shares {
  /** Busy connections of the owner. 0 for `allTenants`, whose claims come first. */
  held(owner: Owner): number
  /** Whether the owner may have another connection, if necessary by replacing an idle one. */
  mayTake(owner: Owner): boolean
  /** The idle connection to replace: the least recently used one of the owner with the most connections. */
  idle(): Entry | undefined
  /**
   * The busy connection to give up: the least recently used one of the owner with the most.
   * Its owner must hold two more than the claimant, or any if the claimant has none.
   */
  spare(claimant: string, except: ReadonlySet<Entry>): Entry | undefined
}

/** @param entries least recently used first */
export function sharesOf (entries: Iterable<Entry>, max: number): Shares {
  const all = [...entries]
  const busy = all.filter(isBusy)
  const busyOf = countByOwner(busy)
  const held = (owner: Owner) => busyOf.get(owner) ?? 0

  return {
    held,
    mayTake (owner) {
      const free = max - busy.length
      return free > 0 && (free - 1) * heldPerFree >= held(owner)
    },
    idle () {
      const owned = countByOwner(all)
      return most(all.filter((entry) => !isBusy(entry)), ({ owner }) => owned.get(owner) ?? 1)
    },
    spare (claimant: Owner, except) {
      const kept = countByOwner(busy.filter((entry) => !except.has(entry)))
      const enough = held(claimant) === 0 ? 1 : held(claimant) + 2
      const owners = busy.filter((entry) =>
        !except.has(entry) && entry.owner !== claimant && entry.owner !== allTenants && (kept.get(entry.owner) ?? 0) >= enough
      )
      return most(owners, ({ owner }) => kept.get(owner) ?? 0)
    }
  }
}

/** A connection that is still opening cannot be ended either. */
function isBusy ({ active, connection }: Entry): boolean {
  return active > 0 || connection === null
}

function countByOwner (entries: readonly Entry[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { owner } of entries) if (owner !== allTenants) counts.set(owner, (counts.get(owner) ?? 0) + 1)
  return counts
}

/** The first entry with the highest number. */
function most (entries: readonly Entry[], numberOf: (entry: Entry) => number): Entry | undefined {
  return entries.reduce<Entry | undefined>(
    (best, entry) => best === undefined || numberOf(entry) > numberOf(best) ? entry : best,
    undefined
  )
}
