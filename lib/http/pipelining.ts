/**
 * Limits the pipelined requests of a connection that run at once. One packet has room for two thousand requests, which would otherwise
 * all start before the loop serves another connection. Responses go out in the order of the requests anyway.
 */
import type { onRequestHookHandler } from 'fastify'
import type { Socket } from 'node:net'

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
