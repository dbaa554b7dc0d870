/**
 * The usage of requests: counts them and the bytes of their bodies, on every route of the app. A request counts when its response is
 * complete or when its caller has left. It counts for its tenant, even if that becomes known after the caller has left. The writer of a
 * hijacked reply records its bytes. Requests without a token count for the named tenant only on routes that it published for them, so
 * that callers cannot run up the usage of another tenant. A tool call counts as part of the request that makes it.
 */
import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { guardRoutes } from '../../lib/http/guards.js'
import { isToolCall, whenEnded } from '../../lib/plugin/request-end.js'
import type { TenantRoute } from '../tenant-config/tenant-routes.js'
import type { WaitingCounts } from './counts.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The bytes so far of bodies of unknown length; -1 once the request is counted. */
    streamedBytes: number
  }
  interface FastifyContextConfig {
    /** A request without a token counts for the tenant that it names. `signed`: if its signature was verified. Default: false. */
    countsUnauthenticated?: boolean | 'signed'
  }
}

/** The bytes of open connections at the end of their last request, which a proxy may have sent for another tenant. */
const totalsOf = new WeakMap<Socket, { readonly read: number, readonly written: number }>()
const noTotals = { read: 0, written: 0 }

/** `record`: see `request` of the waiting counts. */
export function countRequests (app: FastifyInstance, record: WaitingCounts['request']): void {
  const { trustHeader } = app.tenancy
  app.decorateRequest('streamedBytes', 0)
  // Hooks here apply to the whole context, so this one only marks routes as counted.
  guardRoutes(app, 'usage', () => {})

  app.addHook('onRequest', (request, _reply, done) => {
    if (request.headers['transfer-encoding'] !== undefined) observe(request, request.raw)
    done()
  })

  app.addHook('onSend', (request, reply, payload, done) => {
    // The caller left before its tenant was known.
    if (reply.raw.destroyed) count(request, 0)
    if (typeof payload !== 'object' || payload === null || payload instanceof Buffer || reply.hasHeader('content-length')) return done()
    if (payload instanceof ReadableStream) return done(null, observedWeb(request, payload))
    if (payload instanceof Response) {
      return done(null, payload.body === null ? payload : new Response(observedWeb(request, payload.body), payload))
    }
    // Counts the final payload, since other hooks may still change it.
    reply.raw.once('pipe', (source) => observe(request, source))
    done()
  })

  whenEnded(app, (request, reply) => {
    const { streamedBytes }: { streamedBytes: number | undefined } = request
    // Otherwise the route was registered before this plugin.
    if (streamedBytes !== undefined) count(request, sentBytes(request, reply))
    keepTotals(request.raw.socket)
  })

  function count (request: FastifyRequest, sent: number): void {
    const { tenant, streamedBytes } = request
    if (tenant === null || streamedBytes === -1 || request.rateLimited || isToolCall(request)) return
    if (request.auth === null && (isUnsigned(request) || !(trustHeader || isPublished(request)))) return
    request.streamedBytes = -1
    record(tenant, receivedBytes(request) + sent + streamedBytes)
  }
}

/** Whether the route accepts callers without a token for the tenant: a tenant's route, or one of the platform's document. */
function isPublished (request: FastifyRequest): boolean {
  // undefined without the plugin tenant-config.
  const route: TenantRoute | null | undefined = request.tenantRoute
  return (route !== null && route !== undefined) || Boolean(request.routeOptions.config.countsUnauthenticated)
}

/** Whether this is a webhook without a verified signature: any caller can name any tenant in its address. */
function isUnsigned ({ tenantRoute, routeOptions, signed }: FastifyRequest): boolean {
  const isWebhook = tenantRoute?.declared.webhook !== undefined || routeOptions.config.countsUnauthenticated === 'signed'
  return isWebhook && !signed
}

function keepTotals (socket: Socket): void {
  // `onSend` may still count the last request of a closed connection.
  if (socket.destroyed) return
  totalsOf.set(socket, { read: socket.bytesRead, written: socket.bytesWritten })
}

/** The bytes of a body with a declared length. Of an incomplete body, at most the bytes received since the connection's last request. */
function receivedBytes ({ headers, raw }: FastifyRequest): number {
  if (headers['transfer-encoding'] !== undefined) return 0
  const length = lengthOf(headers['content-length'])
  if (raw.complete !== false) return length
  const { read } = totalsOf.get(raw.socket) ?? noTotals
  return Math.min(length, raw.socket.bytesRead - read)
}

/** The bytes of a response with a declared length. Of an incomplete response, at most the bytes sent since the connection's last one. */
function sentBytes ({ method, raw: { socket } }: FastifyRequest, reply: FastifyReply): number {
  const { raw } = reply
  // These responses have no body, even if they declare a length.
  if (!raw.headersSent || method === 'HEAD' || reply.statusCode === 304) return 0
  const length = lengthOf(reply.getHeader('content-length'))
  if (raw.writableFinished) return length
  // The response still waited for its turn on the connection.
  if (raw.socket === null) return 0
  if (raw.writableEnded) return length
  const { written } = totalsOf.get(socket) ?? noTotals
  return Math.min(length, lengthOf(socket.bytesWritten - written))
}

function lengthOf (header: unknown): number {
  if (header === undefined) return 0
  const length = Number(header)
  return Number.isSafeInteger(length) && length > 0 ? length : 0
}

/** Counts bytes that another reader consumes. The stream's own `on` would start the flow too early. */
function observe (request: FastifyRequest, stream: Readable): void {
  EventEmitter.prototype.on.call(stream, 'data', (chunk: Buffer | string) => addBytes(request, chunk))
}

function observedWeb (request: FastifyRequest, stream: ReadableStream): ReadableStream {
  return stream.pipeThrough(
    new TransformStream({
      transform (chunk: Uint8Array | string, controller) {
        addBytes(request, chunk)
        controller.enqueue(chunk)
      }
    })
  )
}

function addBytes (request: FastifyRequest, chunk: Uint8Array | string): void {
  if (request.streamedBytes !== -1) request.streamedBytes += Buffer.byteLength(chunk)
}
