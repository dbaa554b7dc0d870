/**
 * Limits the waiting jobs of a tenant. They are not counted at each send: a count gives a process an allowance, of which it uses a part
 * before it counts again, so that several processes together stay near the bound.
 */
import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../../lib/cache/lru-options.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure, retryIn } from '../../lib/errors.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'

const maxTenants = 10_000 // tenants in memory
const partOfRemaining = 8 // an eighth of the remaining room may be sent before the next count,
const partOfBound = 1000 // or a thousandth of the bound, if that is more
const retryAfter = 5 // s after which a caller may try again
const fullMs = 1000 // for which a full tenant is refused without another count

export type BacklogLimit = ReturnType<typeof createBacklogLimit>

export interface BacklogLimitParts {
  readonly max: number
  /** The number of its waiting jobs, counted up to `max`. */
  readonly waiting: (tenant: Owner, max: number, db?: Kysely<SystemTables>) => Promise<number>
}

interface Allowance {
  left: number
  /** It counts as full until then, in milliseconds of the process's clock. */
  fullUntil: number
  /** A running count. */
  counting: Promise<void> | null
}

export function createBacklogLimit ({ max, waiting }: BacklogLimitParts) {
  const allowances = new LRUCache<string, Allowance>(lruOptions(maxTenants))

  function allowanceOf (tenant: Owner): Allowance {
    const known = allowances.get(tenant)
    if (known !== undefined) return known
    const allowance: Allowance = { left: 0, fullUntil: 0, counting: null }
    allowances.set(tenant, allowance)
    return allowance
  }

  async function countAgain (tenant: Owner, allowance: Allowance, db?: Kysely<SystemTables>): Promise<void> {
    const remaining = max - await waiting(tenant, max, db)
    allowance.left = Math.min(remaining, Math.max(Math.ceil(remaining / partOfRemaining), Math.ceil(max / partOfBound)))
    allowance.fullUntil = remaining > 0 ? 0 : performance.now() + fullMs
  }

  return {
    /**
     * Adds one more job of the tenant; rejects with `queueFull` if too many wait.
     *
     * @param db the caller's transaction, if it has one
     */
    async take (tenant: Owner, db?: Kysely<SystemTables>): Promise<void> {
      if (tenant === platformRef) return
      const allowance = allowanceOf(tenant)
      while (allowance.left <= 0) {
        if (performance.now() < allowance.fullUntil) throw failure('queueFull', retryIn(retryAfter))
        // Another caller's count may wait for the connection of this transaction.
        if (db !== undefined) await countAgain(tenant, allowance, db)
        else {
          await (allowance.counting ??= countAgain(tenant, allowance).finally(() => {
            allowance.counting = null
          }))
        }
      }
      allowance.left--
    }
  }
}
