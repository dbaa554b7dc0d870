/** The SQL of transformed images. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Writer } from './store.js'
import { sql, type Kysely } from 'kysely'
import { lockTenant } from '../../lib/database/tenant-lock.js'

const table = 'tenantry.file_transforms'
const maxOfFile = 50

/** An image made from a file. */
export interface Transform {
  readonly tenant: Owner
  readonly file: string
  /** The name, from the parameters. */
  readonly name: string
  readonly contentType: string
  /** Bytes. */
  readonly size: number
  /** In hexadecimal. */
  readonly sha256: string
  readonly createdAt: Date
}

export type TransformStore = ReturnType<typeof createTransformStore>

export function createTransformStore (dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  return {
    async find (tenant: Owner, file: string, name: string): Promise<Transform | null> {
      const row = await dbFor(tenant).selectFrom(table).selectAll()
        .where('tenant_id', '=', tenant).where('file_id', '=', file).where('name', '=', name).executeTakeFirst()
      if (row === undefined) return null
      return { tenant, file, name, contentType: row.content_type, size: Number(row.size), sha256: row.sha256, createdAt: row.created_at }
    },

    /**
     * Adds the row, and its bytes to the file's total. Returns false if the file is gone or already has this transform. Also returns
     * false beyond the maximum number of transforms, or beyond `maxBytes` of them.
     */
    async add (writer: Writer, transform: Transform, maxBytes: number): Promise<boolean> {
      const { tenant, file, name, contentType, size, sha256, createdAt } = transform
      if (!await lockTenant(writer, tenant, 'shared')) return false
      // Locks the file's row: a deletion happens either before or after.
      const found = await writer.selectFrom('tenantry.files').select('id')
        .where('tenant_id', '=', tenant).where('id', '=', file).where('status', '=', 'ready').forUpdate().executeTakeFirst()
      if (found === undefined) return false
      const kept = await writer.selectFrom(table)
        .select([sql<number>`count(*)::integer`.as('count'), sql<number>`coalesce(sum(size), 0)::float8`.as('bytes')])
        .where('tenant_id', '=', tenant).where('file_id', '=', file).executeTakeFirstOrThrow()
      if (kept.count >= maxOfFile || kept.bytes + size > maxBytes) return false
      const row = await writer.insertInto(table)
        .values({ tenant_id: tenant, file_id: file, name, content_type: contentType, size, sha256, created_at: createdAt })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'file_id', 'name']).doNothing()).returning('name').executeTakeFirst()
      if (row === undefined) return false
      await addBytes(writer, tenant, file, size)
      return true
    },

    /** Deletes the row, and subtracts its bytes from the file's total. Returns false if the row is gone or was replaced. */
    async drop (writer: Writer, { tenant, file, name, size, createdAt }: Transform): Promise<boolean> {
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
async function addBytes (writer: Writer, tenant: Owner, file: string, bytes: number): Promise<boolean> {
  const row = await writer.updateTable('tenantry.files').set({ counted: sql<number>`counted + ${bytes}` })
    .where('tenant_id', '=', tenant).where('id', '=', file).where('status', '=', 'ready').returning('id').executeTakeFirst()
  return row !== undefined
}
