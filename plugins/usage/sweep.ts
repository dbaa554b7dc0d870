/** Removes daily usage figures that are older than two years, and what the ledger no longer needs. */
import { type Kysely, sql } from 'kysely'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { dayMs } from '../../lib/time/spans.js'
import { dayOf } from './periods.js'

/** Days for which figures are kept: two years and the months around them. */
export const keptDays = 800

/** @param now milliseconds since 1970 */
export async function sweepUsage (db: Kysely<SystemTables>, now: number): Promise<void> {
  const oldest = dayOf(now - keptDays * dayMs)
  await sweep(db, 'tenantry.usage.sweep', [
    removal('tenantry.usage_requests', sql`day < ${oldest}`),
    removal('tenantry.usage_counters', sql`period < ${oldest}`),
    // Reservations resolved by other instances are kept in case their own returns.
    removal('tenantry.usage_reservations', sql`resolved_at < clock_timestamp() - interval '1 day'`),
    removal('tenantry.usage_instances', sql`seen_at < clock_timestamp() - interval '7 days'`),
    // A write cannot happen later than the maximum duration of a statement.
    removal('tenantry.usage_gauges', sql`value = 0 and written_at < clock_timestamp() - interval '10 minutes'`)
  ])
}
