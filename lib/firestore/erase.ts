/** Removes the documents of a tenant. After a failure, the next call removes the rest. */
import type * as Sdk from '@google-cloud/firestore'
import { isChanged } from './failures.js'
import { maxWrites } from './session.js'

export interface EraseParts {
  readonly client: Sdk.Firestore
  /** Called before each batch, when its documents have been read: false ends the work. */
  readonly mayErase: () => Promise<boolean>
  /** Runs one step within the time of an operation. */
  readonly step: <Result>(work: () => Promise<Result>) => Promise<Result>
}

/** Removes the document of that path, and all below it. Resolves with false if `mayErase` ended it. */
export async function eraseBelow (root: string, parts: EraseParts): Promise<boolean> {
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
