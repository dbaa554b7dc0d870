/** How a signal ends a command that runs until one comes. */
import type { FastifyInstance } from 'fastify'

/** Resolves when SIGTERM or SIGINT has closed the app; a second one ends the process at once. */
export async function stopOnSignal (app: FastifyInstance): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let stopping = false
    const stop = () => {
      // Whoever asks twice does not want to wait.
      if (stopping) process.exit(1)
      stopping = true
      app.close().then(resolve, reject)
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  })
}
