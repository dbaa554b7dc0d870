/** Reads the audit log. */
import { type Kysely, sql } from 'kysely'
import { archivedTenant, type AuditAction, keptText } from '../../lib/database/audit.js'
import { maxSweptRows as maxRows, partOf, removal, sweep, type SweepPart } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { type Plan, type Plans, unlimited } from '../../lib/plans/plans.js'
import { dayMs } from '../../lib/time/spans.js'

/** The highest number of counted and skipped entries, so that the cost is bounded for a log of any length. */
export const maxCounted = 10_000

export interface AuditRow {
  readonly id: string
  readonly timestamp: Date
  readonly action: string
  /** The `sub` of the actor; null for the server itself, and for callers without credentials. */
  readonly userId: string | null
  /** Empty for the platform's own; `archivedTenant` for a deleted tenant. */
  readonly tenant: Owner
  readonly target: string | null
  readonly address: string | null
  readonly outcome: 'success' | 'failure'
  /** The number of uses of a secret in the entry. */
  readonly count: number
  readonly details: Readonly<Record<string, unknown>> | null
}

/** Filters of entries; missing members do not filter. */
export interface AuditFilter {
  /** The tenant of the log; empty for the platform's own, undefined for all. */
  readonly tenant?: string | undefined
  /** The archived entries of this deleted tenant. Not together with `tenant`. */
  readonly deletedTenant?: string | undefined
  /** Only archived entries that are kept beyond this time. */
  readonly keptAt?: Date | undefined
  readonly actions?: readonly AuditAction[] | undefined
  readonly userId?: string | undefined
  readonly target?: string | undefined
  readonly outcome?: AuditRow['outcome'] | undefined
  readonly from?: Date | undefined
  /** Exclusive. */
  readonly until?: Date | undefined
}

export interface AuditPage {
  readonly data: AuditRow[]
  /** At most `maxCounted`. */
  readonly total: number
}

const order = sql`order by entry.created_at desc, entry.id desc`
/**
 * An equivalent condition, since neither is null. Indexes that begin with a tenant, a user or target, and an action support it: entries
 * outside the result are not read.
 */
const orderOfBoth = sql`order by entry.created_at desc nulls last, entry.id desc nulls last`

/** The newest first. */
export async function readAudit (
  db: Kysely<SystemTables>,
  {
    deletedTenant,
    tenant = deletedTenant === undefined ? undefined : archivedTenant(deletedTenant),
    keptAt,
    actions,
    userId,
    target,
    outcome,
    from,
    until
  }: AuditFilter,
  { limit, offset }: Page
): Promise<AuditPage> {
  const conditions = sql.join([
    sql`true`,
    ...tenant === undefined ? [] : [sql`tenant_id = ${tenant}`],
    ...userId === undefined ? [] : [sql`user_id = ${keptText(userId)}`],
    ...target === undefined ? [] : [sql`target = ${keptText(target)}`],
    ...outcome === undefined ? [] : [sql`outcome = ${outcome}`],
    ...from === undefined ? [] : [sql`created_at >= ${from}`],
    ...until === undefined ? [] : [sql`created_at < ${until}`],
    ...keptAt === undefined ? [] : [sql`kept_until > ${keptAt}`]
  ], sql` and `)
  // A tenant's entries of a target are sorted. In the usual order, the index of the target would be read with the entries of other tenants.
  const pageOrder = tenant !== undefined && target !== undefined ? orderOfBoth : order
  const isBoth = tenant !== undefined && (userId !== undefined || target !== undefined)
  // Each of several actions uses its own index range, so that a rare one does not scan the whole log.
  const ofActions = (columns: ReturnType<typeof sql>, limit: number) =>
    sql`select own.* from unnest(${actions}::text[]) as asked (name) cross join lateral (
        select ${columns} from tenantry.audit_log entry where action = asked.name and ${conditions} ${isBoth ? orderOfBoth : order} limit ${limit}) own`
  const entries = actions === undefined
    ? sql`select * from tenantry.audit_log where ${conditions}`
    : ofActions(sql`*`, offset + limit)
  const counted = actions === undefined
    ? sql`select from tenantry.audit_log where ${conditions}`
    : ofActions(sql``, maxCounted)

  const [{ rows }, { rows: [count] }] = await Promise.all([
    sql<
      AuditRow
    >`select uuid as id, created_at as timestamp, action, user_id as "userId", tenant_id as tenant, target, address, outcome, count::float8 as count, details
      from (${entries}) entry ${pageOrder} limit ${limit} offset ${offset}`.execute(db),
    sql<{ total: number }>`select count(*)::int as total from (${counted} limit ${maxCounted}) counted`.execute(db)
  ])
  return { data: rows, total: count?.total ?? 0 }
}

/** Sweeps once; false if another server does so now. `retentionDays`: of the platform's own entries. */
export function sweepAudit (
  db: Kysely<SystemTables>,
  { plans, retentionDays }: { readonly plans: Plans, readonly retentionDays: number },
  at: Date
): Promise<boolean> {
  return sweep(db, 'tenantry.audit_log.sweep', [
    ...plans.all.map((plan) => ofPlan(sql`t.plan = ${plan.tier}`, plan, at)),
    ofPlan(sql`t.plan <> all (${plans.tiers}::text[])`, plans.of(undefined), at),
    removal('tenantry.audit_log', sql`tenant_id = '' and created_at <= ${before(at, retentionDays)}`),
    removal('tenantry.audit_log', sql`kept_until <= ${at}`)
  ])
}

/**
 * Deletes entries of these tenants that the plan no longer keeps. The end is a value: under the policy, PostgreSQL compares a column with
 * the result of a function only after it has read all entries of the tenant.
 */
function ofPlan (tenants: ReturnType<typeof sql>, plan: Plan, at: Date): SweepPart {
  const { auditRetentionDays: days } = plan.limits.tenantConfig
  if (days === unlimited) return async () => false
  return partOf(sql`delete from tenantry.audit_log where id in (
    select old.id from tenantry.tenants t cross join lateral (
      select a.id from tenantry.audit_log a where a.tenant_id = t.id and a.created_at <= ${before(at, days)} order by a.created_at limit ${maxRows}
    ) old where ${tenants} limit ${maxRows}
  )`)
}

function before (at: Date, days: number): Date {
  return new Date(at.getTime() - days * dayMs)
}
