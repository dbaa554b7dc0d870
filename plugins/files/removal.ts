/** Removes files: first the callers' access, then the object, then the row. */
import type { FastifyBaseLogger } from 'fastify'
import type { Actor } from '../../lib/database/audit.js'
import type { FileStatus } from '../../lib/database/files-table.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { FileParts } from './parts.js'
import { type ExpiredFile, keyOf, uploadKeyOf } from './store.js'
import { writeDeleted } from './traces.js'
import type { Transforms } from './transforms.js'
import type { UploadParts } from './uploads.js'

const perPage = 100 // rows in one read
const leaseMs = 300_000 // ms for which other servers leave removed rows alone

export interface RemovalParts extends Omit<UploadParts, 'plans' | 'maxBytes'> {
  readonly parts: Pick<FileParts, 'remove'>
  readonly transforms: Pick<Transforms, 'deleteObjects'>
}

export type Removal = ReturnType<typeof createRemoval>

export function createRemoval ({ objects, store, parts, transforms, dbFor, usage, emitter, now, log }: RemovalParts) {
  /** Returns false if the file is in none of the states. */
  async function remove (tenant: Owner, id: string, states: readonly FileStatus[], actor: Actor | null): Promise<boolean> {
    const at = new Date(now())
    const removed = await dbFor(tenant).transaction().execute(async (transaction) => {
      const removed = await store.remove(transaction, tenant, id, states, at)
      if (removed === undefined) return undefined
      if (removed.counted > 0) await usage()?.free(tenant, 'storage_bytes', removed.counted, transaction)
      if (removed.wasReady || removed.wasQuarantined) {
        await writeDeleted(transaction, removed.wasReady ? emitter() : null, removed.file, actor, at)
      }
      return removed
    })
    if (removed === undefined) return false
    if (removed.wasReady) emitter()?.wake()
    return true
  }

  /** Deletes the objects and the row of a removed file. */
  async function purge (tenant: Owner, id: string): Promise<void> {
    await transforms.deleteObjects(tenant, id)
    await parts.remove(tenant, id)
    await objects.delete(uploadKeyOf(tenant, id))
    await objects.delete(keyOf(tenant, id))
    await store.forget(tenant, id)
  }

  async function end ({ tenant, id, status }: ExpiredFile): Promise<void> {
    // Another server may have removed the file, or its upload may have completed.
    if (await remove(tenant, id, [status], null)) await purge(tenant, id)
  }

  return {
    /** Returns false if the tenant has no such file. */
    async delete (tenant: Owner, id: string, actor: Actor): Promise<boolean> {
      if (!await remove(tenant, id, ['ready', 'quarantined'], actor)) return false
      await purge(tenant, id).catch((err: unknown) => {
        log.warn({ err, tenant, file: id }, 'the object of a deleted file could not be deleted; the sweep deletes it')
      })
      return true
    },

    /** Ends an upload that was announced. */
    async drop (tenant: Owner, id: string, states: readonly FileStatus[]): Promise<void> {
      if (await remove(tenant, id, states, null)) await purge(tenant, id)
    },

    /** Removes expired files, uploads whose process ended, and the objects of removed files. */
    async sweep (): Promise<void> {
      for (let after: ExpiredFile | undefined, isMore = true; isMore;) {
        const expired = await store.expired(new Date(now()), after, perPage)
        for (const row of expired) await end(row).catch((err: unknown) => warn(log, err, row))
        after = expired.at(-1)
        isMore = expired.length === perPage
      }
      for (let isMore = true; isMore;) {
        const at = now()
        const removed = await store.claimRemoved(new Date(at), new Date(at + leaseMs), perPage)
        for (const row of removed) await purge(row.tenant, row.id).catch((err: unknown) => warn(log, err, row))
        isMore = removed.length === perPage
      }
    },

    /** Deletes every object of a tenant whose rows are gone. */
    async deleteAll (tenant: Owner): Promise<void> {
      for await (const page of objects.list(`${tenant}/`)) for (const { key } of page) await objects.delete(key)
    }
  }
}

function warn (log: FastifyBaseLogger, err: unknown, { tenant, id }: Pick<ExpiredFile, 'tenant' | 'id'>): void {
  log.warn({ err, tenant, file: id }, 'a file could not be removed; a later sweep tries again')
}
