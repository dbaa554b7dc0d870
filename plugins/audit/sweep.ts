/** Removes expired entries. */
import type { SystemTables } from '../../lib/database/system-tables.js'
import { sql, type Kysely } from 'kysely'
import { maxSweptRows as maxRows, removal, sweep } from '../../lib/database/retention.js'
import { unlimited, type Plan, type Plans } from '../../lib/plans/plans.js'

export interface Retention {
  /** The plans, which set how long a tenant's entries are kept. */
  readonly plans: Plans
  /** The days that the platform's own are kept. */
  readonly retentionDays: number
}

/** Sweeps once; false if another server does so now. */
export function sweepAudit (db: Kysely<SystemTables>, { plans, retentionDays }: Retention, at: Date): Promise<boolean> {
  return sweep(db, 'tenantry.audit_log.sweep', [
    (transaction) => deleteOfTenants(transaction, plans, at),
    (transaction) => deleteOfPlatform(transaction, retentionDays, at),
    removal('tenantry.audit_log', sql`kept_until <= ${at}`)
  ])
}

/** The number of removed entries that their tenant's plan no longer keeps. */
async function deleteOfTenants (db: Kysely<SystemTables>, plans: Plans, at: Date): Promise<number> {
  const daysOf = (plan: Plan) => plan.limits.tenantConfig.auditRetentionDays
  const { numAffectedRows = 0n } = await sql`delete from tenantry.audit_log where id in (
    select old.id from tenantry.tenants t
    left join unnest(${plans.tiers}::text[], ${plans.all.map(daysOf)}::int[]) as known (plan, days) on known.plan = t.plan
    cross join lateral (select coalesce(known.days, ${daysOf(plans.of(undefined))}::int) as days) kept
    join lateral (
      select a.id from tenantry.audit_log a where a.tenant_id = t.id and a.created_at <= ${at}::timestamptz - make_interval(days => kept.days) limit ${maxRows}
    ) old on kept.days <> ${unlimited} limit ${maxRows}
  )`.execute(db)
  return Number(numAffectedRows)
}

async function deleteOfPlatform (db: Kysely<SystemTables>, days: number, at: Date): Promise<number> {
  const { numAffectedRows = 0n } = await sql`delete from tenantry.audit_log where id in (
    select id from tenantry.audit_log where tenant_id = '' and created_at <= ${at}::timestamptz - make_interval(days => ${days}::int) limit ${maxRows}
  )`.execute(db)
  return Number(numAffectedRows)
}
