/** Work that ends as soon as the app begins to stop, before any plugin closes. */
import type { FastifyInstance } from 'fastify'
import { optional } from './optional.js'

declare module 'fastify' {
  interface FastifyInstance {
    stopping: Stopping
  }
}

/** `app.stopping`, of the plugin stop. */
export interface Stopping {
  /** Aborted when the app begins to stop. */
  readonly signal: AbortSignal
  /**
   * Aborted when the time to stop is over and the app has not closed. Waits that still hang, of a database for example, must be
   * given up.
   */
  readonly overdue: AbortSignal
  /** Skips the delay of the stop, now or later. */
  skipDelay(): void
  /** Plugins close after this work too. Call it when the stop begins, see `whenStopping`. */
  until(work: Promise<void>): void
}

/** The options that `Fastify(...)` needs with the plugin stop: requests in the last moment before the server closes reach it too. */
export const serverOptions = Object.freeze({ return503OnClosing: false })

/** Runs the work once when the app begins to stop. The app closes after it. Works without the plugin stop. */
export function whenStopping (app: FastifyInstance, work: () => Promise<void>): void {
  let ended: Promise<void> | undefined
  const begin = () => {
    ended ??= work()
    return ended
  }
  const stopping = optional(app, 'stopping')()
  stopping?.signal.addEventListener('abort', () => stopping.until(begin()))
  // Without that plugin, and where the app was never ready.
  app.addHook('preClose', async () => {
    begin()
  })
  app.addHook('onClose', async () => await ended)
}
