/**
 * The end of each request, reported once, after an answer or an abort. Fastify's onResponse and onRequestAbort
 * both miss a caller who leaves when its body has been read, and neither comes for a hijacked reply that is cut off.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

declare module 'fastify' {
  interface FastifyRequest {
    /** A rate limit refused it. Absent without the plugin rate-limit. */
    rateLimited: boolean
  }
}

const refused = 429 // whatever status a rule of limits answers with
const left = 499 // the caller was gone before there was an answer; the number is nginx's

/** `ms` is how long the request took. What it throws is logged. The handler of a caller who left may still run. */
export type RequestEndListener = (request: FastifyRequest, reply: FastifyReply, ms: number) => void

const listenersOf = new WeakMap<FastifyInstance, RequestEndListener[]>()

/** Responses that wait behind others of their connection. */
const waitingOf = new WeakMap<Socket, Set<ServerResponse>>()

/**
 * Has the listener called at the end of each request. All listeners of an app share one hook, that of the first: they hear
 * of the requests that it reaches, some of them perhaps of routes that were registered before the listener was, and
 * of none that an `onRequest` hook before it refuses.
 */
export function whenEnded (app: FastifyInstance, listener: RequestEndListener): void {
  const known = listenersOf.get(app)
  if (known !== undefined) {
    known.push(listener)
    return
  }
  const listeners = [listener]
  listenersOf.set(app, listeners)

  function end (reply: FastifyReply, ms: number): void {
    for (const listener of listeners) {
      try {
        listener(reply.request, reply, ms)
      } catch (err) {
        reply.log.error({ err }, 'what is done at the end of a request failed')
      }
    }
  }

  app.addHook('onRequest', (request, reply, done) => {
    // That of the reply is 0 where nothing is logged.
    const begun = performance.now()
    const { raw } = reply
    if (raw.socket === null) closeWith(request.raw.socket, raw)
    // While a hook before this one took its time.
    if (raw.destroyed) end(reply, 0)
    else raw.on('close', () => end(reply, performance.now() - begun))
    done()
  })
}

/** The status of a request that has ended: also of those that no caller has seen. */
export function endStatusOf (request: FastifyRequest, reply: FastifyReply): number {
  // There is none without the plugin rate-limit.
  return request.rateLimited === true ? refused : reply.raw.headersSent ? reply.statusCode : left
}

/** Whether the last byte of the answer was handed over. An injected request's never leaves its socket, which is open to the end. */
export function wasSent ({ raw }: FastifyReply): boolean {
  return raw.writableFinished || raw.socket?.destroyed === false
}

/** Node closes the response that has the connection when that is closed, and none of those that wait behind it. */
function closeWith (socket: Socket, response: ServerResponse): void {
  const waiting = waitingOf.get(socket) ?? new Set<ServerResponse>()
  if (!waitingOf.has(socket)) {
    waitingOf.set(socket, waiting)
    socket.once('close', () => {
      for (const response of waiting) close(response)
    })
  }
  waiting.add(response)
  response.once('close', () => waiting.delete(response))
  if (socket.closed) close(response)
}

/** Does nothing where the response has had its turn. */
function close (response: ServerResponse): void {
  if (response.socket !== null || response.destroyed) return
  response.destroy()
  response.emit('close')
}
