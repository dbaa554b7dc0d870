/** Removes usage of periods that have ended. */
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { sql } from 'kysely'
import { maxSweptRows as maxRows, sweep } from '../../lib/database/retention.js'

const after = 86_400_000 // ms that a row stays after its last period, for servers whose clocks differ

/** Sweeps once; false if another server is sweeping now. */
export function sweepUsage (db: Kysely<SystemTables>, at: Date): Promise<boolean> {
  return sweep(db, 'tenantry.resource_usage.sweep', [(transaction) => deleteEnded(transaction, new Date(at.getTime() - after))])
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
