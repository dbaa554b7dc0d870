/** Waits for statements that wait for locks. */
import { type Kysely, sql } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { until } from './until.js'

/** Resolves when the work waits for a lock of the database, or has ended. */
export async function untilBlocked (db: Kysely<SystemTables>, work: Promise<unknown>): Promise<void> {
  let hasEnded = false
  const end = () => {
    hasEnded = true
  }
  work.then(end, end)
  await until('the work waits for a lock, or has ended', async () => {
    const { rows } = await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
    return hasEnded || rows.length > 0
  })
}
