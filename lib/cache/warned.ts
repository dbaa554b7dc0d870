/** Keeps callers from filling the log: a warning about one subject is logged at most once a minute. */
import { LRUCache } from 'lru-cache'
import { lruOptions } from './lru-options.js'

const periodMs = 60_000
const maxSubjects = 10_000

export type Warned = ReturnType<typeof createWarned>

export function createWarned () {
  /** The subjects with a warning in the last minute. */
  const recent = new LRUCache<string, true>({ ...lruOptions(maxSubjects), ttl: periodMs })
  return {
    /** Whether the subject had no warning in the last minute. `subject`: the tenant first, then the place or the kind. */
    isFirst (...subject: ReadonlyArray<string | null | undefined>): boolean {
      const key = JSON.stringify(subject)
      if (recent.has(key)) return false
      recent.set(key, true)
      return true
    }
  }
}
