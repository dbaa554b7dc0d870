/** Runs the removal of files whose time is over. */
import type { FastifyBaseLogger } from 'fastify'

const everyMs = 60_000

/** Returns the end of it, which waits for a sweep that runs. */
export function sweepRegularly (sweep: () => Promise<void>, log: FastifyBaseLogger): () => Promise<void> {
  let running: Promise<void> | null = null
  const run = () => {
    running ??= sweep()
      .catch((err: unknown) => log.warn({ err }, 'expired files could not be removed; the next sweep tries again'))
      .finally(() => { running = null })
  }
  const timer = setInterval(run, everyMs).unref()
  return async () => {
    clearInterval(timer)
    await running
  }
}
