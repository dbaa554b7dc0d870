/**
 * The open resources of each tenant on this instance. The database has the counts of all instances and admits each new resource.
 * Releases are counted here and written with the next batch.
 */
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { allowed, type Gauge, refusal } from './metrics.js'
import type { ReservationsParts } from './reservations.js'
import type { GaugeValue, UsageStore } from './store.js'

const maxTaken = 1000 // per transaction

export type Gauges = ReturnType<typeof createGauges>

export interface GaugesParts extends Pick<ReservationsParts, 'instance' | 'plans' | 'registered' | 'notices'> {
  readonly store: Pick<UsageStore, 'take'>
}

interface Cell {
  readonly tenant: Owner
  readonly gauge: Gauge
  since: number | null
  held: number
  /** Resources of a deleted tenant of this id: their release changes no figures. */
  stale: number
  changed: boolean
  taking: boolean
  readonly waiting: Waiter[]
}

interface Waiter {
  readonly admit: () => void
  readonly refuse: (error: unknown) => void
}

/** Settles each waiting call, in order. */
type Settle = (waiter: Waiter, index: number) => void

export function createGauges ({ store, instance, plans, registered, notices }: GaugesParts) {
  const cells = new Map<string, Cell>()
  let handedOut: Cell[] = []
  let writes = 0

  function cellOf (tenant: Owner, gauge: Gauge): Cell {
    const key = `${gauge} ${tenant}`
    const there = cells.get(key)
    if (there !== undefined) return there
    const cell = { tenant, gauge, since: null, held: 0, stale: 0, changed: false, taking: false, waiting: [] }
    cells.set(key, cell)
    return cell
  }

  function forgetIdle (cell: Cell): void {
    if (cell.held + cell.stale === 0 && !cell.changed && !cell.taking) cells.delete(`${cell.gauge} ${cell.tenant}`)
  }

  /** Admits all waiting calls together: a tenant uses one connection to the database, however many resources it opens at once. */
  async function admitAll (cell: Cell): Promise<void> {
    cell.taking = true
    while (cell.waiting.length > 0) {
      const group = cell.waiting.splice(0, maxTaken)
      const settle = await admit(cell, group.length).catch((error: unknown): Settle => {
        // The admission may have been written all the same.
        cell.changed = true
        return ({ refuse }) => refuse(error)
      })
      // Yields first, so that their next step sees the current values.
      cell.taking = cell.waiting.length > 0
      group.forEach(settle)
    }
    forgetIdle(cell)
  }

  async function admit (cell: Cell, wanted: number): Promise<Settle> {
    const { tenant, gauge } = cell
    await registered()
    const holding = (createdAt: number): number => {
      if (cell.since !== createdAt) {
        cell.stale += cell.held
        cell.held = 0
        cell.since = createdAt
      }
      return cell.held
    }
    const taken = await store.take(
      { instance, tenant, gauge, written: ++writes, wanted },
      holding,
      (tier) => allowed(gauge, plans.of(tier))
    )
    if (taken === null) throw failure('tenantUnknown')
    const { plan, others, admitted } = taken
    cell.held += admitted
    const needed = others + cell.held + 1
    if (admitted < wanted) notices.reached(tenant, gauge, plans.of(plan))
    return ({ admit, refuse }, index) => index < admitted ? admit() : refuse(refusal(plans, gauge, plans.of(plan), needed))
  }

  return {
    /** Admits one more resource, over all instances. Rejects with `planLimit`, `tenantUnknown`. */
    take (tenant: Owner, gauge: Gauge): Promise<void> {
      const cell = cellOf(tenant, gauge)
      return new Promise((resolve, reject) => {
        cell.waiting.push({ admit: resolve, refuse: reject })
        if (!cell.taking) admitAll(cell).catch(reject)
      })
    },
    give (tenant: Owner, gauge: Gauge): void {
      const cell = cells.get(`${gauge} ${tenant}`)
      if (cell === undefined) return
      if (cell.stale > 0) {
        cell.stale--
        forgetIdle(cell)
      } else if (cell.held > 0) {
        cell.held--
        cell.changed = true
      }
    },
    isChanged (): boolean {
      for (const { changed, taking } of cells.values()) if (changed && !taking) return true
      return false
    },
    /** The changed values that are not written yet. One batch at a time: `written` or `rewrite` ends it. */
    changed (): GaugeValue[] {
      handedOut = []
      for (const cell of cells.values()) {
        // While an admission runs, it writes the value itself. Releases wait for it.
        if (!cell.changed || cell.taking) continue
        cell.changed = false
        handedOut.push(cell)
      }
      return handedOut.map(({ tenant, since, gauge, held }) => ({ tenant, since, gauge, value: held, written: ++writes }))
    },
    /** Call it when the last batch is written. */
    written (): void {
      for (const cell of handedOut) forgetIdle(cell)
      handedOut = []
    },
    /** Call it when the database may have wrong values: all values are written again. */
    rewrite (): void {
      for (const cell of cells.values()) cell.changed = true
      handedOut = []
    },
    get size (): number {
      return cells.size
    }
  }
}
