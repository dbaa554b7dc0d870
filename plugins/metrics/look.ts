/** Figures that the database, or another store outside this process, has to be asked for: seldom, and never waited for for long. */
import { endsWithin } from '../../lib/ends-within.js'

const askedEvery = 5000 // ms at least between two questions, whoever wants to know
const patience = 1000 // ms from the beginning of a question; nobody waits for its answer any longer

export interface LookOptions {
  /** Told what a question was rejected with. */
  readonly onError: (error: unknown) => void
  /** The clock, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

/** What was last told, for 5 s; null where the question failed, or was not answered within a second. One question at a time. */
export function createLook<Told> (ask: () => Promise<Told>, { onError, now = () => performance.now() }: LookOptions): () => Promise<Told | null> {
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
    if (asking === null && now() - askedAt >= askedEvery) {
      askedAt = now()
      asking = question()
    }
    if (asking !== null && !await endsWithin(asking, askedAt + patience - now())) return null
    return told
  }
}
