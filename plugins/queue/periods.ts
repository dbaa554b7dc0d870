/** Sends periodic jobs: every process sends in each slot of time, and the first one counts. */
import type { FastifyBaseLogger } from 'fastify'
import type { QueueService } from './service.js'

const againMs = 30_000 // after a failed send; a quarter of the slot if that is shorter

/** Sends jobs that no process has sent in this slot, and repeats; returns the function that ends it and waits for a running send. */
export function startPeriods (
  { periods, sendPeriodic }: Pick<QueueService, 'periods' | 'sendPeriodic'>,
  log: FastifyBaseLogger
): () => Promise<void> {
  const timers = new Map<string, NodeJS.Timeout>()
  const sending = new Set<Promise<void>>()
  let ended = false

  function send (name: string, seconds: number): void {
    const slotMs = seconds * 1000
    const sent = sendPeriodic(name, seconds).then(() => untilNextSlot(slotMs), (err: unknown) => {
      // The worker, which polls more often, logs that the database is lost.
      log.debug({ err, task: name }, 'a periodic job could not be sent; retrying')
      return Math.min(againMs, slotMs / 4)
    }).then((ms) => {
      sending.delete(sent)
      if (!ended) timers.set(name, setTimeout(send, ms, name, seconds).unref())
    })
    sending.add(sent)
  }

  for (const [name, seconds] of periods) send(name, seconds)
  return async () => {
    ended = true
    for (const timer of timers.values()) clearTimeout(timer)
    await Promise.all(sending)
  }
}

/** In the middle half of the slot, so that neither a small clock difference nor a late timer misses it. */
function untilNextSlot (slotMs: number): number {
  const now = Date.now()
  return (Math.floor(now / slotMs) + 1.25 + Math.random() / 2) * slotMs - now
}
