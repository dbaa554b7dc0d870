/** Figures that the database, or another store outside this process, has to be asked for: seldom, and never waited for for long. */
import { settlesWithin } from './with-timeout.js'

const patience = 1000 // ms that callers wait for the answer to a question

export interface CachedProbeOptions {
  /** Called with the error of a failed question. */
  readonly onError: (error: unknown) => void
  /** The least time between two questions, in milliseconds. With 0 each call after an answer asks again. Default: 5000. */
  readonly everyMs?: number | undefined
  /** The clock, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

/**
 * The latest answer; null if the question failed, or was not answered within a second. One question at a time: of a store
 * that hangs no more is asked, however many want to know.
 */
export function createCachedProbe<Answer> (
  ask: () => Promise<Answer>,
  { onError, everyMs = 5000, now = () => performance.now() }: CachedProbeOptions
): () => Promise<Answer | null> {
  let askedAt = -Infinity
  let latest: Answer | null = null
  let asking: Promise<void> | null = null

  async function question (): Promise<void> {
    try {
      latest = await ask()
    } catch (error) {
      latest = null
      onError(error)
    } finally {
      asking = null
    }
  }

  return async () => {
    if (asking === null && now() - askedAt >= everyMs) {
      askedAt = now()
      asking = question()
    }
    if (asking !== null && !await settlesWithin(asking, askedAt + patience - now())) return null
    return latest
  }
}
