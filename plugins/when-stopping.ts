/**
 * What ends as soon as a stop begins: while the requests in flight still finish, and before any plugin closes, where the
 * plugin stop is registered by then.
 */
import type {} from './stop.js'
import type { FastifyInstance } from 'fastify'

/** Runs the work once; the app has not closed before it has ended. */
export function whenStopping (app: FastifyInstance, work: () => Promise<void>): void {
  let ended: Promise<void> | undefined
  const begin = () => {
    ended ??= work()
    return ended
  }
  if (app.hasDecorator('stopping')) {
    const { stopping } = app
    stopping.signal.addEventListener('abort', () => stopping.until(begin()))
  }
  // Without that plugin, and where the app was never ready.
  app.addHook('preClose', async () => { begin() })
  app.addHook('onClose', async () => await ended)
}
