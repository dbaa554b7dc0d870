/** Stores documents in SQL, with an index of their vectors. */
import { randomUUID } from 'node:crypto'
import { isFailure } from '../errors.js'
import type { Owner } from '../identity/tenant-ref.js'
import type { DocumentRecords, StaleVectors } from './records.js'
import type { VectorIndex, VectorStore } from './types.js'

const uploadMs = 600_000 // ms from writing a version's vectors until the version becomes current
const discardMs = 60_000 // ms after which another sweep may delete the vectors of a mark
const perSweep = 100
const spare = 50 // outdated vectors that an external index may return beside the current ones

export interface StoreParts {
  readonly records: DocumentRecords
  readonly index: VectorIndex
  /** Called with a failure of work that can be repeated later. */
  readonly warn: (error: unknown, message: string) => void
  /** Milliseconds since 1970. */
  readonly now: () => number
}

export function createVectorStore ({ records, index, warn, now }: StoreParts): VectorStore {
  const { dbFor } = records

  /** If this fails, the sweep tries again. */
  async function discard (tenant: Owner, id: string, version: string): Promise<void> {
    try {
      await index.discard(tenant, id, version)
      await records.unmark(dbFor(tenant), tenant, version, id)
    } catch (error) {
      warn(error, 'vectors of an old version of a document could not be deleted; the sweep tries again')
    }
  }

  /** Returns false for a tenant that has no turn in the database now: another sweep tries again, and others' vectors do not wait. */
  async function discardMarked ({ tenant, id, version }: StaleVectors): Promise<boolean> {
    try {
      // A late upload detects by the new time that its vectors are gone. If this process ends, a later sweep continues.
      if (await records.postpone(tenant, version, id, new Date(now()), new Date(now() + discardMs))) {
        await index.discard(tenant, id, version)
        await records.unmark(dbFor(tenant), tenant, version, id)
      }
      return true
    } catch (error) {
      if (isFailure(error, 'databaseBusy')) return false
      throw error
    }
  }

  return {
    name: index.name,

    async put (tenant, input, { also, ...of } = {}) {
      const document = { ...input, version: randomUUID() }
      const { id, version } = document
      const dueAt = new Date(now() + uploadMs)
      let isLate = false
      if (index.external) {
        // If this process ends, the sweep finds the vectors without a document.
        await records.mark(dbFor(tenant), tenant, id, version, dueAt)
        await index.write(tenant, document, null)
      }
      const at = new Date(now())
      const writing = dbFor(tenant).transaction().execute(async (transaction) => {
        const replaced = await records.write(transaction, tenant, document, at, of)
        if (replaced === null) return null
        if (index.external) {
          // The sweep may have removed the vectors of an upload that took too long.
          isLate = !await records.unmark(transaction, tenant, version, id, dueAt)
          if (isLate) throw new Error('the vectors of a document were written too slowly')
          if (replaced.version !== null) await records.mark(transaction, tenant, id, replaced.version, at)
        } else {
          await index.write(tenant, document, transaction)
        }
        await also?.(transaction, replaced.version === null)
        return replaced
      })
      const replaced = await writing.catch(async (error: unknown) => {
        // The sweep or the deletion of the tenant may have removed the mark before the vectors were written.
        if (isLate || (index.external && isFailure(error, 'tenantUnknown'))) await discard(tenant, id, version)
        throw error
      })
      const old = replaced === null ? version : replaced.version
      if (index.external && old !== null) await discard(tenant, id, old)
      if (replaced === null) return 'changed'
      return replaced.version === null ? 'new' : 'replaced'
    },

    async remove (tenant, id, also) {
      const version = await dbFor(tenant).transaction().execute(async (transaction) => {
        const version = await records.remove(transaction, tenant, id)
        if (version === null) return null
        if (index.external) await records.mark(transaction, tenant, id, version, new Date(now()))
        await also?.(transaction, false)
        return version
      })
      if (version !== null && index.external) await discard(tenant, id, version)
      return version !== null
    },

    list: records.list,
    read: records.read,

    async byVector (tenant, embedding, query) {
      const nearest = await index.nearest(tenant, embedding, index.external ? { ...query, limit: query.limit + spare } : query)
      return (await records.found(tenant, nearest)).slice(0, query.limit)
    },

    byText: records.byText,
    stale: records.stale,
    removeAll: (tenant) => index.removeAll(tenant),

    async sweep () {
      if (!index.external) return
      // Each try of these tenants would wait for a turn.
      const busy = new Set<Owner>()
      for (let hasMore = true; hasMore;) {
        const marked = await records.marked(new Date(now()), perSweep, [...busy])
        for (const mark of marked) if (!busy.has(mark.tenant) && !await discardMarked(mark)) busy.add(mark.tenant)
        hasMore = marked.length === perSweep
      }
    },

    check: () => index.check()
  }
}
