/** Caches a figure from an external store. Limits how often it is read and how long callers wait. */
import { settlesWithin } from './with-timeout.js'

const maxWaitMs = 1000 // ms that callers wait for a result

export interface CachedProbeOptions {
  /** Called with the error of a failed read. */
  readonly onError: (error: unknown) => void
  /** The minimum time between two reads, in milliseconds. With 0, each call after a result reads again. Default: 5000. */
  readonly everyMs?: number | undefined
  /** The clock, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

/** The latest result; null if the read failed, or took longer than a second. One read at a time: a hanging store gets no further ones. */
export function createCachedProbe<Result> (
  read: () => Promise<Result>,
  { onError, everyMs = 5000, now = () => performance.now() }: CachedProbeOptions
): () => Promise<Result | null> {
  let readAt = -Infinity
  let latest: Result | null = null
  let pending: Promise<void> | null = null

  async function refresh (): Promise<void> {
    try {
      latest = await read()
    } catch (error) {
      latest = null
      onError(error)
    }
  }

  return async () => {
    if (pending === null && now() - readAt >= everyMs) {
      readAt = now()
      // Not in `refresh`, which may end before this assignment.
      pending = refresh().finally(() => {
        pending = null
      })
    }
    if (pending !== null && !await settlesWithin(pending, readAt + maxWaitMs - now())) return null
    return latest
  }
}
