/** Work on the rows of many tenants, in turns: a tenant with many rows or a slow database delays the others for a few seconds only. */
import { forEachTenant } from '../../lib/concurrency/by-tenant.js'
import { isOutage } from '../../lib/database/failures.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

export const longestTurn = 5000 // ms of a tenant in a round
const atOnce = 4 // tenants

interface TenantRow {
  readonly tenant: Owner
}

interface RoundWork<Row extends TenantRow> {
  /** The next page of rows, without those of the skipped tenants; empty after the last page. */
  readonly next: (skipped: readonly Owner[]) => Promise<readonly Row[]>
  readonly work: (row: Row) => Promise<void>
  /** Gets the errors of `work`. */
  readonly failed: (row: Row, error: unknown) => void
  readonly turnMs: number
  readonly signal: AbortSignal | undefined
}

/** The turn of a tenant in a round. */
class Turn {
  private spentMs = 0
  private madeProgress = false
  private hasOutage = false

  constructor (private readonly maxMs: number) {}

  get isOver (): boolean {
    return this.hasOutage || this.spentMs > this.maxMs
  }

  /** Whether the tenant needs another turn: its time was too short, but long enough for some work. */
  get wantsMore (): boolean {
    return this.isOver && this.madeProgress && !this.hasOutage
  }

  async run (work: () => Promise<void>, failed: (error: unknown) => void): Promise<void> {
    const start = performance.now()
    try {
      await work()
      this.madeProgress = true
    } catch (error) {
      this.hasOutage = isOutage(error)
      failed(error)
    }
    this.spentMs += performance.now() - start
  }
}

/**
 * Works on the rows of each tenant until its turn has ended, or until an outage of its database. Returns whether another round should
 * follow, since a tenant had too little time.
 */
export async function sweepRound<Row extends TenantRow> ({ next, work, failed, turnMs, signal }: RoundWork<Row>): Promise<boolean> {
  const turns = new Map<Owner, Turn>()
  const turnOf = (tenant: Owner): Turn => {
    const turn = turns.get(tenant) ?? new Turn(turnMs)
    turns.set(tenant, turn)
    return turn
  }

  async function workOn (rows: readonly Row[]): Promise<void> {
    for (const row of rows) {
      const turn = turnOf(row.tenant)
      if (turn.isOver || signal?.aborted === true) return
      await turn.run(() => work(row), (error) => failed(row, error))
    }
  }

  const skipped = () => [...turns].filter(([, turn]) => turn.isOver).map(([tenant]) => tenant)
  for (let page = await next([]); page.length > 0 && signal?.aborted !== true; page = await next(skipped())) {
    await forEachTenant(page, atOnce, workOn)
  }
  return signal?.aborted !== true && [...turns.values()].some((turn) => turn.wantsMore)
}
