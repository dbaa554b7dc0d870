/** Storage that an upload holds: reserved before the bytes come, and booked with the row of the file. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Reservation, Usage } from '../usage/index.js'
import { isFailure } from '../../lib/errors.js'

const firstStep = 1_048_576 // bytes, where the size is not known
const longestStep = 67_108_864 // bytes

export interface StorageHold {
  /** Reserves until there is room for so many bytes in all. Rejects with `planLimit`. */
  need(bytes: number): Promise<void>
  readonly reserved: number
  /** Books the bytes when the transaction commits. */
  settle(bytes: number, within: Kysely<SystemTables>): Promise<void>
  /** Gives everything back. */
  release(): Promise<void>
}

/**
 * @param usage  null where usage is not counted
 * @param isKnown  the size of the file is known: no more than needed is reserved at a time
 * @param maxBytes  no more is reserved
 */
export function holdStorage (usage: Pick<Usage, 'reserve'> | null, tenant: Owner, isKnown: boolean, maxBytes: number): StorageHold {
  const reservations: Reservation[] = []
  let reserved = usage === null ? Infinity : 0
  let isReleased = false

  async function take (amount: number): Promise<void> {
    if (usage === null) return
    const reservation = await usage.reserve(tenant, 'storage_bytes', amount)
    // The sender left while the storage was being reserved.
    if (isReleased) return await reservation.release()
    reservations.push(reservation)
    reserved += amount
  }

  return {
    get reserved () {
      return reserved
    },
    async need (bytes) {
      const lacking = bytes - reserved
      if (lacking <= 0) return
      const ahead = isKnown ? lacking : Math.max(lacking, Math.min(Math.max(firstStep, reserved), longestStep, maxBytes - reserved))
      try {
        await take(ahead)
      } catch (error) {
        if (ahead === lacking || !isFailure(error, 'planLimit')) throw error
        await take(lacking)
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
