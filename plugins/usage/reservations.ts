/**
 * Amounts that are reserved before they are used, and booked afterwards. The end of a reservation is written once, however
 * often that is tried.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Plans } from '../../lib/plans.js'
import type { Ending, UsageStore } from './store.js'
import type { Notices } from './notices.js'
import { randomUUID } from 'node:crypto'
import { failure } from '../../lib/errors.js'
import { allowed, refusal, refuseAmount, type Reserved } from './metrics.js'
import { dayOf, total } from './periods.js'

const maxSettled = 1000 // a statement

/** An amount that an operation may use. One of the two ends it; whatever is called after that does nothing. */
export interface Reservation {
  /**
   * Books what was used: more or less than was reserved, 0 to 2^53 - 1. It is never refused; where the database cannot be
   * reached it is written later. It counts for the day on which it was reserved.
   *
   * @param within a transaction, which books it when it commits. After a rollback, `release` it. It rejects where the statement fails.
   */
  settle (amount: number, within?: Kysely<SystemTables>): Promise<void>
  /** Books nothing. */
  release (): Promise<void>
}

export interface Reservations {
  reserve (tenant: string, counter: Reserved, amount: number): Promise<Reservation>
  /** Ends those whose end could not be written. */
  settleLate (): Promise<void>
  readonly late: number
}

export interface ReservationsParts {
  readonly store: Pick<UsageStore, 'reserve' | 'settle'>
  readonly instance: string
  readonly plans: Plans
  /** Resolves when the database knows the instance. */
  readonly registered: () => void | Promise<void>
  /** Told of refusals. */
  readonly notices: Pick<Notices, 'reached'>
  readonly now: () => number
  readonly log: FastifyBaseLogger
}

export function createReservations ({ store, instance, plans, registered, notices, now, log }: ReservationsParts): Reservations {
  /** What was used of each, null for nothing. */
  const late = new Map<string, number | null>()

  async function end (tenant: string, ending: Ending): Promise<void> {
    try {
      await store.settle([ending], tenant)
    } catch (err) {
      late.set(ending.id, ending.amount)
      log.warn({ err }, 'what was used of a reservation could not be booked; it is kept and tried again')
    }
  }

  function reservation (tenant: string, id: string): Reservation {
    let ended: Promise<void> | undefined
    return {
      async settle (amount, within) {
        refuseAmount(amount, 0)
        if (within !== undefined) return await store.settle([{ id, amount }], tenant, within)
        ended ??= end(tenant, { id, amount })
        await ended
      },
      async release () {
        ended ??= end(tenant, { id, amount: null })
        await ended
      }
    }
  }

  return {
    async reserve (tenant, counter, amount) {
      refuseAmount(amount, 1)
      await registered()
      const id = randomUUID()
      const period = counter === 'storage_bytes' ? total : dayOf(now())
      const outcome = await store.reserve({ id, instance, tenant, counter, period, amount }, (tier) => allowed(counter, plans.of(tier))).catch((error: unknown) => {
        // It may have been reserved all the same, for nobody.
        late.set(id, null)
        throw error
      })
      if (outcome === null) throw failure('tenantUnknown')
      if (!outcome.admitted) {
        const plan = plans.of(outcome.plan)
        notices.reached(tenant, counter, plan)
        throw refusal(plans, counter, plan, outcome.taken + amount)
      }
      return reservation(tenant, id)
    },
    async settleLate () {
      while (late.size > 0) {
        const endings = [...late].slice(0, maxSettled).map(([id, amount]): Ending => ({ id, amount }))
        await store.settle(endings, null)
        for (const { id } of endings) late.delete(id)
      }
    },
    get late () { return late.size }
  }
}
