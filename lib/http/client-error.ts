/** Answers requests that are not valid HTTP: they have a socket, but no route, request object or hooks. */
import type { FastifyInstance } from 'fastify'
import type { Socket } from 'node:net'
import { STATUS_CODES } from 'node:http'
import { catalogue } from '../errors.js'
import { requestIds, requestIdHeader, securityHeaders } from './response-headers.js'

const nextId = requestIds()

/** Connections whose bodies may take longer than Node's `requestTimeout`. */
const unhurried = new WeakSet<Socket>()

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
  const requestId = nextId({ headers: {} })
  const [status, message] = refusalOf(error.code)
  const title = STATUS_CODES[status] ?? catalogue.badRequest.title
  this.log.debug({ err: error, reqId: requestId }, 'a connection sent invalid HTTP')
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
