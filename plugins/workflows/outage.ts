/** Repeats the write of a result until it succeeds, because the work itself must not be repeated. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isOutage } from '../../lib/database/failures.js'

const pauseMs = 1000

/**
 * Repeats the work while the database is unreachable, or while that causes errors. Rejects with other errors, and if the signal is aborted.
 */
export async function throughOutages<Result> (work: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (signal.aborted || !(isOutage(error) || isOutage(Object(error).cause))) throw error
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => {})
  }
}
