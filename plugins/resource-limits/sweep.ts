/** Removes what was counted in periods that are over. */
import type { FastifyBaseLogger } from 'fastify'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { sql } from 'kysely'

const every = 3_600_000 // ms; what is over is judged when it is looked at, so that only rows wait for it
const after = 86_400_000 // ms that a row stays once its last period is over, for servers whose clocks differ
const maxRows = 10_000 // a statement
const lock = 'tenantry.resource_usage.sweep'

/** Sweeps once; false where another server does so now. */
export async function sweepUsage (db: Kysely<SystemTables>, at: Date): Promise<boolean> {
  for (let rows = maxRows; rows >= maxRows;) {
    // Between the statements others get their turn.
    rows = await db.transaction().execute(async (transaction) => {
      const { rows: [row] } = await sql<{ locked: boolean }>`select pg_try_advisory_xact_lock(hashtextextended(${lock}, 0)) as locked`.execute(transaction)
      return row?.locked === true ? await deleteEnded(transaction, new Date(at.getTime() - after)) : -1
    })
    if (rows === -1) return false
  }
  return true
}

async function deleteEnded (db: Kysely<SystemTables>, before: Date): Promise<number> {
  const { rows: [row] } = await sql<{ count: number }>`with ended as (
    select tenant_id, user_id, resource, metric from tenantry.resource_usage where ends_at <= ${before} limit ${maxRows} for update skip locked
  ), gone as (
    delete from tenantry.resource_usage u using ended e
    where u.tenant_id = e.tenant_id and u.user_id = e.user_id and u.resource = e.resource and u.metric = e.metric returning u.tenant_id
  ), counted as (
    update tenantry.resource_limits l set counters = greatest(0, l.counters - g.rows)
    from (select tenant_id, count(*)::int as rows from gone group by tenant_id) g where l.tenant_id = g.tenant_id
  ) select count(*)::int as count from gone`.execute(db)
  return row?.count ?? 0
}

/** Sweeps every hour, the servers of one database at different times; returns the end of it, which waits for one that runs. */
export function startSweeping (db: Kysely<SystemTables>, log: FastifyBaseLogger, now: () => number): () => Promise<void> {
  let running: Promise<unknown> = Promise.resolve()
  const sweep = () => {
    running = sweepUsage(db, new Date(now())).catch((err: unknown) => log.warn({ err }, 'what users have used in periods that are over could not be swept; it is tried again'))
  }
  let timer = setTimeout(() => {
    sweep()
    timer = setInterval(sweep, every).unref()
  }, Math.random() * every).unref()
  return async () => {
    // Node clears either kind of timer with either function.
    clearTimeout(timer)
    await running
  }
}
