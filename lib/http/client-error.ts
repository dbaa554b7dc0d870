/** Answers requests that are not valid HTTP: they have a socket, but no route, request object or hooks. */
import { ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { catalogue } from '../errors.js'
import { requestIdHeader, requestIds, securityHeaders } from './first-hooks.js'

const nextId = requestIds()

/** Connections whose bodies may take longer than Node's `requestTimeout`. */
const unhurried = new WeakSet<Socket>()
/** Connections that sent invalid HTTP: they end after the refusal. */
const refused = new WeakSet<Socket>()

/** Lifts the time limit of the current request's body, since the caller checks its speed. Returns the function that ends this. */
export function allowSlowBody (socket: Socket): () => void {
  unhurried.add(socket)
  return () => {
    unhurried.delete(socket)
  }
}

/** Fastify's `clientErrorHandler`: malformed, too large or too slow requests get the usual error body, and the connection ends. */
export function handleClientError (this: FastifyInstance, error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && unhurried.has(socket)) return
  // More invalid bytes may follow.
  if (refused.has(socket)) return
  refused.add(socket)
  const requestId = nextId({ headers: {} })
  this.log.debug({ err: error, reqId: requestId }, 'a connection sent invalid HTTP')
  const [status, message] = refusalOf(error.code)
  const end = () => refuse(socket, status, message, requestId)
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') inRounds(end)
  else end()
}

const perRound = 20
let waiting: Array<() => void> = []

/** Node reports the timeouts of 30 seconds at once. Ending thousands of connections takes seconds: a few end in each round of the loop. */
function inRounds (work: () => void): void {
  if (waiting.push(work) === 1) setImmediate(nextRound)
}

function nextRound (): void {
  for (const work of waiting.slice(0, perRound)) work()
  waiting = waiting.slice(perRound)
  if (waiting.length > 0) setImmediate(nextRound)
}

/** Sends the refusal in the order of the requests, and ends the connection. */
function refuse (socket: Socket, status: number, message: string, requestId: string): void {
  const before = responseOf(socket)
  // The fault is in the bytes after an earlier request, which has taken effect and gets its own response.
  if (before?.req.complete === true) {
    before.once('close', () => refuse(socket, status, message, requestId))
    return
  }
  // Its response has begun before its body was complete: a second one would become part of it.
  if (before?.headersSent === true) {
    socket.destroy()
    return
  }
  const title = STATUS_CODES[status] ?? catalogue.badRequest.title
  if (socket.writable) {
    const body = JSON.stringify({ error: title, message, code: catalogue.badRequest.code, requestId })
    const headers = {
      ...securityHeaders,
      [requestIdHeader]: requestId,
      connection: 'close',
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(body)
    }
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.write(`HTTP/1.1 ${status} ${title}\r\n${lines.join('')}\r\n${body}`)
  }
  socket.destroySoon()
}

/** The response under way on the connection. Node's own handler of such errors reads it in the same way. */
export function responseOf (socket: object): ServerResponse | null {
  const response: unknown = Reflect.get(socket, '_httpMessage')
  return response instanceof ServerResponse ? response : null
}

function refusalOf (code: string | undefined): [status: number, message: string] {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return [431, 'The URL and the headers are larger than this server accepts']
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [408, 'The request took too long to arrive']
    default:
      return [400, 'This is not a valid HTTP/1.1 request']
  }
}
