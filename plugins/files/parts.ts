/** The parts of resumable uploads. Each request stores its bytes as an object, with a row for their place. */
import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import { type Kysely, sql } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { ObjectStore } from '../../lib/files/store.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { untilFailure } from './body.js'
import { keyOf } from './store.js'

const maxParts = 10_000 // of an upload, since each request reads their sizes

export type FileParts = ReturnType<typeof createFileParts>

export function createFileParts (objects: ObjectStore, dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  const table = 'tenantry.file_parts'
  const objectOf = (tenant: Owner, file: string, id: string) => `${keyOf(tenant, file)}-${id}`
  const rowsOf = (tenant: Owner, file: string) =>
    dbFor(tenant).selectFrom(table).where('tenant_id', '=', tenant).where('file_id', '=', file)

  async function drop (tenant: Owner, file: string, id: string): Promise<void> {
    await objects.delete(objectOf(tenant, file, id))
    await dbFor(tenant).deleteFrom(table).where('tenant_id', '=', tenant).where('file_id', '=', file).where('id', '=', id).execute()
  }

  return {
    /** The number of bytes received. */
    async size (tenant: Owner, file: string): Promise<number> {
      const { bytes } = await rowsOf(tenant, file).select(sql<number>`coalesce(sum(size), 0)::float8`.as('bytes')).executeTakeFirstOrThrow()
      return bytes
    },

    /**
     * Stores the bytes from `start` on. If the stream fails, the bytes before the failure are kept. Resolves with the number of bytes.
     * Rejects with `stateConflict` if another request stored bytes at this place or ended the upload, and with `badRequest` for too many
     * parts.
     */
    async add (tenant: Owner, file: string, start: number, bytes: Readable): Promise<number> {
      const { count } = await rowsOf(tenant, file).select(sql<number>`count(*)::integer`.as('count')).executeTakeFirstOrThrow()
      if (count >= maxParts) throw failure('badRequest', { message: `The upload has ${count} parts: send it again in larger parts` })
      const id = randomUUID()
      // The row is inserted first: the object can then be found if the process ends.
      await dbFor(tenant).insertInto(table).values({ tenant_id: tenant, file_id: file, id, start, size: null }).execute()
      try {
        const size = await objects.put(objectOf(tenant, file, id), untilFailure(bytes), 'application/octet-stream')
        if (size === 0) {
          await drop(tenant, file, id)
          return 0
        }
        // A removal of the upload may have deleted the object before it was stored, and then deletes the row.
        const db = dbFor(tenant)
        const upload = db.selectFrom('tenantry.files').select('id')
          .where('tenant_id', '=', tenant).where('id', '=', file).where('status', '=', 'resumable')
        const { numUpdatedRows } = await db.updateTable(table).set({ size }).where('tenant_id', '=', tenant)
          .where('file_id', '=', file).where('id', '=', id).where(({ exists }) => exists(upload)).executeTakeFirst()
        if (numUpdatedRows === 0n) throw failure('conflict')
        return size
      } catch (error) {
        // The size may be committed although the response was lost. If it is not, the object is deleted with the upload.
        if (isFailure(error, 'databaseUnavailable')) throw error
        await drop(tenant, file, id).catch(() => {})
        if (isFailure(error, 'conflict')) {
          throw failure('stateConflict', { message: 'Another request has sent these bytes, or has ended the upload: retrieve the offset again' })
        }
        throw error
      }
    },

    /** All bytes, in order. */
    async * bytes (tenant: Owner, file: string): AsyncGenerator<Buffer> {
      const rows = await rowsOf(tenant, file).select('id').where('size', 'is not', null).orderBy('start').execute()
      for (const { id } of rows) {
        const part = await objects.get(objectOf(tenant, file, id))
        if (part === null) throw failure('storageUnavailable', { cause: new Error('a part of an upload is missing') })
        for await (const chunk of part) yield chunk
      }
    },

    /** Deletes every part. */
    async remove (tenant: Owner, file: string): Promise<void> {
      for (const { id } of await rowsOf(tenant, file).select('id').execute()) await drop(tenant, file, id)
    }
  }
}
