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
  /** Aborted when the time to stop is over and the app has not closed. Work that still waits, for example for a database, must give up. */
  readonly overdue: AbortSignal
  /** Skips the delay of the stop, now or later. */
  skipDelay(): void
  /** Plugins close after this work too. Call it when the stop begins, see `whenStopping`. */
  until(work: Promise<void>): void
}

/**
 * The options of `Fastify(...)` that the plugin stop needs, so that requests in the last moment before the server closes still reach it.
 */
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
  // Without the plugin stop, and if the app was never ready.
  app.addHook('preClose', async () => {
    begin()
  })
  app.addHook('onClose', async () => await ended)
}
