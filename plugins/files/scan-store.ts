/** The SQL of files in quarantine. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { StoredFile } from './types.js'
import type { Verdict } from '../../lib/files/clamd.js'
import { sql, type Kysely } from 'kysely'
import { fileOf, type Writer } from './store.js'

const table = 'tenantry.files'

export type ScanStore = ReturnType<typeof createScanStore>

export function createScanStore (db: Kysely<SystemTables>, dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  const moveTo = async (tenant: Owner, id: string, at: Date): Promise<void> => {
    await dbFor(tenant).updateTable(table).set({ scan_at: at })
      .where('tenant_id', '=', tenant).where('id', '=', id).where('status', '=', 'quarantined').where('scan_at', 'is not', null).execute()
  }

  return {
    /** The tenants after `after`, in order, that have files to scan. */
    async dueTenants (after: string, at: Date, limit: number): Promise<Owner[]> {
      // Jumps from tenant to tenant in the index, whatever number of files each has.
      const { rows } = await sql<{ tenant: Owner }>`with recursive due (tenant) as (
        (select tenant_id from tenantry.files where scan_at <= ${at} and tenant_id > ${after} order by tenant_id limit 1)
        union all
        select (select f.tenant_id from tenantry.files f where f.scan_at <= ${at} and f.tenant_id > due.tenant order by f.tenant_id limit 1)
        from due where due.tenant is not null
      ) select tenant from due where tenant is not null limit ${limit}`.execute(db)
      return rows.map(({ tenant }) => tenant)
    },

    /** Claims the tenant's longest waiting file. For other servers it is due again at `until`. null if no file is due. */
    async claim (tenant: Owner, at: Date, until: Date): Promise<string | null> {
      const { rows: [row] } = await sql<{ id: string }>`update tenantry.files set scan_at = ${until}
        where tenant_id = ${tenant} and id = (
          select id from tenantry.files where tenant_id = ${tenant} and scan_at <= ${at} order by scan_at limit 1 for update skip locked
        ) returning id`.execute(dbFor(tenant))
      return row?.id ?? null
    },

    /** Sets when a claimed file is due again: later while its scan runs, and after it has failed. */
    moveTo,

    /** Ends the quarantine of a clean file, or records why a file stays. undefined if the file was deleted or already settled. */
    async settle (writer: Writer, tenant: Owner, id: string, verdict: Verdict): Promise<StoredFile | undefined> {
      const set = verdict.status === 'clean'
        ? { status: 'ready' as const }
        : { scan_result: verdict.status, ...verdict.status === 'infected' && { scan_signature: verdict.signature } }
      const row = await writer.updateTable(table).set({ ...set, scan_at: null })
        .where('tenant_id', '=', tenant).where('id', '=', id).where('status', '=', 'quarantined').where('scan_at', 'is not', null)
        .returningAll().executeTakeFirst()
      return row === undefined ? undefined : fileOf(row)
    }
  }
}
