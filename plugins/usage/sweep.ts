/** Removes daily usage figures that are older than two years. */
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
    removal('tenantry.usage_counters', sql`period < ${oldest}`)
  ])
}
