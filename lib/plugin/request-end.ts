/**
 * The requests in flight, and the end of each, reported once after a response or an abort. Fastify's onResponse and onRequestAbort both
 * miss callers that disconnect after their body was read. Neither reports a hijacked reply that is cut off.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { logAborted } from '../log/request-log.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** A rate limit rejected the request. Absent without the plugin rate-limit. */
    rateLimited: boolean
  }
}

const refused = 429 // also if the rule of the limit sets another status
const left = 499 // the caller disconnected before the response; the number is nginx's

/** `ms` is the duration of the request. Errors of the listener are logged. The handler of a disconnected caller may still run. */
type RequestEndListener = (request: FastifyRequest, reply: FastifyReply, ms: number) => void

const listenersOf = new WeakMap<FastifyInstance, RequestEndListener[]>()

/** Responses that wait behind other responses of their connection. */
const waitingOf = new WeakMap<Socket, Set<ServerResponse>>()

/**
 * Calls the listener at the end of each request. All listeners of an app share the hook of the first one. They get every request that this
 * hook sees, also on routes that were registered before the listener. They miss requests that an earlier `onRequest` hook rejects.
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
        reply.log.error({ err }, 'a task at the end of a request failed')
      }
    }
  }

  app.addHook('onRequest', (request, reply, done) => {
    // `reply.elapsedTime` is 0 if nothing is logged.
    const begun = performance.now()
    const { raw } = reply
    if (raw.socket === null) closeWith(request.raw.socket, raw)
    // The caller disconnected during an earlier hook.
    if (raw.destroyed) end(reply, 0)
    else raw.on('close', () => end(reply, performance.now() - begun))
    done()
  })
}

/** Logs requests whose response was not sent completely. Fastify itself logs errors and responses that were sent. */
export function logAbortedRequests (app: FastifyInstance): void {
  whenEnded(app, (request, reply, ms) => {
    const { raw } = reply
    // The last byte of the response was handed to the system. The response to an injected request stays in its open socket.
    const isSent = raw.writableFinished || raw.socket?.destroyed === false
    if (!isSent && raw.errored === null) logAborted(request, endStatusOf(request, reply), ms)
  })
}

/** The status of an ended request, even if the caller received no response. */
export function endStatusOf (request: FastifyRequest, reply: FastifyReply): number {
  // `rateLimited` is undefined without the plugin rate-limit.
  if (request.rateLimited === true) return refused
  return reply.raw.headersSent ? reply.statusCode : left
}

/** When a connection closes, Node closes the response that uses it, but not the responses that wait behind it. */
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

/** Does nothing if the response already had the connection. */
function close (response: ServerResponse): void {
  if (response.socket !== null || response.destroyed) return
  response.destroy()
  // As Node sets it on the response that has the connection. Without it, `pipe` and `finished` wait for ever if they begin later.
  Object.defineProperty(response, 'closed', { value: true })
  response.emit('close')
}

/** Requests that run a tool for another request: they are part of that request, and do not count as API calls. */
const toolCalls = new WeakSet<IncomingMessage>()

export function markToolCall (call: IncomingMessage): void {
  toolCalls.add(call)
}

export function isToolCall ({ raw }: FastifyRequest): boolean {
  return toolCalls.has(raw)
}
