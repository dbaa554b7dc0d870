/** The request and the response of a call of a tool within this process. */
import type { FastifyRequest } from 'fastify'
import type { ResponseEnd, RouteReply } from '../../lib/http/route-reply.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import type { ToolRequest } from './input.js'
import type { ToolCaller } from './types.js'
import { EventEmitter } from 'node:events'

const credentials = ['authorization', 'x-api-key'] as const
/** The headers of the tenant, the address and the trace. */
const contextHeaders = [
  'x-tenant-id',
  'host',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'traceparent',
  'tracestate'
] as const

/** The caller's headers that a tool call inherits. No other header passes. */
export function headersOf ({ headers, id }: Pick<ToolCaller, 'headers' | 'id'>): Record<string, string> {
  // The caller's id, for the log.
  const own: Record<string, string> = { 'x-request-id': id }
  copyHeaders(headers, credentials, own)
  copyHeaders(headers, contextHeaders, own)
  return own
}

/** The same headers without credentials, and without the id. */
export function contextHeadersOf (headers: ToolCaller['headers']): Record<string, string> {
  const own: Record<string, string> = {}
  copyHeaders(headers, contextHeaders, own)
  return own
}

function copyHeaders (headers: ToolCaller['headers'], names: readonly string[], into: Record<string, string>): void {
  for (const name of names) {
    const value = headers[name]
    if (value !== undefined) into[name] = String(value)
  }
}

/** Has the identity, the tenant and the address of its caller. */
export class CallRequest implements RouteCall {
  readonly id: string
  readonly method: string
  readonly url: string
  readonly headers: Record<string, string>
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
  readonly auth: ToolCaller['auth']
  readonly tenant: ToolCaller['tenant']
  readonly toolDepth: number
  receivedForm: RouteCall['receivedForm'] = null
  readonly #caller: ToolCaller

  constructor (caller: ToolCaller, method: string, { url, params, query, body }: ToolRequest, depth: number) {
    this.id = caller.id
    this.method = method
    this.url = url
    this.headers = headersOf(caller)
    this.params = params
    this.query = query
    this.body = body
    this.auth = caller.auth
    this.tenant = caller.tenant
    this.toolDepth = depth
    this.#caller = caller
  }

  get ip (): string {
    return this.#caller.ip
  }

  get log (): FastifyRequest['log'] {
    return this.#caller.log
  }

  get server (): FastifyRequest['server'] {
    return this.#caller.server
  }
}

export class CallReply implements RouteReply {
  statusCode = 200
  readonly #headers = new Map<string, string>()
  #raw: CallEnd | undefined

  readonly #signal: () => AbortSignal | undefined

  /** @param signal creates the signal, which aborts when the caller leaves */
  constructor (signal: () => AbortSignal | undefined) {
    this.#signal = signal
  }

  /** Created only when the end of the call matters. */
  get raw (): ResponseEnd {
    if (this.#raw === undefined) {
      const raw = new CallEnd()
      this.#raw = raw
      const signal = this.#signal()
      if (signal?.aborted === true) raw.end(false)
      else signal?.addEventListener('abort', () => raw.end(false), { once: true })
    }
    return this.#raw
  }

  code (status: number): this {
    this.statusCode = status
    return this
  }

  header (name: string, value: string): this {
    this.#headers.set(name.toLowerCase(), value)
    return this
  }

  headers (values: Readonly<Record<string, string>>): this {
    for (const [name, value] of Object.entries(values)) this.header(name, value)
    return this
  }

  getHeader (name: string): string | undefined {
    return this.#headers.get(name.toLowerCase())
  }

  removeHeader (name: string): void {
    this.#headers.delete(name.toLowerCase())
  }

  send (): this {
    return this
  }

  /** Ends the call: it is answered, or was given up. Later calls have no effect. */
  end (isFinished: boolean): void {
    this.#raw?.end(isFinished)
  }
}

class CallEnd extends EventEmitter implements ResponseEnd {
  writableFinished = false
  destroyed = false

  end (isFinished: boolean): void {
    if (this.destroyed) return
    this.destroyed = true
    if (isFinished) {
      this.writableFinished = true
      this.emit('finish')
    }
    this.emit('close')
  }
}
