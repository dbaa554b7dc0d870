/**
 * Reserves amounts before their use, and books the used amounts afterwards. The end of a reservation is written once, even if
 * it is attempted repeatedly.
 */
import { randomUUID } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import { type Owner, serverRef } from '../../lib/identity/tenant-ref.js'
import type { Plans } from '../../lib/plans/plans.js'
import { allowed, checkAmount, refusal, type Reserved } from './metrics.js'
import type { Notices } from './notices.js'
import { dayOf, total } from './periods.js'
import type { Ending, UsageStore } from './store.js'

const maxSettled = 1000 // per statement
export const maxUncertain = 10_000 // reservations of unknown outcome to release later; any beyond this number end with the instance
const summed = ['llm_tokens', 'ai_cost'] as const

/** An amount that an operation may use. The first call of either method ends it; later calls have no effect. */
export interface Reservation {
  /**
   * Books the used amount, 0 to 2^53 - 1, which may differ from the reserved one. It never rejects for a limit. If the database is
   * unreachable, the amount is written later. It counts for the day of the reservation.
   *
   * @param within a transaction, which books it when it commits. After a rollback, `release` it. It rejects if the statement fails.
   */
  settle(amount: number, within?: Kysely<SystemTables>): Promise<void>
  /** Books nothing. */
  release(): Promise<void>
}

/** Amounts of several counters that an operation may use together. The first call of either method ends them. */
export interface JointReservation {
  /** Books the used amounts, 0 to 2^53 - 1 each; 0 for omitted counters. */
  settle(amounts: Amounts): Promise<void>
  release(): Promise<void>
}

/** Whole numbers of tokens, and of millionths of a USD. */
export type Amounts = { readonly [counter in Exclude<Reserved, 'storage_bytes'>]?: number }

export interface ReservationsParts {
  readonly store: Pick<UsageStore, 'reserve' | 'settle'>
  readonly instance: string
  readonly plans: Plans
  /** Resolves when the database has a row for the instance. */
  readonly registered: () => void | Promise<void>
  /** Called for refusals. */
  readonly notices: Pick<Notices, 'reached'>
  readonly now: () => number
  readonly log: FastifyBaseLogger
}

export function createReservations ({ store, instance, plans, registered, notices, now, log }: ReservationsParts) {
  /** Endings to write later: the used amount by reservation id; null to release. */
  const unwritten = new Map<string, number | null>()

  async function end (tenant: Owner, endings: readonly Ending[]): Promise<void> {
    try {
      await store.settle(endings, tenant)
    } catch (err) {
      for (const { id, amount } of endings) unwritten.set(id, amount)
      log.warn({ err }, 'the used amount of a reservation could not be written; it is kept, and written later')
    }
  }

  /** The returned function ends reservations: its first call decides. */
  function ender (tenant: Owner): (endings: readonly Ending[]) => Promise<void> {
    let ended: Promise<void> | undefined
    return (endings) => {
      ended ??= end(tenant, endings)
      return ended
    }
  }

  const limitsTexts = new Map<string, string>()

  /** In the format of the store. */
  function limitsOf (counters: readonly Reserved[]): string {
    const key = counters.join()
    const known = limitsTexts.get(key)
    if (known !== undefined) return known
    const limits = ['', ...plans.tiers].map((tier) => [tier, counters.map((counter) => allowed(counter, plans.of(tier)))])
    const text = JSON.stringify(Object.fromEntries(limits))
    limitsTexts.set(key, text)
    return text
  }

  /** Resolves with the amounts and the ids of their reservations. */
  async function place<Counter extends Reserved> (
    tenant: Owner,
    period: string,
    amounts: ReadonlyArray<{ readonly counter: Counter, readonly amount: number }>
  ) {
    for (const { amount } of amounts) checkAmount(amount, 1)
    await registered()
    const placed = amounts.map((one) => ({ id: randomUUID(), ...one }))
    const limits = limitsOf(amounts.map(({ counter }) => counter))
    const found = await store.reserve({ instance, tenant, period, amounts: placed, limits }).catch((error: unknown) => {
      // The reservations may exist all the same. They are released later.
      if (unwritten.size < maxUncertain) { for (const { id } of placed) unwritten.set(id, null) }
      throw error
    })
    if (found === null) throw failure('tenantUnknown')
    for (const [index, { counter, amount }] of placed.entries()) {
      const outcome = found.outcomes[index]
      if (outcome === undefined || outcome.admitted) continue
      const plan = plans.of(found.plan)
      notices.reached(tenant, counter, plan)
      throw refusal(plans, counter, plan, outcome.taken + amount)
    }
    return placed
  }

  return {
    async reserve (tenant: Owner, counter: Reserved, amount: number): Promise<Reservation> {
      const placed = await place(tenant, counter === 'storage_bytes' ? total : dayOf(now()), [{ counter, amount }])
      const endings = (used: number | null) => placed.map(({ id }) => ({ id, amount: used }))
      const finish = ender(tenant)
      return {
        async settle (used, within) {
          checkAmount(used, 0)
          await (within === undefined ? finish(endings(used)) : store.settle(endings(used), tenant, within))
        },
        release: () => finish(endings(null))
      }
    },
    async reserveAll (tenant: Owner, amounts: Amounts): Promise<JointReservation> {
      const asked = summed.flatMap((counter) => amounts[counter] === undefined ? [] : [{ counter, amount: amounts[counter] }])
      const placed = await place(tenant, dayOf(now()), asked)
      const endings = (used: Amounts) => placed.map(({ id, counter }) => ({ id, amount: used[counter] ?? null }))
      const finish = ender(tenant)
      return {
        async settle (used) {
          for (const { counter } of placed) checkAmount(used[counter] ?? 0, 0)
          await finish(endings(used))
        },
        release: () => finish(endings({}))
      }
    },
    /** Ends reservations whose settlement or release could not be written. */
    async settleLate (): Promise<void> {
      while (unwritten.size > 0) {
        const endings = [...unwritten].slice(0, maxSettled).map(([id, amount]): Ending => ({ id, amount }))
        await store.settle(endings, serverRef)
        for (const { id } of endings) unwritten.delete(id)
      }
    },
    get late (): number {
      return unwritten.size
    }
  }
}
