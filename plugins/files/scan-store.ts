/** The SQL of files in quarantine. */
import { type Kysely, sql } from 'kysely'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import type { Verdict } from '../../lib/files/clamd.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { hourMs } from '../../lib/time/spans.js'
import { dueIn, fileOrNull, spanOf } from './store.js'
import type { StoredFile } from './types.js'

const table = 'tenantry.files'
export const retryMs = 20_000 // ms until a failed scan is retried, at least
const maxRetryMs = hourMs

export type ScanStore = ReturnType<typeof createScanStore>

export function createScanStore (db: Kysely<SystemTables>, dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  const updateUnsettled = (db: Kysely<SystemTables>, tenant: Owner, id: string) =>
    db.updateTable(table)
      .where('tenant_id', '=', tenant).where('id', '=', id).where('status', '=', 'quarantined').where('scan_at', 'is not', null)

  return {
    /** The tenants after `after`, in order, that have files to scan. */
    async dueTenants (after: string, limit: number): Promise<Owner[]> {
      // Jumps from tenant to tenant in the index, so that tenants with many files cost no more.
      const { rows } = await sql<{ tenant: Owner }>`with recursive due (tenant) as (
        (select tenant_id from tenantry.files where scan_at <= now() and tenant_id > ${after} order by tenant_id limit 1)
        union all
        select (select f.tenant_id from tenantry.files f where f.scan_at <= now() and f.tenant_id > due.tenant order by f.tenant_id limit 1)
        from due where due.tenant is not null
      ) select tenant from due where tenant is not null limit ${limit}`.execute(db)
      return rows.map(({ tenant }) => tenant)
    },

    /** Claims the tenant's longest waiting file. For other servers it is due again after `ms`. null if no file is due. */
    async claim (tenant: Owner, ms: number): Promise<string | null> {
      const { rows: [row] } = await sql<{ id: string }>`update tenantry.files set scan_at = ${dueIn(ms)}
        where tenant_id = ${tenant} and id = (
          select id from tenantry.files where tenant_id = ${tenant} and scan_at <= now() order by scan_at limit 1 for update skip locked
        ) returning id`.execute(dbFor(tenant))
      return row?.id ?? null
    },

    /** Sets when a claimed file is due again: later while its scan runs, and if the scanner has failed. */
    async moveTo (tenant: Owner, id: string, ms: number): Promise<void> {
      await updateUnsettled(dbFor(tenant), tenant, id).set({ scan_at: dueIn(ms) }).execute()
    },

    /** Makes a file that cannot be scanned due after as long as it has waited so far: each wait is twice the one before. */
    async postpone (tenant: Owner, id: string): Promise<void> {
      const wait = sql`least(greatest(now() - created_at, ${spanOf(retryMs)}), ${spanOf(maxRetryMs)})`
      await updateUnsettled(dbFor(tenant), tenant, id).set({ scan_at: sql<Date>`now() + ${wait}` }).execute()
    },

    /** Ends the quarantine of a clean file, or records why a file stays. null if the file was deleted or already settled. */
    async settle (writer: SystemTransaction, tenant: Owner, id: string, verdict: Verdict): Promise<StoredFile | null> {
      const set = verdict.status === 'clean'
        ? { status: 'ready' as const }
        : { scan_result: verdict.status, ...verdict.status === 'infected' && { scan_signature: verdict.signature } }
      return fileOrNull(await updateUnsettled(writer, tenant, id).set({ ...set, scan_at: null }).returningAll().executeTakeFirst())
    }
  }
}
