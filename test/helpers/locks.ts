/** Waits for statements that wait for locks. */
import { type Kysely, sql } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { until } from './until.js'

/** The number `n` of sessions that wait for an advisory lock of this database: the view shows the locks of all databases of the server. */
export const advisoryWaits = `select count(*)::int as n from pg_locks where locktype = 'advisory' and not granted
  and database = (select oid from pg_database where datname = current_database())`

/** The sessions whose last statement has looked for transactions that a deletion of a tenant waits for. */
export const waitingDeletions = `select from pg_stat_activity where datname = current_database()
  and query like 'select "id" from "tenantry"."tenants" where "id" = $1 for update skip locked'`

/** Resolves when the work waits for a lock of the database, or has ended. `waiting`: the number of sessions that wait then. */
export async function untilBlocked (db: Kysely<SystemTables>, work: Promise<unknown>, waiting = 1): Promise<void> {
  let hasEnded = false
  const end = () => {
    hasEnded = true
  }
  work.then(end, end)
  await until('the work waits for a lock, or has ended', async () => {
    const { rows } = await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
    return hasEnded || rows.length >= waiting
  })
}
