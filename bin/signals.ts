/** How a signal ends a command that runs until one comes. */
import type {} from '../plugins/stop.js'
import type { FastifyInstance } from 'fastify'

/** Resolves when SIGTERM or SIGINT, which has no `server.stopDelayMs`, has closed the app; a second one ends the process at once. */
export async function stopOnSignal (app: FastifyInstance): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let stopping = false
    const stop = (signal: NodeJS.Signals) => {
      // Whoever asks twice does not want to wait.
      if (stopping) process.exit(1)
      stopping = true
      // Who sits before a terminal sends no requests elsewhere.
      if (signal === 'SIGINT' && app.hasDecorator('stopping')) app.stopping.skipDelay()
      app.close().then(resolve, reject)
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  })
}
