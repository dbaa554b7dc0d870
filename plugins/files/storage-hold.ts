/** Storage for an upload: reserved before the bytes arrive, and booked with the row of the file. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Reservation, Usage } from '../usage/index.js'
import { isFailure } from '../../lib/errors.js'

const firstStep = 1_048_576 // bytes, if the size is unknown
const longestStep = 67_108_864 // bytes

export interface StorageHold {
  /** Reserves until the total is at least this many bytes. Rejects with `planLimit`. */
  need(bytes: number): Promise<void>
  readonly reserved: number
  /** Books the bytes when the transaction commits. */
  settle(bytes: number, within: Kysely<SystemTables>): Promise<void>
  /** Releases all reservations. */
  release(): Promise<void>
}

/**
 * @param usage  null if usage is not metered
 * @param isKnown  whether the size is known: then reserves no more than needed
 * @param maxBytes  the maximum to reserve ahead
 */
export function holdStorage (usage: Pick<Usage, 'reserve'> | null, tenant: Owner, isKnown: boolean, maxBytes: number): StorageHold {
  const reservations: Reservation[] = []
  let reserved = usage === null ? Infinity : 0
  let isReleased = false

  async function take (amount: number): Promise<void> {
    if (usage === null) return
    const reservation = await usage.reserve(tenant, 'storage_bytes', amount)
    // The sender left during the reservation.
    if (isReleased) return await reservation.release()
    reservations.push(reservation)
    reserved += amount
  }

  return {
    get reserved () {
      return reserved
    },
    async need (bytes) {
      const missing = bytes - reserved
      if (missing <= 0) return
      const ahead = isKnown ? missing : Math.max(missing, Math.min(Math.max(firstStep, reserved), longestStep, maxBytes - reserved))
      try {
        await take(ahead)
      } catch (error) {
        if (ahead === missing || !isFailure(error, 'planLimit')) throw error
        await take(missing)
      }
    },
    async settle (bytes, within) {
      const [first, ...others] = reservations
      await first?.settle(bytes, within)
      for (const other of others) await other.settle(0, within)
    },
    async release () {
      isReleased = true
      await Promise.all(reservations.map((reservation) => reservation.release()))
    }
  }
}
