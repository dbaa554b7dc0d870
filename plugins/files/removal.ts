/** Removes files: first the callers' access, then the object, then the row. */
import type { FileStatus } from '../../lib/database/files-table.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { writeDeleted } from './events.js'
import type { FileParts } from './parts.js'
import { type ExpiredFile, type FileKey, keyOf, uploadKeyOf } from './store.js'
import { longestTurn, sweepRound } from './sweep-turns.js'
import type { Transforms } from './transforms.js'
import type { Uploader } from './types.js'
import type { UploadParts } from './uploads.js'

const perPage = 100 // rows in one read
const leaseMs = 300_000 // ms for which other servers leave removed rows alone

interface RemovalParts extends Pick<UploadParts, 'objects' | 'store' | 'dbFor' | 'usage' | 'emitter' | 'now' | 'log'> {
  readonly parts: Pick<FileParts, 'remove'>
  readonly transforms: Pick<Transforms, 'deleteObjects'>
  /** Milliseconds for which the sweep works on the files of a tenant before it works on those of others. Default: 5,000. */
  readonly turnMs?: number
}

type Remover = Pick<Uploader, 'actor' | 'depth'>

export type Removal = ReturnType<typeof createRemoval>

export function createRemoval ({ objects, store, parts, transforms, dbFor, usage, emitter, now, log, turnMs = longestTurn }: RemovalParts) {
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

  function warn ({ tenant, id }: FileKey, err: unknown): void {
    log.warn({ err, tenant, file: id }, 'a file could not be removed; a later sweep tries again')
  }

  function warnOfParts ({ tenant, id }: FileKey, err: unknown): void {
    log.warn({ err, tenant, file: id }, 'the parts of a complete upload could not be deleted; a later sweep tries again')
  }

  /** Returns whether another round should follow. */
  async function removeExpired (signal: AbortSignal | undefined): Promise<boolean> {
    let after: ExpiredFile | undefined
    return await sweepRound({
      async next (skipped) {
        const expired = await store.expired(new Date(now()), after, skipped, perPage)
        after = expired.at(-1)
        return expired
      },
      // Another server may have removed the file, or its upload may have completed.
      work: (row) => drop(row.tenant, row.id, [row.status]),
      failed: warn,
      turnMs,
      signal
    })
  }

  /** Deletes the objects of removed files. Returns whether another round should follow. */
  async function purgeRemoved (signal: AbortSignal | undefined): Promise<boolean> {
    return await sweepRound({
      next: (skipped) => store.claimRemoved(new Date(now()), new Date(now() + leaseMs), skipped, perPage),
      work: (row) => purge(row.tenant, row.id),
      failed: warn,
      turnMs,
      signal
    })
  }

  /** Deletes the parts that were left when an upload became complete. Returns whether another round should follow. */
  async function removeParts (signal: AbortSignal | undefined): Promise<boolean> {
    let after: FileKey | undefined
    return await sweepRound({
      async next (skipped) {
        const complete = await store.completeWithParts(after, skipped, perPage)
        after = complete.at(-1)
        return complete
      },
      work: (row) => parts.remove(row.tenant, row.id),
      failed: warnOfParts,
      turnMs,
      signal
    })
  }

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

    /** Removes expired files, uploads whose process ended, and the objects that are no longer needed. Ends early at the signal. */
    async sweep (signal?: AbortSignal): Promise<void> {
      for (let isMore = true; isMore;) {
        const leftExpired = await removeExpired(signal)
        const leftRemoved = await purgeRemoved(signal)
        const leftParts = await removeParts(signal)
        isMore = leftExpired || leftRemoved || leftParts
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
