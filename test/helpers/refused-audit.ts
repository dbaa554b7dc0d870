/** A database that refuses some entries of the audit log. */
import { type Kysely, sql } from 'kysely'
import type { AuditAction } from '../../lib/database/audit.js'
import type { SystemTables } from '../../lib/database/system-tables.js'

/** The inserts of entries with this action fail from now on. */
export async function refuseAudit (db: Kysely<SystemTables>, action: AuditAction): Promise<void> {
  await sql`create function refuse_audit() returns trigger language plpgsql as $$ begin raise 'no entry can be written'; end $$`.execute(db)
  await sql`create trigger refuse_audit before insert on tenantry.audit_log for each row when (new.action = ${sql.lit(action)}) execute function refuse_audit()`
    .execute(db)
}
