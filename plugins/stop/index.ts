/**
 * Graceful stop: `app.stopping`. While the app closes, requests in flight finish and new ones get 503. Register it first,
 * and give Fastify its `serverOptions`.
 *
 * Probes (routes with `config: { probe: true }`) are refused at once. With `delayMs` other requests are still served for
 * that time, so that their senders can notice; each response ends its connection. The server listens until the requests in
 * flight have their responses. With `host: 'localhost'` Fastify listens on a second loopback address; silent connections
 * there are not waited for either.
 */
import type { ServerResponse } from 'node:http'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { failure } from '../../lib/errors.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { whole } from '../../lib/plugin/options.js'
import { whenEnded } from '../../lib/plugin/request-end.js'
import { serverOptions } from '../../lib/plugin/when-stopping.js'
import { Slots } from '../../lib/concurrency/slots.js'

const lingering = 500 // ms for refusals to arrive, before connections that send nothing are cut off
const endingMs = 200 // for what is left after that: jobs are handed back, and what is in memory is written
const longestDelay = 300_000 // ms
const noSlot = -1
const slotInFlight = Symbol('tenantry.stop.slot')

export { serverOptions, type Stopping } from '../../lib/plugin/when-stopping.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The slot of the response among those in flight. */
    [slotInFlight]: number
  }
  interface FastifyContextConfig {
    /**
     * The route tells whether this server wants requests: it is refused as soon as the server stops, others after the delay.
     * Default: false.
     */
    probe?: boolean
  }
}

export interface StopOptions {
  /**
   * Milliseconds, 0 to 300,000, for which requests are still served while the app closes and probes are refused. Without a port
   * there is no delay. Default: 0.
   */
  readonly delayMs?: number | undefined
  /**
   * Milliseconds that requests in flight have to finish after that; connections are destroyed then. Default: 9000, so that with
   * the database's end a stop takes no longer than 10 s and the delay.
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
    const hurried = new AbortController()
    const overdue = new AbortController()
    const works: Array<Promise<void>> = []
    let timer: NodeJS.Timeout | undefined
    let refuses = false
    let whenIdle = () => {}
    app.decorate('stopping', {
      signal: begun.signal,
      overdue: overdue.signal,
      skipDelay: () => hurried.abort(),
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

    // Fastify closes its server in the `onClose` that it adds last before it is ready; those added later run before it,
    // and, other than `preClose`, without a time-out of its own.
    app.addHook('onReady', async () => {
      app.addHook('onClose', drain)
    })

    // Of those of all plugins the last.
    app.addHook('onClose', async () => {
      clearTimeout(timer)
    })

    async function drain (): Promise<void> {
      begun.abort()
      await Promise.allSettled([endServing(), ...works])
    }

    async function endServing (): Promise<void> {
      for (const response of inFlight) lastOfItsConnection(response)
      const { server } = app
      if (server.listening && delayMs > 0) await sleep(delayMs, undefined, { signal: hurried.signal }).catch(() => {})
      refuses = true
      timer = setTimeout(() => overdue.abort(), timeoutMs + endingMs).unref()
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
      // Connections that have been opened are accepted, and requests on them and on kept ones read and refused.
      for (let turns = 0; turns < 3; turns++) await turn()
      // Another process may have the port from now on, whatever else is waited for.
      server.close()
      if (await settlesWithin(closed, inTime ? lingering : 0)) return
      server.closeAllConnections()
      // Those that are no longer HTTP end with the plugins that have them.
      await settlesWithin(closed, lingering)
    }
    return undefined
  }
})

/** Node ends the connection after the answer, and says so in it, where its headers are not sent yet. */
function lastOfItsConnection (response: ServerResponse): void {
  response.shouldKeepAlive = false
}

export default Object.assign(stop, { serverOptions })
