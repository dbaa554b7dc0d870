/**
 * Limits the memory and time that large responses of a tenant take: `app.responses`. Register it before the routes. It counts unread
 * responses, and refuses further large ones beyond a limit; the same applies to request bodies, until their requests end. It closes
 * connections that read nothing for `writeTimeoutMs`. Small responses on a connection without unsent bytes are not counted.
 */
import { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { turns } from '../../lib/concurrency/event-loop-yielder.js'
import { type AccountCall, accountOf, trustsTenantHeader } from '../../lib/http/account.js'
import { removeContent } from '../../lib/http/caching.js'
import { limitWriting } from '../../lib/http/caller-left.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { whole } from '../../lib/plugin/options.js'
import { isToolCall, whenEnded } from '../../lib/plugin/request-end.js'
import { LargeRoutes, unread } from './large-routes.js'
import { Ledger } from './ledger.js'
import { limitBodies } from './request-bodies.js'
import { slices, sliceSize } from './slices.js'

declare module 'fastify' {
  interface FastifyInstance {
    responses: Responses
  }
}

export interface Responses {
  /** Bytes of counted responses that are not read yet. */
  readonly unsentBytes: number
  /** Runs a route within a request or another call. If the route makes large responses, few of the account run at a time. */
  run(call: AccountCall, within: object, route: string, work: () => Promise<string>): Promise<string>
}

export interface ResponsesOptions {
  /**
   * The maximum of unread response bytes of one tenant, or of one address if callers have no tenant: 1,048,576 to
   * 1,073,741,824. Default: 67,108,864.
   */
  readonly maxUnsentBytes?: number | undefined
  /** Milliseconds, 100 to 600,000, after which a connection that reads none of its unsent bytes is closed. Default: 30,000. */
  readonly writeTimeoutMs?: number | undefined
}

const smallResponse = 16_384 // bytes; the kernel buffers this much of a connection at once
const slicedResponse = 524_288 // bytes from which a body is written in slices, since one write takes some ms
const errorResponse = 2048 // bytes; a refusal must always fit
const streamBytes = 131_072 // bytes that a stream, such as a file, has in memory for a slow reader

export default definePlugin<ResponsesOptions>({
  name: 'responses',
  optional: ['auth', 'tenancy', 'tenant-config'],
  observesRoutes: true,
  options: { maxUnsentBytes: whole(1_048_576, 1_073_741_824), writeTimeoutMs: whole(100, 600_000) },
  setup (app, { maxUnsentBytes = 67_108_864, writeTimeoutMs = 30_000 }) {
    const ledger = new Ledger(maxUnsentBytes)
    const largeRoutes = new LargeRoutes()
    let trustsHeader = false
    app.decorate('responses', {
      get unsentBytes () {
        return ledger.bytes
      },
      run: (call, within, route, work) => largeRoutes.run(() => accountOf(call, trustsHeader), route, call, within, work)
    })
    // Pipelined responses on a lost connection get their `close` event from this module.
    whenEnded(app, () => {})
    app.addHook('onReady', async () => {
      trustsHeader = trustsTenantHeader(app)
    })

    app.server.on('connection', () => turns.connected())
    app.addHook('preClose', async () => largeRoutes.close())

    limitBodies(app, (request) => accountOf(request, trustsHeader))
    app.addHook('preHandler', (request, reply, done) => {
      if (largeRoutes.known.size === 0 && !turns.isActive) return done()
      const account = accountOf(request, trustsHeader)
      turns.noteRequest(account)
      const { socket } = request.raw
      const fits = (size: number) => !(socket instanceof Socket) || isToolCall(request) || ledger.admits(account, socket, size)
      largeRoutes.enter(account, request, reply, fits, done)
    })

    app.addHook('onSend', (request, reply, payload, done) => {
      const size = sizeOf(payload)
      const isSmall = size < smallResponse && !isBehind(reply)
      if (isSmall && largeRoutes.known.size === 0) return done()
      const account = accountOf(request, trustsHeader)
      largeRoutes.leave(account, request, reply, size)
      const { socket } = request.raw
      // Injected requests and tool calls have no connection: their caller is this process.
      if (isSmall || !(socket instanceof Socket) || isToolCall(request) || reply.raw.destroyed) return done()
      if (size > errorResponse && !ledger.admits(account, socket, size)) {
        if (payload instanceof Readable) payload.destroy()
        return refuse(request, reply, done)
      }
      const hold = () => {
        reply.raw.once('close', ledger.hold(account, socket, size))
        // A stream may wait for its source: its plugin decides how long.
        if (!(payload instanceof Readable)) limitWriting(reply, writeTimeoutMs)
      }
      const isSliced = size >= slicedResponse && (typeof payload === 'string' || Buffer.isBuffer(payload))
      if (!isSliced && !(payload instanceof Readable)) {
        done()
        // The operating system takes most bodies of this size at once.
        if (!reply.raw.writableFinished && !reply.raw.destroyed) hold()
        return
      }
      hold()
      if (!isSliced) return done()
      reply.header('content-length', Buffer.byteLength(payload))
      done(null, Readable.from(slices(payload, turns.yielder(account)), { objectMode: false, highWaterMark: sliceSize }))
    })
  }
})

/** The characters of a text. In UTF-8 each has at most three bytes, and in most JSON one. */
function sizeOf (payload: unknown): number {
  if (payload instanceof Readable) return streamBytes
  if (typeof payload === 'string') return payload.length
  return payload instanceof Uint8Array ? payload.byteLength : 0
}

/** Whether the response waits for another one on its connection, or the connection has unsent bytes. */
function isBehind ({ raw: { socket } }: FastifyReply): boolean {
  return socket === null || socket.writableLength > 0
}

function refuse (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void {
  if (request.method === 'GET' || request.method === 'HEAD') {
    removeContent(reply)
    return done(unread())
  }
  // The write may be committed, which an error status would deny. So the connection is closed instead.
  request.raw.socket.destroy()
  done()
}
