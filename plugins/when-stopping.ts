/** What ends as soon as a stop begins: while the requests in flight still finish, where the plugin stop is registered by then. */
import type {} from './stop.js'
import type { FastifyInstance } from 'fastify'

/** Runs the work once. */
export function whenStopping (app: FastifyInstance, work: () => void): void {
  let done = false
  const once = () => {
    if (done) return
    done = true
    work()
  }
  if (app.hasDecorator('stopping')) app.stopping.signal.addEventListener('abort', once)
  // Without a port, and without that plugin.
  app.addHook('preClose', async () => { once() })
}
