/** Runs the removal of expired files. */
import type { FastifyInstance } from 'fastify'

/** Sweeps when the app is ready, and then every `everyMs`. */
export function sweepRegularly (app: FastifyInstance, everyMs: number, sweep: () => Promise<void>): void {
  let running: Promise<void> | null = null
  const run = () => {
    running ??= sweep()
      .catch((err: unknown) => app.log.warn({ err }, 'expired files could not be removed; the next sweep tries again'))
      .finally(() => {
        running = null
      })
  }
  let timer: NodeJS.Timeout | undefined
  app.addHook('onReady', async () => {
    run()
    timer = setInterval(run, everyMs).unref()
  })
  app.addHook('onClose', async () => {
    clearInterval(timer)
    await running
  })
}
