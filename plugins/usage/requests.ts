/**
 * Counts requests and the bytes of their bodies, on every route of the app. A request counts when its response is complete or when
 * its caller has left. It counts for its tenant, even if that becomes known after the caller has left. The writer of a hijacked
 * reply records its bytes. Requests without a token count for the named tenant only on routes that it published for them, so that
 * callers cannot run up the usage of another tenant. A tool call counts as part of the request that makes it.
 */
import { EventEmitter } from 'node:events'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { guardRoutes } from '../../lib/http/guards.js'
import { isToolCall, whenEnded } from '../../lib/plugin/request-end.js'
import type {} from '../../lib/webhooks/scheme.js'
import type {} from '../auth/index.js'
import type {} from '../rate-limit/index.js'
import type {} from '../tenancy/index.js'
import type {} from '../tenant-config/serve.js'
import type { TenantRoute } from '../tenant-config/tenant-routes.js'
import type { UsageService } from './service.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The bytes so far of bodies of unknown length; -1 once the request is counted. */
    streamedBytes: number
    /** The request has ended: later output of its handler is not counted. */
    ended: boolean
  }
  interface FastifyContextConfig {
    /**
     * The route is published for tenants: a request without a token counts for the tenant that it names. `signed`: after its
     * signature was verified. Default: false.
     */
    countsUnauthenticated?: boolean | 'signed'
  }
}

export function countRequests (app: FastifyInstance, { request: record }: Pick<UsageService, 'request'>): void {
  const { trustHeader } = app.tenancy
  app.decorateRequest('streamedBytes', 0)
  app.decorateRequest('ended', false)
  // Hooks here apply to the whole context, so this one only marks routes as counted.
  guardRoutes(app, 'usage', () => {})

  app.addHook('onRequest', (request, _reply, done) => {
    if (request.headers['transfer-encoding'] !== undefined) observe(request, request.raw)
    done()
  })

  app.addHook('onSend', (request, reply, payload, done) => {
    // The caller left before its tenant was known.
    if (request.ended) count(request, 0)
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
    // The route was registered before this plugin.
    if (streamedBytes === undefined) return
    request.ended = true
    count(request, sentBytes(request, reply))
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

/** The bytes of a body with a declared length. Of an incomplete body, at most the bytes received on the connection. */
function receivedBytes ({ headers, raw }: FastifyRequest): number {
  if (headers['transfer-encoding'] !== undefined) return 0
  const length = lengthOf(headers['content-length'])
  return raw.complete === false ? Math.min(length, raw.socket.bytesRead) : length
}

/** The bytes of a response with a declared length. Of an incomplete response, at most the bytes sent on the connection. */
function sentBytes ({ method, raw: { socket } }: FastifyRequest, reply: FastifyReply): number {
  const { raw } = reply
  // These responses have no body, whatever length they declare.
  if (!raw.headersSent || method === 'HEAD' || reply.statusCode === 304) return 0
  const length = lengthOf(reply.getHeader('content-length'))
  if (raw.writableFinished) return length
  // The response still waited for its turn on the connection.
  if (raw.socket === null) return 0
  return raw.writableEnded ? length : Math.min(length, lengthOf(socket.bytesWritten))
}

function lengthOf (header: unknown): number {
  if (header === undefined) return 0
  const length = Number(header)
  return Number.isSafeInteger(length) && length > 0 ? length : 0
}

/** Counts bytes that another reader consumes. The stream's own `on` would start the flow too early. */
function observe (request: FastifyRequest, stream: Readable): void {
  EventEmitter.prototype.on.call(stream, 'data', (chunk: Buffer | string) => add(request, chunk))
}

function observedWeb (request: FastifyRequest, stream: ReadableStream): ReadableStream {
  return stream.pipeThrough(
    new TransformStream({
      transform (chunk: Uint8Array | string, controller) {
        add(request, chunk)
        controller.enqueue(chunk)
      }
    })
  )
}

function add (request: FastifyRequest, chunk: Uint8Array | string): void {
  if (request.streamedBytes !== -1) request.streamedBytes += Buffer.byteLength(chunk)
}
