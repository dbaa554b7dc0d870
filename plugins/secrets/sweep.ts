/** Unused secrets: notes their expiry in the audit log and ends grace periods. */
import { type Kysely, sql } from 'kysely'
import { maxSweptRows as maxRows, partOf, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { dayMs } from '../../lib/time/spans.js'
import { noteExpired } from './store.js'

const deletedFor = 7 * dayMs // ms that a deleted secret's row stays; a new secret with the same key continues its version numbers

/** Locks rows of secrets in the same order as every statement, to avoid deadlocks. */
const ended = (condition: ReturnType<typeof sql>) =>
  sql`select tenant_id, key from tenantry.secrets where ${condition} order by tenant_id, key limit ${maxRows} for no key update skip locked`

/** Sweeps once; false if another server is sweeping now. */
export function sweepSecrets (db: Kysely<SystemTables>, at: Date): Promise<boolean> {
  const parts = [
    noteExpired(ended(sql`expires_at <= ${at} and expired_at is null and deleted_at is null`), at),
    sql`update tenantry.secrets s set previous_value = null, previous_version = null, previous_valid_until = null
      from (${ended(sql`previous_valid_until <= ${at}`)}) e where s.tenant_id = e.tenant_id and s.key = e.key`,
    sql`delete from tenantry.secret_earlier_values e using (
      select tenant_id, key, version from tenantry.secret_earlier_values where valid_until <= ${at} order by tenant_id, key, version limit ${maxRows} for update skip locked
    ) ended where e.tenant_id = ended.tenant_id and e.key = ended.key and e.version = ended.version`,
    sql`delete from tenantry.secrets s
      using (${ended(sql`deleted_at <= ${new Date(at.getTime() - deletedFor)}`)}) e where s.tenant_id = e.tenant_id and s.key = e.key`
  ]
  return sweep(db, 'tenantry.secrets.sweep', parts.map((statement) => partOf(statement)))
}
