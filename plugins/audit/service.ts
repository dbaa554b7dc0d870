/** `app.audit`: the audit log. */
import type { Kysely } from 'kysely'
import { auditActions, type AuditEntry, writeAudit } from '../../lib/database/audit.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Page } from '../../lib/http/page.js'
import { type Owner, platformRef, tenantRef } from '../../lib/identity/tenant-ref.js'
import { type Plans, unlimited } from '../../lib/plans/plans.js'
import { dayMs } from '../../lib/time/spans.js'
import { type AuditFilter, type AuditPage, readAudit } from './store.js'

export interface Audit {
  /** Adds an entry with the current time; none for an unknown tenant, or one that is being deleted. Throws for an unknown action. */
  record(entry: Omit<AuditEntry, 'at' | 'tenant'> & { readonly tenant: string }): Promise<void>
  /** Returns the newest entries first. Plans limit the age of a tenant's entries; `retentionDays` limits the platform's. */
  page(filter: AuditFilter, page: Page): Promise<AuditPage>
}

interface AuditParts {
  readonly db: Kysely<SystemTables>
  /** For reads of a tenant's endpoints. */
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  readonly plans: Plans
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
  /** The days that the platform's own entries are kept. */
  readonly retentionDays: number
}

export function createAudit ({ db, retentionDays, now, ...parts }: AuditParts): Audit {
  const readTenant = createTenantAudit({ ...parts, now })
  return {
    async record ({ tenant, ...entry }) {
      if (!auditActions.includes(entry.action)) {
        throw new Error(`"${entry.action}" is not an audited action: expected one of ${auditActions.join(', ')}`)
      }
      await writeAudit(db, { ...entry, tenant: tenantRef(tenant), at: new Date(now()) })
    },
    async page (filter, page) {
      const { tenant, deletedTenant } = filter
      if (deletedTenant !== undefined) return await readAudit(db, { ...filter, tenant: undefined, keptAt: new Date(now()) }, page)
      if (tenant === undefined) return await readAudit(db, filter, page)
      if (tenant === platformRef) return await readAudit(db, since(filter, retentionDays, now()), page)
      return await readTenant(tenantRef(tenant), filter, page)
    }
  }
}

/** Reads a tenant's entries, as far back as its plan keeps them; also for endpoints that show some of them without the plugin. */
export function createTenantAudit ({ dbFor, plans, now }: Pick<AuditParts, 'dbFor' | 'plans' | 'now'>) {
  return async (tenant: Owner, filter: Omit<AuditFilter, 'tenant'>, page: Page): Promise<AuditPage> => {
    const db = dbFor(tenant)
    const row = await db.selectFrom('tenantry.tenants').select('plan').where('id', '=', tenant).executeTakeFirst()
    return await readAudit(db, { ...since(filter, plans.of(row?.plan).limits.tenantConfig.auditRetentionDays, now()), tenant }, page)
  }
}

/** The filter, without entries older than so many days. */
function since (filter: AuditFilter, days: number, now: number): AuditFilter {
  if (days === unlimited) return filter
  return { ...filter, from: new Date(Math.max(now - days * dayMs + 1, filter.from?.getTime() ?? 0)) }
}
