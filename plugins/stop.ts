/**
 * Graceful stop: while the app closes, requests in flight finish and new ones get 503. A service plugin (fp); register
 * it first, and give Fastify its `serverOptions`.
 *
 * The server listens until the requests in flight are answered, so that a balancer's health check sees the 503. With
 * `host: 'localhost'` Fastify listens on a second loopback address; silent connections there are not waited for either.
 */
import type { FastifyInstance } from 'fastify'
import type { Server } from 'node:http'
import fp from 'fastify-plugin'
import { failure } from '../lib/errors.js'

const lingering = 500 // ms for refusals to arrive, before connections that send nothing are cut off

export interface StopOptions {
  /** Milliseconds that requests in flight have to finish; connections are destroyed then. Default: 9000, so that with the database's end a stop takes no longer than 10 s. */
  readonly timeoutMs?: number
}

/** What to give to `Fastify(...)`: requests that arrive in the last moment before the server closes reach this plugin too. */
export const serverOptions = Object.freeze({ return503OnClosing: false })

export async function stop (app: FastifyInstance, { timeoutMs = 9000 }: StopOptions): Promise<void> {
  let stopping = false
  let inFlight = 0
  let whenIdle = () => {}

  const release = () => {
    inFlight--
    if (inFlight === 0) whenIdle()
  }

  app.addHook('onRequest', (_request, reply, done) => {
    if (stopping) throw failure('stopping', { headers: { connection: 'close', 'retry-after': '1' } })
    inFlight++
    // 'close' comes after an answer and after an abort alike.
    reply.raw.once('close', release)
    done()
  })

  // Fastify closes its server in the `onClose` that it adds last before it is ready; those added later run before it,
  // and, other than `preClose`, without a time-out of its own.
  app.addHook('onReady', async () => { app.addHook('onClose', drain) })

  async function drain (): Promise<void> {
    stopping = true
    const { server } = app
    if (!server.listening) return
    const closed = new Promise<void>((resolve) => { server.once('close', resolve) })
    const inTime = await settles(new Promise<void>((resolve) => {
      whenIdle = resolve
      if (inFlight === 0) resolve()
    }), timeoutMs)
    if (!inTime) app.log.warn(`${inFlight} requests were cut off: they did not finish within ${timeoutMs} ms`)
    cutOff(server, inTime ? lingering : 0, closed)
  }
}

/** Destroys what is left of the connections after a while, unless the server has closed by then. */
function cutOff (server: Server, afterMs: number, closed: Promise<void>): void {
  const timer = setTimeout(() => server.closeAllConnections(), afterMs)
  closed.finally(() => clearTimeout(timer))
}

/** Whether the promise settles within the time. */
async function settles (promise: Promise<void>, withinMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => { timer = setTimeout(() => resolve(false), withinMs) })
  const settled = await Promise.race([promise.then(() => true), late])
  clearTimeout(timer)
  return settled
}

export default Object.assign(fp(stop, { name: 'tenantry-stop', fastify: '5.x' }), { serverOptions })
