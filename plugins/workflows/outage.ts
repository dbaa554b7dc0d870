/** Writes the results of finished work until it succeeds: it must not be done again. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isOutage } from '../../lib/database/failures.js'

const pauseMs = 1000

/**
 * Does the work again while the database is in an outage, or what it rejects with comes of one; rejects with anything else, and
 * where the signal is aborted.
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
