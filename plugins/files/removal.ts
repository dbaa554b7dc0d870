/** Removes files: first the callers' access, then the object, then the row. */
import type { FileStatus } from '../../lib/database/files-table.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { writeDeleted } from './events.js'
import type { FileParts } from './parts.js'
import { type ExpiredFile, keyOf, uploadKeyOf } from './store.js'
import type { Transforms } from './transforms.js'
import type { StoredFile, Uploader } from './types.js'
import type { UploadParts } from './uploads.js'

const perPage = 100 // rows in one read
const leaseMs = 300_000 // ms for which other servers leave removed rows alone

interface RemovalParts extends Pick<UploadParts, 'objects' | 'store' | 'dbFor' | 'usage' | 'emitter' | 'now' | 'log'> {
  readonly parts: Pick<FileParts, 'remove'>
  readonly transforms: Pick<Transforms, 'deleteObjects'>
}

type Remover = Pick<Uploader, 'actor' | 'depth'>

export type Removal = ReturnType<typeof createRemoval>

export function createRemoval ({ objects, store, parts, transforms, dbFor, usage, emitter, now, log }: RemovalParts) {
  /** Returns the id of the file; null if it is in none of the states. */
  async function remove (tenant: Owner, given: string, states: readonly FileStatus[], by: Remover | null): Promise<string | null> {
    const at = new Date(now())
    const removed = await dbFor(tenant).transaction().execute(async (transaction) => {
      const removed = await store.remove(transaction, tenant, given, states, at)
      if (removed === undefined) return undefined
      if (removed.counted > 0) await usage()?.free(tenant, 'storage_bytes', removed.counted, transaction)
      const { status } = removed
      if (status === 'ready' || status === 'quarantined') {
        await writeDeleted(transaction, status === 'ready' ? emitter() : null, removed.file, by, at)
      }
      return removed
    })
    if (removed === undefined) return null
    if (removed.status === 'ready') emitter()?.wake()
    // The given id may have capital letters, which the keys of the objects do not have.
    return removed.file.id
  }

  /** Deletes the objects and the row of a removed file. */
  async function purge (tenant: Owner, id: string): Promise<void> {
    await transforms.deleteObjects(tenant, id)
    await parts.remove(tenant, id)
    await objects.delete(uploadKeyOf(tenant, id))
    await objects.delete(keyOf(tenant, id))
    await store.forget(tenant, id, new Date(now()))
  }

  /** Ends an upload that was announced, or a file that has expired. */
  async function drop (tenant: Owner, given: string, states: readonly FileStatus[]): Promise<void> {
    const id = await remove(tenant, given, states, null)
    if (id !== null) await purge(tenant, id)
  }

  const warn = ({ tenant, id }: Pick<StoredFile, 'tenant' | 'id'>) => (err: unknown) =>
    log.warn({ err, tenant, file: id }, 'a file could not be removed; a later sweep tries again')

  return {
    drop,

    /** Returns false if the tenant has no such file. */
    async delete (tenant: Owner, given: string, by: Remover): Promise<boolean> {
      const id = await remove(tenant, given, ['ready', 'quarantined'], by)
      if (id === null) return false
      await purge(tenant, id).catch((err: unknown) => {
        log.warn({ err, tenant, file: id }, 'the object of a deleted file could not be deleted; the sweep deletes it')
      })
      return true
    },

    /** Removes expired files, uploads whose process ended, and the objects of removed files. Ends early at the signal. */
    async sweep (signal?: AbortSignal): Promise<void> {
      for (let after: ExpiredFile | undefined, isMore = true; isMore;) {
        const expired = await store.expired(new Date(now()), after, perPage)
        // Another server may have removed the file, or its upload may have completed.
        for (const row of expired) {
          if (signal?.aborted === true) return
          await drop(row.tenant, row.id, [row.status]).catch(warn(row))
        }
        after = expired.at(-1)
        isMore = expired.length === perPage
      }
      for (let isMore = true; isMore;) {
        const at = now()
        const removed = await store.claimRemoved(new Date(at), new Date(at + leaseMs), perPage)
        for (const row of removed) {
          if (signal?.aborted === true) return
          await purge(row.tenant, row.id).catch(warn(row))
        }
        isMore = removed.length === perPage
      }
    },

    /** Deletes every object of a deleted tenant, and none of a later tenant with the id. */
    async deleteAll (tenant: Owner): Promise<void> {
      for await (const page of objects.list(`${tenant}/`)) {
        // Asked after the list: it has no object of a tenant that is created from now on.
        if (await store.hasTenant(tenant)) return
        for (const { key } of page) await objects.delete(key)
      }
    }
  }
}
