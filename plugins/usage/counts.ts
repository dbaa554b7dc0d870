/** The counts of requests in memory, until the ledger writes them. */
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { dayMs } from '../../lib/time/spans.js'
import type { Tenant } from '../tenancy/index.js'
import { maxAmount } from './metrics.js'
import { dayOf } from './periods.js'

const maxEntries = 100_000 // waiting entries, each of a tenant and a day; reached only while the database is unreachable

/** Figures of tenants on a day, to add to the ledger. Each tenant has one index in all lists. */
export interface Figures {
  /** `YYYY-MM-DD`. */
  readonly day: string
  readonly tenants: readonly string[]
  /** The creation time of each tenant. */
  readonly since: readonly (number | null)[]
  readonly calls: readonly number[]
  readonly bandwidth: readonly number[]
  /** Tenants that freed storage, which has no day. */
  readonly freed: readonly Freed[]
}

export interface Freed {
  readonly tenant: Owner
  readonly since: number | null
  /** Bytes. */
  readonly amount: number
}

/** The figures of a tenant on a day. */
export interface Counts {
  /** The creation time of the tenant, ms since 1970; null: the tenant that has the id when it is written. */
  since: number | null
  calls: number
  bandwidth: number
  /** Bytes of freed storage. */
  freed: number
}

export const noFigures: Figures = { day: '', tenants: [], since: [], calls: [], bandwidth: [], freed: [] }

export type WaitingCounts = ReturnType<typeof createCounts>

export function add (sum: number, amount: number): number {
  return Math.min(sum + amount, maxAmount)
}

/** Figures are kept with the creation time of their tenant, so that a later tenant of the same id does not get them. */
export function createCounts (now: () => number, max = maxEntries) {
  const days = new Map<string, Map<Owner, Counts>>()
  let today = new Map<Owner, Counts>()
  let [start, end] = [0, 0] // of today
  let size = 0
  let dropped = 0

  /** Also to an earlier day, if the clock was set back. */
  function turn (at: number): void {
    start = Math.floor(at / dayMs) * dayMs
    end = start + dayMs
    const day = dayOf(start)
    today = days.get(day) ?? new Map()
    days.set(day, today)
  }

  function make (tenant: Owner, since: number | null): Counts | undefined {
    if (size >= max) {
      dropped++
      return undefined
    }
    const counts = { since, calls: 0, bandwidth: 0, freed: 0 }
    today.set(tenant, counts)
    size++
    return counts
  }

  function remove (day: string, counted: Map<string, Counts>, entries: number): Figures {
    const tenants: string[] = []
    const created: Array<number | null> = []
    const calls: number[] = []
    const bandwidth: number[] = []
    const freed: Freed[] = []
    for (const [tenant, counts] of counted) {
      if (entries-- === 0) break
      counted.delete(tenant)
      size--
      if (counts.freed > 0) freed.push({ tenant: tenantRef(tenant), since: counts.since, amount: counts.freed })
      if (counts.calls === 0 && counts.bandwidth === 0) continue
      tenants.push(tenant)
      created.push(counts.since)
      calls.push(counts.calls)
      bandwidth.push(counts.bandwidth)
    }
    return { day, tenants, since: created, calls, bandwidth, freed }
  }

  /**
   * The entry to add to now; undefined if nothing is counted: for a deleted tenant, and while too many entries wait. If
   * `since` is null, the entry of any tenant of this id is used.
   */
  function of (tenant: Owner, since: number | null): Counts | undefined {
    const at = now()
    if (at < start || at >= end) turn(at)
    const counts = today.get(tenant)
    if (counts === undefined) return make(tenant, since)
    if (counts.since === since || since === null) return counts
    // The tenant was deleted since then and its last requests end, or it was created again.
    if (counts.since !== null && since < counts.since) return undefined
    if (counts.since !== null) counts.calls = counts.bandwidth = counts.freed = 0
    counts.since = since
    return counts
  }

  return {
    /** Counts a request of the tenant, and the bytes of its bodies. */
    request ({ id, createdAt }: Pick<Tenant, 'id' | 'createdAt'>, bytes: number): void {
      const counts = of(id, createdAt.getTime())
      if (counts === undefined) return
      counts.calls = add(counts.calls, 1)
      counts.bandwidth = add(counts.bandwidth, bytes)
    },
    of,
    /** Whether the tenant has figures of today. */
    has (tenant: Owner): boolean {
      const at = now()
      return at >= start && at < end && today.has(tenant)
    },
    /** Removes and returns figures of one day, up to this number of entries; `more` if others are left. */
    take (entries: number): { figures: Figures, more: boolean } {
      for (const [day, counted] of days) {
        if (counted.size > 0) return { figures: remove(day, counted, entries), more: size > 0 }
        if (counted !== today) days.delete(day)
      }
      return { figures: noFigures, more: false }
    },
    /** Entries: a tenant on a day. */
    get size (): number {
      return size
    },
    /** The number of entries dropped since the last call, because too many were waiting. */
    dropped (): number {
      const count = dropped
      dropped = 0
      return count
    }
  }
}
