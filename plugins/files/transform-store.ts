/** The SQL of transforms. */
import { type Kysely, sql } from 'kysely'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { StoredFile } from './types.js'

const table = 'tenantry.file_transforms'
const maxOfFile = 50

export type TransformStore = ReturnType<typeof createTransformStore>

/** An image made from a file. */
export interface Transform extends Pick<StoredFile, 'tenant' | 'contentType' | 'size' | 'sha256'> {
  readonly file: string
  /** From the parameters. */
  readonly name: string
}

/** Its row. Both times are by the clock of the database. */
export interface KeptTransform extends Transform {
  readonly createdAt: Date
  readonly ageMs: number
}

export function createTransformStore (dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  return {
    /** null also if the file is being removed. */
    async find (tenant: Owner, file: string, name: string): Promise<KeptTransform | null> {
      const age = sql<number>`extract(epoch from clock_timestamp() - created_at)::float8 * 1000`.as('age')
      const db = dbFor(tenant)
      const ready = db.selectFrom('tenantry.files').select('id')
        .where('tenant_id', '=', tenant).where('id', '=', file).where('status', '=', 'ready')
      const row = await db.selectFrom(table).selectAll().select(age)
        .where('tenant_id', '=', tenant).where('file_id', '=', file).where('name', '=', name)
        .where(({ exists }) => exists(ready)).executeTakeFirst()
      if (row === undefined) return null
      const { content_type: contentType, size, sha256, created_at: createdAt, age: ageMs } = row
      return { tenant, file, name, contentType, size: Number(size), sha256, createdAt, ageMs }
    },

    /**
     * Adds the row, and its bytes to the file's total; returns its time. null if the file is gone or already has this transform. Also
     * null beyond the maximum number of transforms, or beyond `maxBytes` of them.
     */
    async add (writer: SystemTransaction, transform: Transform, maxBytes: number): Promise<Date | null> {
      const { tenant, file, name, contentType, size, sha256 } = transform
      if (!await lockTenant(writer, tenant, 'shared')) return null
      // Locks the file's row: a deletion happens either before or after.
      const found = await writer.selectFrom('tenantry.files').select('id')
        .where('tenant_id', '=', tenant).where('id', '=', file).where('status', '=', 'ready').forUpdate().executeTakeFirst()
      if (found === undefined) return null
      const kept = await writer.selectFrom(table)
        .select([sql<number>`count(*)::integer`.as('count'), sql<number>`coalesce(sum(size), 0)::float8`.as('bytes')])
        .where('tenant_id', '=', tenant).where('file_id', '=', file).executeTakeFirstOrThrow()
      if (kept.count >= maxOfFile || kept.bytes + size > maxBytes) return null
      const row = await writer.insertInto(table)
        // A Date has milliseconds only.
        .values({
          tenant_id: tenant,
          file_id: file,
          name,
          content_type: contentType,
          size,
          sha256,
          created_at: sql`date_trunc('milliseconds', clock_timestamp())`
        })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'file_id', 'name']).doNothing()).returning('created_at').executeTakeFirst()
      if (row === undefined) return null
      await addBytes(writer, tenant, file, size)
      return row.created_at
    },

    /** Deletes the row, and subtracts its bytes from the file's total. Returns false if the row is gone or was replaced. */
    async drop (
      writer: SystemTransaction,
      { tenant, file, name, size, createdAt }: Transform & Pick<KeptTransform, 'createdAt'>
    ): Promise<boolean> {
      // Locks in the order of `add`.
      await writer.selectFrom('tenantry.files').select('id')
        .where('tenant_id', '=', tenant).where('id', '=', file).forUpdate().execute()
      const row = await writer.deleteFrom(table)
        .where('tenant_id', '=', tenant).where('file_id', '=', file).where('name', '=', name).where('created_at', '=', createdAt)
        .returning('name').executeTakeFirst()
      return row !== undefined && await addBytes(writer, tenant, file, -size)
    },

    /** The names of all transforms of a file. */
    async names (tenant: Owner, file: string): Promise<string[]> {
      const rows = await dbFor(tenant).selectFrom(table).select('name')
        .where('tenant_id', '=', tenant).where('file_id', '=', file).execute()
      return rows.map(({ name }) => name)
    }
  }
}

/** Returns false if the file is being removed: its bytes are already released. */
async function addBytes (writer: SystemTransaction, tenant: Owner, file: string, bytes: number): Promise<boolean> {
  const row = await writer.updateTable('tenantry.files').set({ counted: sql<number>`counted + ${bytes}` })
    .where('tenant_id', '=', tenant).where('id', '=', file).where('status', '=', 'ready').returning('id').executeTakeFirst()
  return row !== undefined
}
