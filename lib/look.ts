/** Figures that the database, or another store outside this process, has to be asked for: seldom, and never waited for for long. */
import { endsWithin } from './ends-within.js'

const patience = 1000 // ms from the beginning of a question; nobody waits for its answer any longer

export interface LookOptions {
  /** Told what a question was rejected with. */
  readonly onError: (error: unknown) => void
  /** Milliseconds at least between the beginnings of two questions, whoever wants to know; with 0 who comes after an answer asks anew. Default: 5000. */
  readonly everyMs?: number | undefined
  /** The clock, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

/**
 * What was last told; null where the question failed, or was not answered within a second. One question at a time: of a store
 * that hangs no more is asked, however many want to know.
 */
export function createLook<Told> (ask: () => Promise<Told>, { onError, everyMs = 5000, now = () => performance.now() }: LookOptions): () => Promise<Told | null> {
  let askedAt = -Infinity
  let told: Told | null = null
  let asking: Promise<void> | null = null

  async function question (): Promise<void> {
    try {
      told = await ask()
    } catch (error) {
      told = null
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
    if (asking !== null && !await endsWithin(asking, askedAt + patience - now())) return null
    return told
  }
}
