/** The first hooks of every request: limits of its headers and of pipelined requests, its id, and the headers of its response. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, onRequestHookHandler } from 'fastify'

/** Requests of a connection that run behind its first one. */
const maxStarted = 16
/** Requests of a connection that wait to start. With more of them, the connection is closed. */
const maxWaiting = 256

interface Line {
  started: number
  readonly waiting: Array<() => void>
}

const lines = new WeakMap<Socket, Line>()

/**
 * Must be the first hook of the server: it never continues requests whose connection is closed. One packet has room for two thousand
 * requests, which would otherwise all start before the loop serves another connection. Responses go out in the order of the requests
 * anyway.
 */
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

/** Pages of other origins read responses through CORS, which `Cross-Origin-Resource-Policy` does not affect. */
export const securityHeaders = Object.freeze({
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin'
})

/** Without `includeSubDomains`: the server does not decide for other hosts. */
const strictTransport = 'max-age=31536000'

export const requestIdHeader = 'x-request-id'

const maxHeaders = 200

/**
 * Makes Node pass all headers, so that `checkHeaders` can count them. By default it leaves out those after the first two thousand. A
 * caller could so hide headers that a proxy appends, such as the caller's address. Their total size has a limit of its own.
 */
export function passAllHeaders ({ server }: FastifyInstance): void {
  server.maxHeadersCount = 0
}

/**
 * Joins repeated headers with commas, so that a proxy and this server read the same value. A missing Host is left to `checkHeaders`, whose
 * response has the usual form.
 */
export const headerOptions = Object.freeze({ joinDuplicateHeaders: true, requireHostHeader: false })

/** Must run before hooks that read headers: reading thousands takes a millisecond. */
export const checkHeaders: onRequestHookHandler = ({ id, raw }, reply, done) => {
  const fault = faultOfHeaders(raw)
  if (fault === null) return done()
  // `setCommonHeaders` has not run.
  reply.headers(securityHeaders).header(requestIdHeader, id).header('connection', 'close')
  done(Object.assign(new Error(fault.message), { statusCode: fault.statusCode, expose: true }))
}

function faultOfHeaders (request: IncomingMessage): typeof tooMany | null {
  if (request.rawHeaders.length > 2 * maxHeaders) return tooMany
  return hasHost(request) ? null : hostless
}

const tooMany = { statusCode: 431, message: `The request has more than ${maxHeaders} headers` }
const hostless = { statusCode: 400, message: 'The request must have exactly one Host header' }

/** One Host (RFC 9112, 3.2), which HTTP/1.0 may leave out. */
function hasHost ({ headers: { host }, httpVersion }: IncomingMessage): boolean {
  return host === undefined ? httpVersion === '1.0' : !host.includes(',')
}

export const setCommonHeaders: onRequestHookHandler = (request, reply, done) => {
  reply.headers(securityHeaders).header(requestIdHeader, request.id)
  // Over TLS, or through a trusted proxy that reports it.
  if (request.protocol === 'https') reply.header('strict-transport-security', strictTransport)
  done()
}

const plainWord = /^[\w.-]{1,128}$/

/** The caller's `x-request-id` if it is a plain word, otherwise an id that is unique across processes. */
export function requestIds (): (request: Pick<IncomingMessage, 'headers'>) => string {
  const prefix = randomBytes(6).toString('base64url')
  let count = 0
  return ({ headers }) => {
    const given = headers[requestIdHeader]
    return typeof given === 'string' && plainWord.test(given) ? given : `${prefix}-${(++count).toString(36)}`
  }
}
