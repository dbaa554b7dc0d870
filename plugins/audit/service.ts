/** What `app.audit` is. */
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { auditActions, writeAudit, type AuditEntry } from '../../lib/audit.js'
import { unlimited, type Plans } from '../../lib/plans.js'
import { readAudit, type AuditFilter, type AuditPage } from './store.js'

const day = 86_400_000 // ms

export interface Audit {
  /** Adds an entry of this moment; nothing for a tenant that is not there, or is being deleted. Throws for an action that is none. */
  record (entry: Omit<AuditEntry, 'at'>): Promise<void>
  /** The newest first: a tenant's as far back as its plan keeps them, the platform's own as long as they are kept. */
  page (filter: AuditFilter, page: { readonly limit: number, readonly offset: number }): Promise<AuditPage>
}

export interface AuditParts {
  readonly db: Kysely<SystemTables>
  /** For what a tenant's endpoints read. */
  readonly dbFor: (tenant: string) => Kysely<SystemTables>
  readonly plans: Plans
  /** Days for which the platform's own entries are kept. */
  readonly retentionDays: number
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
}

export function createAudit ({ db, dbFor, plans, retentionDays, now }: AuditParts): Audit {
  /** From when on entries of the tenant are told, in milliseconds since 1970. */
  async function keptSince (tenant: string): Promise<number> {
    const days = tenant === '' ? retentionDays : await daysOf(tenant)
    return days === unlimited ? 0 : now() - days * day + 1
  }

  async function daysOf (tenant: string): Promise<number> {
    const row = await dbFor(tenant).selectFrom('tenantry.tenants').select('plan').where('id', '=', tenant).executeTakeFirst()
    return plans.of(row?.plan).limits.tenantConfig.auditRetentionDays
  }

  return {
    async record (entry) {
      if (!auditActions.includes(entry.action)) throw new Error(`"${entry.action}" is no audited action; there are ${auditActions.join(', ')}`)
      await writeAudit(db, { ...entry, at: new Date(now()) })
    },
    async page (filter, page) {
      const { tenant, from } = filter
      if (tenant === undefined) return await readAudit(db, filter, page)
      const since = Math.max(await keptSince(tenant), from?.getTime() ?? 0)
      return await readAudit(tenant === '' ? db : dbFor(tenant), { ...filter, from: new Date(since) }, page)
    }
  }
}
