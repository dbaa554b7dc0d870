/** Sends periodic jobs: every process sends in each slot of time, and the first one counts. */
import type { FastifyBaseLogger } from 'fastify'
import { repeat } from '../../lib/concurrency/repeat.js'
import type { QueueService } from './service.js'

const againMs = 30_000 // after a failed send; a quarter of the slot if that is shorter

/** Sends jobs that no process has sent in this slot, and repeats; returns the function that ends it and waits for running sends. */
export function startPeriods (
  { periods, sendPeriodic }: Pick<QueueService, 'periods' | 'sendPeriodic'>,
  log: FastifyBaseLogger
): () => Promise<void> {
  const stops = Array.from(periods, ([name, seconds]) =>
    repeat(async () => {
      const slotMs = seconds * 1000
      try {
        await sendPeriodic(name, seconds)
        return untilNextSlot(slotMs)
      } catch (err) {
        // The worker, which polls more often, logs that the database is lost.
        log.debug({ err, task: name }, 'a periodic job could not be sent; retrying')
        return Math.min(againMs, slotMs / 4)
      }
    }))
  return async () => {
    await Promise.all(stops.map((stop) => stop()))
  }
}

/** In the middle half of the slot, so that neither a small clock difference nor a late timer misses it. */
function untilNextSlot (slotMs: number): number {
  const now = Date.now()
  return (Math.floor(now / slotMs) + 1.25 + Math.random() / 2) * slotMs - now
}
