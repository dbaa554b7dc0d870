/**
 * Locks of resumable uploads for @tus/server, in the order of arrival. The locks of the package retry at each turn of the event loop, and
 * keep every attempt in memory until the request gets its lock.
 */
import type { Locker } from '@tus/server'
import { failure } from '../../lib/errors.js'

const maxWaiting = 8 // requests of an upload
const longestWait = 30_000 // ms

/** A request that holds the lock or waits for it. */
interface Entry {
  /** Asks the holder to end, since another request waits. */
  readonly release: () => unknown
  readonly granted: () => void
}

/** Locks that reject with `stateConflict` if too many requests of an upload wait, or after `waitMs`. */
export function createUploadLocks (waitMs = longestWait): Locker {
  /** By upload: the holder, then the waiting requests. */
  const queues = new Map<string, Entry[]>()

  async function acquire (id: string, signal: AbortSignal, release: () => unknown): Promise<Entry> {
    const queue = queues.get(id)
    if (queue === undefined) {
      const holder = { release, granted () {} }
      queues.set(id, [holder])
      return holder
    }
    if (queue.length > maxWaiting) throw busy()
    return await new Promise((resolve, reject) => {
      const refuse = () => {
        end()
        leave(id, entry)
        reject(busy())
      }
      const timer = setTimeout(refuse, waitMs)
      const end = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', refuse)
      }
      const entry: Entry = {
        release,
        granted () {
          end()
          resolve(entry)
        }
      }
      signal.addEventListener('abort', refuse)
      queue.push(entry)
      queue[0]?.release()
    })
  }

  function leave (id: string, entry: Entry): void {
    const queue = queues.get(id) ?? []
    const place = queue.indexOf(entry)
    if (place === -1) return
    queue.splice(place, 1)
    const [next] = queue
    if (next === undefined) queues.delete(id)
    else if (place === 0) {
      next.granted()
      if (queue.length > 1) next.release()
    }
  }

  return {
    newLock (id) {
      let entry: Entry | undefined
      return {
        async lock (signal, release) {
          entry = await acquire(id, signal, release)
        },
        async unlock () {
          if (entry !== undefined) leave(id, entry)
        }
      }
    }
  }
}

function busy () {
  return failure('stateConflict', { message: 'Other requests of this upload are in progress: wait until they have ended, then try again' })
}
