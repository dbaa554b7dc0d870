/**
 * Limits the headers of a request, and the pipelined requests of a connection that run at once.
 *
 * By default, Node leaves out all headers after the first two thousand. A caller could so hide those that a proxy appends, such as the
 * caller's address. And reading thousands takes a millisecond.
 *
 * One packet has room for two thousand requests, which would otherwise all start before the loop serves another connection. Responses go
 * out in the order of the requests anyway.
 */
import type { Socket } from 'node:net'
import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import { requestIdHeader, securityHeaders } from './response-headers.js'

/** Requests of a connection that run behind its first one. */
const maxStarted = 16
/** Requests of a connection that wait to start. With more of them, the connection is closed. */
const maxWaiting = 256

interface Line {
  started: number
  readonly waiting: Array<() => void>
}

const lines = new WeakMap<Socket, Line>()

/** Must be the first hook of the server: it never continues requests whose connection is closed. */
export const limitPipelining: onRequestHookHandler = (request, { raw }, done) => {
  // The response to a connection's first request has the socket. The others get it in turn.
  if (raw.socket !== null) return done()
  const { socket } = request.raw
  if (socket.destroyed) return
  const line = lines.get(socket) ?? { started: 0, waiting: [] }
  lines.set(socket, line)
  raw.once('socket', () => {
    line.started--
    const next = line.waiting.shift()
    if (next === undefined) return
    line.started++
    setImmediate(() => {
      if (!socket.destroyed) next()
    })
  })
  if (line.started < maxStarted) {
    line.started++
    done()
  } else if (line.waiting.length < maxWaiting) line.waiting.push(done)
  else socket.destroy()
}

const maxHeaders = 200

/** Makes Node pass all headers, so that `limitHeaderCount` can count them. Their total size has a limit of its own. */
export function passAllHeaders ({ server }: FastifyInstance): void {
  server.maxHeadersCount = 0
}

/** Must run before hooks that read headers. */
export const limitHeaderCount: onRequestHookHandler = ({ id, raw: { rawHeaders } }, reply, done) => {
  if (rawHeaders.length <= 2 * maxHeaders) return done()
  // The hooks that set them have not run.
  reply.headers(securityHeaders).header(requestIdHeader, id).header('connection', 'close')
  done(Object.assign(new Error(`The request has more than ${maxHeaders} headers`), { statusCode: 431, expose: true }))
}
