/**
 * The usage of requests: counts them and the bytes of their bodies, on every route of the app, and adds them in memory until they are
 * written. A request counts when its response is complete or when its caller has left. It counts for its tenant, even if that becomes
 * known after the caller has left. The writer of a hijacked reply records its bytes. Requests without a token count for the named tenant
 * only on routes that it published for them, so that callers cannot run up the usage of another tenant. A tool call counts as part of the
 * request that makes it.
 */
import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { guardRoutes } from '../../lib/http/guards.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isToolCall, whenEnded } from '../../lib/plugin/request-end.js'
import { dayMs } from '../../lib/time/spans.js'
import type { Tenant } from '../tenancy/index.js'
import type { TenantRoute } from '../tenant-config/tenant-routes.js'
import { maxAmount } from './metrics.js'
import { dayOf } from './periods.js'

const maxEntries = 100_000 // waiting entries, each of a tenant and a day; reached only while the database is unreachable

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

/** Figures of tenants on a day, to add to the ledger. Each tenant has one index in all lists. */
export interface Figures {
  /** `YYYY-MM-DD`. */
  readonly day: string
  readonly tenants: readonly string[]
  /** The creation time of each tenant. */
  readonly since: readonly (number | null)[]
  readonly calls: readonly number[]
  readonly bandwidth: readonly number[]
  /** Tenants that freed storage, which has no day. */
  readonly freed: readonly Freed[]
}

export interface Freed {
  readonly tenant: Owner
  readonly since: number | null
  /** Bytes. */
  readonly amount: number
}

/** The figures of a tenant on a day. */
export interface Counts {
  /** The creation time of the tenant, ms since 1970; null: the tenant that has the id when it is written. */
  since: number | null
  calls: number
  bandwidth: number
  /** Bytes of freed storage. */
  freed: number
}

export const noFigures: Figures = { day: '', tenants: [], since: [], calls: [], bandwidth: [], freed: [] }

export type WaitingCounts = ReturnType<typeof createCounts>

export function add (sum: number, amount: number): number {
  return Math.min(sum + amount, maxAmount)
}

/** Figures are kept with the creation time of their tenant, so that a later tenant of the same id does not get them. */
export function createCounts (now: () => number, max = maxEntries) {
  const days = new Map<string, Map<Owner, Counts>>()
  let today = new Map<Owner, Counts>()
  let [start, end] = [0, 0] // of today
  let size = 0
  let dropped = 0

  /** Also to an earlier day, if the clock was set back. */
  function turn (at: number): void {
    start = Math.floor(at / dayMs) * dayMs
    end = start + dayMs
    const day = dayOf(start)
    today = days.get(day) ?? new Map()
    days.set(day, today)
  }

  function make (tenant: Owner, since: number | null): Counts | undefined {
    if (size >= max) {
      dropped++
      return undefined
    }
    const counts = { since, calls: 0, bandwidth: 0, freed: 0 }
    today.set(tenant, counts)
    size++
    return counts
  }

  function remove (day: string, counted: Map<string, Counts>, entries: number): Figures {
    const tenants: string[] = []
    const created: Array<number | null> = []
    const calls: number[] = []
    const bandwidth: number[] = []
    const freed: Freed[] = []
    for (const [tenant, counts] of counted) {
      if (entries-- === 0) break
      counted.delete(tenant)
      size--
      if (counts.freed > 0) freed.push({ tenant: tenantRef(tenant), since: counts.since, amount: counts.freed })
      if (counts.calls === 0 && counts.bandwidth === 0) continue
      tenants.push(tenant)
      created.push(counts.since)
      calls.push(counts.calls)
      bandwidth.push(counts.bandwidth)
    }
    return { day, tenants, since: created, calls, bandwidth, freed }
  }

  /**
   * The entry to add to now; undefined if nothing is counted: for a deleted tenant, and while too many entries wait. If
   * `since` is null, the entry of any tenant of this id is used.
   */
  function of (tenant: Owner, since: number | null): Counts | undefined {
    const at = now()
    if (at < start || at >= end) turn(at)
    const counts = today.get(tenant)
    if (counts === undefined) return make(tenant, since)
    if (counts.since === since || since === null) return counts
    // The tenant was deleted since then and its last requests end, or it was created again.
    if (counts.since !== null && since < counts.since) return undefined
    if (counts.since !== null) counts.calls = counts.bandwidth = counts.freed = 0
    counts.since = since
    return counts
  }

  return {
    /** Counts a request of the tenant, and the bytes of its bodies. */
    request ({ id, createdAt }: Pick<Tenant, 'id' | 'createdAt'>, bytes: number): void {
      const counts = of(id, createdAt.getTime())
      if (counts === undefined) return
      counts.calls = add(counts.calls, 1)
      counts.bandwidth = add(counts.bandwidth, bytes)
    },
    of,
    /** Whether the tenant has figures of today. */
    has (tenant: Owner): boolean {
      const at = now()
      return at >= start && at < end && today.has(tenant)
    },
    /** Removes and returns figures of one day, up to this number of entries; `more` if others are left. */
    take (entries: number): { figures: Figures, more: boolean } {
      for (const [day, counted] of days) {
        if (counted.size > 0) return { figures: remove(day, counted, entries), more: size > 0 }
        if (counted !== today) days.delete(day)
      }
      return { figures: noFigures, more: false }
    },
    /** Entries: a tenant on a day. */
    get size (): number {
      return size
    },
    /** The number of entries dropped since the last call, because too many were waiting. */
    dropped (): number {
      const count = dropped
      dropped = 0
      return count
    }
  }
}
