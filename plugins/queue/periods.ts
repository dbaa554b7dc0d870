/** Sends jobs at their pace: every process does in each slot of time, and the first one's counts. */
import type { FastifyBaseLogger } from 'fastify'
import type { QueueService } from './service.js'

const againMs = 30_000 // after a send that failed; a quarter of the slot where that is shorter

/** Sends what no process has sent in this slot, and goes on; returns the end of it, which waits for a send under way. */
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
      // The worker, which asks more often, logs that the database is lost.
      log.debug({ err, task: name }, 'a job could not be sent at its time; it is tried again')
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

/** Somewhere in its middle half, so that neither a clock that is off by a little nor a late timer misses it. */
function untilNextSlot (slotMs: number): number {
  const now = Date.now()
  return (Math.floor(now / slotMs) + 1.25 + Math.random() / 2) * slotMs - now
}
