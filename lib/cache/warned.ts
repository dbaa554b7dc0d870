/** Keeps callers from filling the log: a warning about one subject is logged at most once a minute. */
import { LRUCache } from 'lru-cache'
import { lruOptions } from './lru-options.js'

const periodMs = 60_000
const maxSubjects = 10_000

/** The tenant first, then the place or the kind. */
type Subject = ReadonlyArray<string | null | undefined>

export type Warned = ReturnType<typeof createWarned>

export function createWarned () {
  /** The subjects with a warning in the last minute. */
  const recent = new LRUCache<string, true>({ ...lruOptions(maxSubjects), ttl: periodMs })

  /** Whether the subject had no warning in the last minute. */
  function isFirst (...subject: Subject): boolean {
    const key = JSON.stringify(subject)
    if (recent.has(key)) return false
    recent.set(key, true)
    return true
  }

  return {
    isFirst,
    /** The level of a line about the subject: `warn` for the first in a minute, `debug` for its repetitions. */
    levelOf: (...subject: Subject): 'warn' | 'debug' => isFirst(...subject) ? 'warn' : 'debug'
  }
}
