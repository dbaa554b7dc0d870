/** Documents in Firestore, over the client of Google. */
import type * as Sdk from '@google-cloud/firestore'
import { createTenantLimiter } from '../concurrency/tenant-limiter.js'
import { settlesWithin } from '../concurrency/with-timeout.js'
import { afterCommit, firestoreBusy, firestoreUnavailable, isChanged, isNotFound, translate } from './failures.js'
import { documentPath, rootOf } from './paths.js'
import { pageText, type PageTexts, textOf } from './read.js'
import { repeatableIds } from './repeatable-ids.js'
import { maxWrites, type SessionParts, TransactionSession } from './session.js'
import type { DocumentOperation, DocumentSession, DocumentStore, PageOperation } from './types.js'

// An operation can have a result of `maxResultBytes` in memory.
const maxOfTenant = 10 // running operations
const maxWaitingOfTenant = 100
const maxInAll = 100
const transactionTimes = 3 // times one operation: a transaction is tried up to five times, with pauses between

interface StoreParts extends SessionParts {
  readonly isDefault: boolean
  readonly sharedCollections: ReadonlySet<string>
  /** Milliseconds of one operation. */
  readonly timeoutMs: number
}

/** The state of one operation, for the operation and its time limit. */
interface Progress {
  /** The caller got a response already. */
  isOver: boolean
  /** A commit was sent. If its response is lost, the writes may have been made. */
  hasSent: boolean
}

export function createFirestore (parts: StoreParts): DocumentStore {
  const { client, values, reader, timeoutMs, maxResultBytes } = parts

  async function run (operation: DocumentOperation, progress: Progress): Promise<string | null> {
    const { place, shape } = operation
    if (operation.kind === 'query') return page(operation, progress)
    if (operation.kind === 'create') return inTransaction((session) => session.text(operation), progress)
    const { id } = operation
    if (id === null) return null
    const reference = client.doc(documentPath(place, id))
    switch (operation.kind) {
      case 'get': {
        const data = (await reference.get()).data()
        return data === undefined ? null : textOf({ id, fields: values.decode(data, place) }, shape)
      }
      case 'delete':
        try {
          await client.runTransaction(async (transaction) => {
            if (progress.isOver) throw firestoreUnavailable()
            progress.hasSent = true
            transaction.delete(reference, { exists: true })
          })
        } catch (error) {
          if (isNotFound(error)) return null
          throw error
        }
        return '{"success":true}'
      case 'set':
      case 'merge':
      case 'update':
        return inTransaction((session) => session.text(operation), progress)
    }
  }

  function page (operation: PageOperation, progress: Progress): Promise<string> {
    const count = async () => (await reader.query(operation).count().get()).data().count
    return pageText(operation, maxResultBytes, (found) => stream(operation, found, progress), count)
  }

  /** One document at a time, so that a too large page ends before it is in memory. */
  function stream (operation: PageOperation, found: PageTexts, progress: Progress): Promise<void> {
    const documents = reader.page(operation).stream()
    return new Promise((resolve, reject) => {
      documents.on('data', (document: Sdk.QueryDocumentSnapshot) => {
        try {
          if (progress.isOver) throw firestoreUnavailable()
          found.add({ id: document.id, fields: values.decode(document.data(), operation.place) })
        } catch (error) {
          documents.pause()
          reject(error)
          if ('destroy' in documents && typeof documents.destroy === 'function') documents.destroy()
        }
      })
      documents.on('error', reject)
      documents.on('end', () => resolve())
    })
  }

  /** Without reads it is one call of Firestore. A batch's commit would be repeated for minutes after the caller got a response. */
  function inTransaction<Result> (work: (session: DocumentSession) => Promise<Result>, progress: Progress): Promise<Result> {
    const isOver = () => progress.isOver
    const idsOfTry = repeatableIds()
    return client.runTransaction(async (transaction) => {
      if (isOver()) throw firestoreUnavailable()
      const session = new TransactionSession(parts, transaction, { isOver, newId: idsOfTry() })
      const result = await work(session)
      // The caller got a response already.
      if (isOver()) throw firestoreUnavailable()
      if (session.finish()) progress.hasSent = true
      return result
    })
  }

  const places = createTenantLimiter({
    maxOfTenant: maxOfTenant + maxWaitingOfTenant,
    maxRunningOfTenant: maxOfTenant,
    maxInAll,
    tooManyOfTenant: firestoreBusy,
    tooManyInAll: firestoreBusy
  })
  const running = new Set<Promise<unknown>>()

  /** The client keeps trying after that time. */
  async function timely<Result> (ms: number, work: (progress: Progress) => Promise<Result>): Promise<Result> {
    const progress = { isOver: false, hasSent: false }
    const done = work(progress)
    running.add(done)
    done.then(() => running.delete(done), () => running.delete(done))
    try {
      progress.isOver = !await settlesWithin(done, ms)
      if (progress.isOver) throw firestoreUnavailable(new Error(`Firestore took more than ${ms} ms`))
      return await done
    } catch (error) {
      throw progress.hasSent ? afterCommit(translate(error), done) : translate(error)
    }
  }

  let closing: Promise<void> | null = null

  return {
    isDefault: parts.isDefault,
    sharedCollections: parts.sharedCollections,
    text: (operation) => places.run(operation.place.owner, () => timely(timeoutMs, (progress) => run(operation, progress))),
    transaction: (tenant, work) =>
      places.run(tenant, () => timely(timeoutMs * transactionTimes, (progress) => inTransaction(work, progress))),
    async erase (tenant, mayErase) {
      await eraseBelow(rootOf(tenant), { client, mayErase, step: (work) => timely(timeoutMs, work) })
    },
    check: () =>
      timely(timeoutMs, async () => {
        await client.doc('tenants/~').get()
      }),
    close () {
      places.close()
      // Ending a client during its retries causes an unhandled rejection: it ends when it has given up.
      if (closing === null && running.size > 0) {
        Promise.allSettled(running).then(() => client.terminate()).catch(() => {})
        closing = Promise.resolve()
      }
      closing ??= client.terminate()
      return closing
    }
  }
}

interface EraseParts {
  readonly client: Sdk.Firestore
  /** Called before each batch, when its documents have been read: false ends the work. */
  readonly mayErase: () => Promise<boolean>
  /** Runs one step within the time of an operation. */
  readonly step: <Result>(work: () => Promise<Result>) => Promise<Result>
}

/** Removes the document of that path, and all below it. Resolves with false if `mayErase` ended it. */
async function eraseBelow (root: string, parts: EraseParts): Promise<boolean> {
  const { client, step } = parts
  const document = client.doc(root)
  for (const collection of await step(() => document.listCollections())) {
    if (!await empty(collection, parts)) return false
    // A listed document that does not exist has documents below it.
    for (const { path } of await step(() => collection.listDocuments())) if (!await eraseBelow(path, parts)) return false
  }
  return await removeAll([await step(() => document.get())], parts)
}

async function empty (collection: Sdk.CollectionReference, parts: EraseParts): Promise<boolean> {
  for (;;) {
    const { docs } = await parts.step(() => collection.select().limit(maxWrites).get())
    if (docs.length === 0) return true
    if (!await removeAll(docs, parts)) return false
  }
}

/** Removes documents in the version that was read. One that was written meanwhile may belong to a later tenant with the id. */
async function removeAll (documents: readonly Sdk.DocumentSnapshot[], { client, mayErase, step }: EraseParts): Promise<boolean> {
  if (!await mayErase()) return false
  const batch = client.batch()
  let count = 0
  for (const { ref, updateTime } of documents) {
    if (updateTime === undefined) continue
    batch.delete(ref, { lastUpdateTime: updateTime })
    count++
  }
  if (count === 0) return true
  await step(() =>
    batch.commit().then(() => {}, (error: unknown) => {
      // They are read again.
      if (!isChanged(error)) throw error
    })
  )
  return true
}
