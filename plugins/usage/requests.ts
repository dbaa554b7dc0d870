/**
 * Counts requests and the bytes of their bodies, on every route of the app. A request counts when it is answered or when its
 * caller has left, for the tenant that it has then, or gets when it is served all the same. The writer of a hijacked reply
 * records its bytes. Requests without a token count for the named tenant only if it published something for them, so that
 * callers cannot run up the usage of another tenant. A request that runs a tool counts as part of the request that calls it.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Readable } from 'node:stream'
import type {} from '../../lib/webhooks/signed-request.js'
import type {} from '../auth/index.js'
import type {} from '../rate-limit/index.js'
import type {} from '../tenancy/index.js'
import type {} from '../tenant-config/serve.js'
import type { TenantRoute } from '../tenant-config/tenant-routes.js'
import type { UsageService } from './service.js'
import { EventEmitter } from 'node:events'
import { guardRoutes } from '../../lib/http/guards.js'
import { whenEnded } from '../../lib/plugin/request-end.js'
import { isToolCall } from '../../lib/plugin/tool-call.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** Bytes of bodies of unknown length so far; -1 once the request is counted. */
    streamedBytes: number
    /** It has ended: no caller reads later output of its handler. */
    ended: boolean
  }
  interface FastifyContextConfig {
    /**
     * The route is published for tenants: a request without a token is usage of the tenant that it names; `signed`: after its
     * signature was verified. Default: false.
     */
    countsStrangers?: boolean | 'signed'
  }
}

export function countRequests (app: FastifyInstance, { request: record }: Pick<UsageService, 'request'>): void {
  const { trustHeader } = app.tenancy
  app.decorateRequest('streamedBytes', 0)
  app.decorateRequest('ended', false)
  // Its hooks act on the whole context: the routes are only marked as counted.
  guardRoutes(app, 'usage', () => {})

  app.addHook('onRequest', (request, _reply, done) => {
    if (request.headers['transfer-encoding'] !== undefined) observe(request, request.raw)
    done()
  })

  app.addHook('onSend', (request, reply, payload, done) => {
    // Its caller left before it was known whose request it is.
    if (request.ended) count(request, 0)
    if (typeof payload !== 'object' || payload === null || payload instanceof Buffer || reply.hasHeader('content-length')) return done()
    if (payload instanceof ReadableStream) return done(null, observedWeb(request, payload))
    if (payload instanceof Response) {
      return done(null, payload.body === null ? payload : new Response(observedWeb(request, payload.body), payload))
    }
    // However other hooks change the payload, it is written as the last of them left it.
    reply.raw.once('pipe', (source) => observe(request, source))
    done()
  })

  whenEnded(app, (request, reply) => {
    const { streamedBytes }: { streamedBytes: number | undefined } = request
    // Of a route that was registered before this plugin.
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

/** Whether the route serves strangers in the tenant's name: one of its own, or one of the platform's document. */
function isPublished (request: FastifyRequest): boolean {
  // There is none without the plugin tenant-config.
  const route: TenantRoute | null | undefined = request.tenantRoute
  return (route !== null && route !== undefined) || Boolean(request.routeOptions.config.countsStrangers)
}

/** A webhook whose signature was not verified: any caller can name any tenant in its address. */
function isUnsigned ({ tenantRoute, routeOptions, signed }: FastifyRequest): boolean {
  const isWebhook = tenantRoute?.declared.webhook !== undefined || routeOptions.config.countsStrangers === 'signed'
  return isWebhook && !signed
}

/** Of a body with a declared length; if it did not arrive as a whole, no more than came over the connection. */
function receivedBytes ({ headers, raw }: FastifyRequest): number {
  if (headers['transfer-encoding'] !== undefined) return 0
  const length = lengthOf(headers['content-length'])
  return raw.complete === false ? Math.min(length, raw.socket.bytesRead) : length
}

/** Of an answer with a declared length; if it was cut off, no more than went over the connection. */
function sentBytes ({ method, raw: { socket } }: FastifyRequest, reply: FastifyReply): number {
  const { raw } = reply
  // Such an answer has no body, whatever length it tells.
  if (!raw.headersSent || method === 'HEAD' || reply.statusCode === 304) return 0
  const length = lengthOf(reply.getHeader('content-length'))
  if (raw.writableFinished) return length
  // It has waited for its turn to have the connection.
  if (raw.socket === null) return 0
  return raw.writableEnded ? length : Math.min(length, lengthOf(socket.bytesWritten))
}

function lengthOf (header: unknown): number {
  if (header === undefined) return 0
  const length = Number(header)
  return Number.isSafeInteger(length) && length > 0 ? length : 0
}

/** Counts the bytes that another reader takes. A listener added by the stream's own `on` would start the flow too early. */
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
