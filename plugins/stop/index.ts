/**
 * Graceful stop: `app.stopping`. While the app closes, running requests finish and new ones get 503. Register it first, and give Fastify
 * its `serverOptions`.
 *
 * Probes (routes with `config: { probe: true }`) are refused at once. With `delayMs` other requests are still served for that time, so that
 * load balancers can notice; each response closes its connection. The server listens until all running requests have their responses. With
 * `host: 'localhost'` Fastify listens on a second loopback address; idle connections there do not delay the stop either.
 */
import { setMaxListeners } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { Slots } from '../../lib/concurrency/slots.js'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { failure } from '../../lib/errors.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { serverOptions } from '../../lib/plugin/lifecycle.js'
import { whole } from '../../lib/plugin/options.js'
import { whenEnded } from '../../lib/plugin/request-end.js'

const lingering = 500 // ms for refusals to arrive, before idle connections are destroyed
const endingShare = 0.9 // of the time for running requests; then they have to end
const restMs = 200 // for the rest of the stop: jobs are handed back, and data in memory is written
const longestDelay = 300_000 // ms
const noSlot = -1
const slotInFlight = Symbol('tenantry.stop.slot')

export { serverOptions, type Stopping } from '../../lib/plugin/lifecycle.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The slot of the response among the running ones. */
    [slotInFlight]: number
  }
  interface FastifyContextConfig {
    /**
     * A probe, which shows whether this server accepts requests: it is refused as soon as the server stops, other routes after the delay.
     * Default: false.
     */
    probe?: boolean
  }
}

export interface StopOptions {
  /**
   * Milliseconds, 0 to 300,000, for which requests are still served and probes refused while the app closes. Without a port
   * there is no delay. Default: 0.
   */
  readonly delayMs?: number | undefined
  /**
   * Milliseconds after the delay for running requests to finish; then connections are destroyed. Default: 9000, so that a stop
   * takes no longer than 10 s and the delay, including the end of the database.
   */
  readonly timeoutMs?: number | undefined
}

const stop = definePlugin<StopOptions>({
  name: 'stop',
  observesRoutes: true,
  options: { delayMs: whole(0, longestDelay), timeoutMs: whole(0, 600_000) },
  setup (app, { delayMs = 0, timeoutMs = 9000 }) {
    const inFlight = new Slots<ServerResponse>()
    const begun = new AbortController()
    const urgent = new AbortController()
    const ending = new AbortController()
    const overdue = new AbortController()
    // Plugins, and each upload, wait for them.
    setMaxListeners(0, begun.signal, ending.signal, overdue.signal)
    const works: Array<Promise<void>> = []
    const timers: NodeJS.Timeout[] = []
    let refuses = false
    let whenIdle = () => {}
    app.decorate('stopping', {
      signal: begun.signal,
      ending: ending.signal,
      overdue: overdue.signal,
      skipDelay: () => urgent.abort(),
      until: (work) => {
        works.push(work)
      }
    })

    app.decorateRequest(slotInFlight, noSlot)
    whenEnded(app, (request) => {
      if (request[slotInFlight] === noSlot) return
      inFlight.delete(request[slotInFlight])
      request[slotInFlight] = noSlot
      if (inFlight.size === 0) whenIdle()
    })

    app.addHook('onRequest', (request, reply, done) => {
      const { raw } = reply
      if (begun.signal.aborted) {
        if (refuses || request.routeOptions.config.probe === true) {
          throw failure('stopping', { headers: { connection: 'close', 'retry-after': '1' } })
        }
        lastOfItsConnection(raw)
      }
      // The caller may have left during an earlier hook.
      if (!raw.destroyed) request[slotInFlight] = inFlight.add(raw)
      done()
    })

    // Fastify adds the `onClose` hook that closes its server last, before it is ready. Hooks that are added later run before it and, unlike
    // `preClose`, without a timeout.
    app.addHook('onReady', async () => {
      app.addHook('onClose', async () => {
        begun.abort()
        await Promise.allSettled([endServing()])
        await Promise.allSettled(works)
      })
    })

    // The last one of all plugins.
    app.addHook('onClose', async () => {
      for (const timer of timers) clearTimeout(timer)
    })

    async function endServing (): Promise<void> {
      for (const response of inFlight) lastOfItsConnection(response)
      const { server } = app
      if (server.listening && delayMs > 0) await sleep(delayMs, undefined, { signal: urgent.signal }).catch(() => {})
      refuses = true
      timers.push(
        setTimeout(() => ending.abort(), timeoutMs * endingShare).unref(),
        setTimeout(() => overdue.abort(), timeoutMs + restMs).unref()
      )
      if (!server.listening) return
      const closed = new Promise<void>((resolve) => {
        server.once('close', resolve)
      })
      const inTime = await settlesWithin(
        new Promise<void>((resolve) => {
          whenIdle = resolve
          if (inFlight.size === 0) resolve()
        }),
        timeoutMs
      )
      if (!inTime) app.log.warn(`${inFlight.size} requests were cut off: they did not finish within ${timeoutMs} ms`)
      // New connections are accepted; requests on them and on open connections are read and refused.
      for (let turns = 0; turns < 3; turns++) await turn()
      // From now on another process may use the port, even while this one is still ending.
      server.close()
      if (await settlesWithin(closed, inTime ? lingering : 0)) return
      server.closeAllConnections()
      // Upgraded connections end with their plugins.
      await settlesWithin(closed, lingering)
    }
  }
})

/** If the headers are not sent yet, Node announces the close in them, and closes the connection after the response. */
function lastOfItsConnection (response: ServerResponse): void {
  response.shouldKeepAlive = false
}

export default Object.assign(stop, { serverOptions })
