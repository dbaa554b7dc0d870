/** `GET /realtime/events`: the messages of the websocket as server-sent events. */
import { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { failure } from '../../lib/errors.js'
import { notWatched, withNote } from '../../lib/firestore/unsupported.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { eventData } from '../../lib/http/event-data.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { optional } from '../../lib/plugin/define.js'
import { roomName } from '../../lib/realtime/messages.js'
import { type ConnectionBytes, drain, littleUnsentBytes, maxGatheredBytes, type UnsentBytes } from '../../lib/realtime/unsent.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { tenantOf } from '../tenancy/required.js'
import { invalid } from './conditions.js'
import type { Identities } from './identity.js'
import type { Core } from './service.js'
import { retryAfterMs } from './sockets.js'
import { closeCodes, type Outlet, type WatchRequest } from './types.js'

const commentMs = 15_000 // ms; proxies close idle connections
const lingerMs = 5000 // ms for the client to read the rest of a stream that has ended
const maxPosition = Number.MAX_SAFE_INTEGER

const Query = ClosedObject({
  watch: Optional.Array(
    'A table to watch, optionally with column values that rows must have: `notes?done=false`, percent-encoded. Can be repeated.',
    Type.String({ minLength: 1, maxLength: 4096 }),
    { maxItems: 50 }
  ),
  room: Optional.Array('The name of a room to join. Can be repeated.', Type.String(roomName), { maxItems: 50 })
})

export interface StreamParts extends Pick<Identities, 'identityOf'> {
  readonly core: Pick<Core, 'open' | 'close' | 'join' | 'watch'>
  readonly unsent: UnsentBytes
}

export function eventStream (group: FastifyGroup, { core, unsent, identityOf }: StreamParts): void {
  const origins = optional(group, 'origins')
  group.get('/realtime/events', {
    exposeHeadRoute: false,
    config: { access: 'user', countsWithin: true },
    schema: {
      tags: ['Realtime'],
      summary: 'Receive changes and room messages as server-sent events',
      description: withNote(
        'The name of an event is the `type` of its message, `data` is the message, and `id` the position of a change. With `Last-Event-ID` the stream starts with the changes after that position.',
        notWatched,
        group
      ),
      querystring: Query,
      response: {
        200: {
          description: 'A stream of events that ends with the connection.',
          content: { 'text/event-stream': { schema: Type.String() } }
        },
        ...errorResponses(400, 401, 'planLimit', 403, 404, 429, 500, 503)
      }
    }
  }, async (request, reply) => {
    const tenant = tenantOf(request)
    const since = sinceOf(request)
    const { watch = [], room = [] } = request.query
    const requests = watch.map((text) => watchOf(text, since))
    // Of a caller that left during the hooks, nothing would end the stream: both `close` events are over.
    if (request.raw.socket.destroyed) return
    const stream = createStream(request, reply, unsent.of(tenant))
    // Until the first byte is sent, a failure is an HTTP error.
    const client = await core.open(stream.outlet, identityOf(request))
    stream.onEnd(() => core.close(client))
    try {
      for (const name of room) await core.join(client, name, null)
      stream.begins(requests.length)
      for (const each of requests) await core.watch(client, each, stream.replayed)
    } catch (error) {
      core.close(client)
      throw error
    }
    if (request.raw.socket.destroyed) return core.close(client)
    // A hijacked reply runs no `onSend` hook.
    origins()?.allow(request, reply)
    stream.begin()
    return reply
  })
}

/** A stream that buffers its events until it begins, so that a refusal can still be an HTTP error. */
function createStream (request: FastifyRequest, reply: FastifyReply, share: ConnectionBytes) {
  const { raw } = reply
  // A response that waits behind another one of its connection has no socket of its own.
  const { socket } = request.raw
  const early: string[] = []
  let earlyBytes = 0
  let start = Infinity
  /** The last id of an event. */
  let last = 0
  /** Watches that still replay. */
  let replaying = 0
  let hasOneWatch = false
  let hasBegun = false
  let isEnded = false
  let isGathering = false
  let ended = () => {}
  let resume = () => {}
  /** Resolves also when the stream ends before it begins. */
  const begun = new Promise<void>((resolve) => {
    resume = resolve
  })
  let timer: NodeJS.Timeout | undefined

  const stream = {
    begins (watches: number) {
      replaying = watches
      hasOneWatch = watches === 1
    },
    /** From then on the client can resume, also before the first change. Every watch has all changes after the earliest `ack`. */
    replayed () {
      if (--replaying === 0) write(`id: ${Math.max(start, last)}\n\n`)
    },
    onEnd (listener: () => void) {
      ended = listener
      if (isEnded) listener()
    },
    begin () {
      hasBegun = true
      resume()
      reply.hijack()
      // `app.inject` has a stream in its place.
      if (raw.socket instanceof Socket) raw.socket.setTimeout(0).setNoDelay(true)
      raw.on('close', end)
      raw.writeHead(200, {
        ...reply.getHeaders() as Record<string, string>,
        'content-type': 'text/event-stream; charset=utf-8',
        // nginx would buffer the events.
        'x-accel-buffering': 'no'
      })
      raw.flushHeaders()
      for (const text of early.splice(0)) send(text)
      if (isEnded) return finish()
      timer = setInterval(() => write(': \n\n'), commentMs).unref()
    },
    outlet: {
      send (text, type, position) {
        if (type === 'ack' && position !== undefined) start = Math.min(start, position)
        // While one of several watches replays, a client that resumed from this event would miss changes of that watch.
        const hasId = position !== undefined && (replaying === 0 || (hasOneWatch && type === 'change'))
        if (hasId) last = position
        write(`event: ${type}\n${hasId ? `id: ${position}\n` : ''}${eventData(text)}`)
      },
      get isBehind () {
        return unsent() > littleUnsentBytes
      },
      async drained () {
        // The time in which the watches open is not the client's.
        if (stream.outlet.isBehind && !hasBegun) await begun
        if (!await drain(() => isEnded ? 0 : unsent())) endSlow()
      },
      close (code) {
        if (isEnded) return
        if (hasBegun) {
          if (code === closeCodes.stopping) raw.write(`retry: ${retryAfterMs()}\n\n`)
          finish()
        }
        end()
      },
      bytes: 0
    } satisfies Outlet as Outlet
  }

  const unsent = () => hasBegun ? raw.writableLength : earlyBytes

  function write (text: string): void {
    if (isEnded) return
    const bytes = Buffer.byteLength(text)
    stream.outlet.bytes += bytes
    if (!share.admits(unsent(), bytes)) return hasBegun ? endSlow() : end()
    if (hasBegun) return send(text)
    earlyBytes += bytes
    early.push(text)
  }

  /** Texts of one turn of the event loop are one write to the network, or some if they are large, as those of a websocket. */
  function send (text: string): void {
    if (!isGathering && raw.socket !== null) {
      const { socket } = raw
      isGathering = true
      socket.cork()
      process.nextTick(() => {
        isGathering = false
        socket.uncork()
      })
    }
    raw.write(text)
    if (raw.writableLength < maxGatheredBytes) return
    raw.socket?.uncork()
    raw.socket?.cork()
    share.update(raw.writableLength)
  }

  function endSlow (): void {
    end()
    socket.destroy()
  }

  /** A client that does not read would keep the rest in memory. */
  function finish (): void {
    raw.end()
    const lingering = setTimeout(() => socket.destroy(), lingerMs).unref()
    raw.on('close', () => clearTimeout(lingering))
  }

  function end (): void {
    if (isEnded) return
    isEnded = true
    resume()
    clearInterval(timer)
    ended()
  }

  request.raw.on('close', end)
  raw.on('drain', share.release)
  raw.on('close', () => {
    // Nothing may be counted after the release. The response closes before the request.
    end()
    share.release()
  })
  return stream
}

function sinceOf ({ headers }: FastifyRequest): number | undefined {
  const text = headers['last-event-id']
  if (text === undefined || text === '') return undefined
  const position = Number(text)
  if (!/^\d{1,16}$/.test(String(text)) || position > maxPosition) {
    throw failure('badRequest', { message: 'Last-Event-ID is not a position: expected a whole number' })
  }
  return position
}

/** Parses `notes?done=false`. Values are texts in PostgreSQL's input syntax. */
function watchOf (text: string, since: number | undefined): WatchRequest {
  const mark = text.indexOf('?')
  const table = mark < 0 ? text : text.slice(0, mark)
  const filter: Record<string, string> = Object.create(null)
  for (const [name, value] of new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1))) {
    if (name in filter) throw invalid('/watch', `contains the column ${name} twice`)
    filter[name] = value
  }
  return { table, filter: { ...filter }, ...since !== undefined && { since }, ref: text.slice(0, 128), isText: true }
}
