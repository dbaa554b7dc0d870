/**
 * Limits the memory and time that large responses of a tenant take: `app.responses`. Register it before the routes. It counts unread
 * responses, and refuses further large ones beyond a limit; the same applies to request bodies, until their requests end. It closes
 * connections that read nothing for `writeTimeoutMs`. Small responses on a connection without unsent bytes are not counted.
 */
import { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { setImmediate as nextRound } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest, preParsingHookHandler } from 'fastify'
import { turns, type Yielder } from '../../lib/concurrency/event-loop-yielder.js'
import { failure, retryIn } from '../../lib/errors.js'
import { type AccountCall, accountOf, trustsTenantHeader } from '../../lib/http/account.js'
import { removeContent } from '../../lib/http/caching.js'
import { limitWriting } from '../../lib/http/caller-left.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { whole } from '../../lib/plugin/options.js'
import { isToolCall, whenEnded } from '../../lib/plugin/request-end.js'
import { BodyChunks } from './body-chunks.js'
import { LargeRoutes, unread } from './large-routes.js'
import { Ledger } from './ledger.js'

const sliceSize = 262_144 // bytes or characters, which take about half a millisecond to encode and write

async function * slices (body: Buffer | string, yielder: Yielder): AsyncGenerator<Buffer> {
  for (let start = 0; start < body.length;) {
    if (yielder.shouldYield()) await yielder.yield()
    const end = endOfSlice(body, start)
    // Encodes a text in slices: encoding it as a whole takes milliseconds and doubles its memory.
    yield typeof body === 'string' ? Buffer.from(body.slice(start, end)) : body.subarray(start, end)
    // The time of a slice includes its write, which happens when the slice is taken.
    yielder.done(sliceSize)
    start = end
    await nextRound()
  }
}

const highSurrogate = /[\ud800-\udbff]/

/** Surrogate pairs are not split: they are one character in UTF-8. */
function endOfSlice (body: Buffer | string, start: number): number {
  const end = start + sliceSize
  if (end >= body.length) return body.length
  return typeof body === 'string' && highSurrogate.test(body.charAt(end - 1)) ? end + 1 : end
}

declare module 'fastify' {
  interface FastifyInstance {
    responses: Responses
  }
  interface FastifyContextConfig {
    /** The route reads these bodies as streams, and limits them itself. Default: none. */
    streamsBody?: 'any' | 'form'
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
const retryAfter = 1 // s

const form = /^multipart\/form-data\s*(?:;|$)/i
const smallBody = 16_384 // bytes of a request body that is not counted
const maxBodies = 67_108_864 // bytes of the request bodies of an account, until the end of their requests

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

    const bodies = new Ledger(maxBodies)
    const countBody: preParsingHookHandler = (request, reply, payload, done) => {
      const size = bodySize(request)
      const { socket } = request.raw
      if (size <= smallBody || !(socket instanceof Socket)) return done()
      // The connection ended during an earlier hook: the body never arrives, and the response has no further `close` event.
      if (reply.raw.destroyed) return
      const account = accountOf(request, trustsHeader)
      if (!bodies.admits(account, socket, size)) return done(tooManyBodies())
      // A request may wait for minutes with its body.
      reply.raw.once('close', bodies.hold(account, socket, size))
      done(null, new BodyChunks(payload))
    }
    app.addHook('onRoute', (route) => {
      // Bodies of GET and HEAD are not read.
      if ([route.method].flat().some((method) => method !== 'GET' && method !== 'HEAD')) {
        route.preParsing = [countBody, route.preParsing ?? []].flat()
      }
    })

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

/** The largest number of bytes that the body can have in memory; 0 for a small body, and for one that is read as a stream. */
function bodySize (request: FastifyRequest): number {
  const { 'content-length': length, 'transfer-encoding': encoding, 'content-type': type } = request.headers
  if (encoding === undefined && (length === undefined || Number(length) <= smallBody)) return 0
  // Fastify creates `request.routeOptions` at each access.
  const { bodyLimit = 0, config } = request.routeOptions
  if (config.streamsBody === 'any' || (config.streamsBody === 'form' && form.test(type ?? ''))) return 0
  return length === undefined ? bodyLimit : Math.min(Number(length), bodyLimit)
}

/** The body is not read: the connection ends. */
function tooManyBodies (): Error {
  return failure('responsesBusy', {
    message: 'Too many requests of this tenant with large bodies are in progress: try again when some have ended',
    ...retryIn(retryAfter, { connection: 'close' })
  })
}

/** The characters of a text. In UTF-8 each has at most three bytes, and in most JSON one. */
function sizeOf (payload: unknown): number {
  if (payload instanceof Readable) return streamBytes
  return typeof payload === 'string' ? payload.length : payload instanceof Uint8Array ? payload.byteLength : 0
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
