/** Stores files on the disk and in S3. An upload succeeds when the disk has it. If S3 fails, the disk serves the file until `restore`. */
import type { ObjectStore, StoredObject } from './store.js'

export interface MirroredStore extends ObjectStore {
  /** Copies an object to the store that lacks it. `lost` means that neither store has it. */
  restore(key: string, contentType: string): Promise<'complete' | 'copied' | 'lost'>
}

/** `onFailure` receives errors of `second` that callers do not see. */
export function createMirroredStore (
  first: ObjectStore,
  second: ObjectStore,
  onFailure: (error: unknown, key: string) => void
): MirroredStore {
  /** Asks the first store; if it lacks the object or fails, asks the second one. */
  async function either<T> (ask: (store: ObjectStore) => Promise<T | null>): Promise<T | null> {
    let failed: { readonly error: unknown } | undefined
    const found = await ask(first).catch((error: unknown) => {
      failed = { error }
      return null
    })
    if (found !== null) return found
    const other = await ask(second)
    if (other === null && failed !== undefined) throw failed.error
    return other
  }

  return {
    async put (key, bytes, contentType, hasToken) {
      const size = await first.put(key, bytes, contentType, hasToken)
      await copyBetween(first, second, key, contentType, hasToken).catch((error: unknown) => onFailure(error, key))
      return size
    },
    get: (key, range) => either((store) => store.get(key, range)),
    stat: (key) => either((store) => store.stat(key)),
    async copy (from, to) {
      const copied = await first.copy(from, to)
      const mirrored = await second.copy(from, to).catch((error: unknown) => {
        if (!copied) throw error
        onFailure(error, to)
        return false
      })
      return copied || mirrored
    },
    async delete (key) {
      await first.delete(key)
      await second.delete(key).catch((error: unknown) => onFailure(error, key))
    },
    async * list (prefix) {
      yield * first.list(prefix)
      for await (const page of second.list(prefix)) {
        const present = await Promise.all(page.map(({ key }) => first.stat(key)))
        yield page.filter((_object: StoredObject, index) => present[index] === null)
      }
    },
    // A signed request would reach only one of the two stores.
    sign: () => Promise.resolve(null),
    async check () {
      await first.check()
      await second.check()
    },
    async close () {
      await Promise.all([first.close(), second.close()])
    },
    async restore (key, contentType) {
      const [here, there] = await Promise.all([first.stat(key), second.stat(key)])
      if (here !== null && there !== null) return 'complete'
      if (here === null && there === null) return 'lost'
      const [from, to] = here === null ? [second, first] : [first, second]
      return await copyBetween(from, to, key, contentType) ? 'copied' : 'lost'
    }
  }
}

/** Returns false if there is no object. */
async function copyBetween (from: ObjectStore, to: ObjectStore, key: string, contentType: string, hasToken?: boolean): Promise<boolean> {
  const bytes = await from.get(key)
  if (bytes === null) return false
  await to.put(key, bytes, contentType, hasToken)
  return true
}
