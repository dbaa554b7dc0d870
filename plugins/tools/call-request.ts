/** The request and the response of a call of a tool within this process. */
import { EventEmitter } from 'node:events'
import type { FastifyRequest } from 'fastify'
import type { ResponseEnd, RouteReply } from '../../lib/http/route-reply.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import type { ToolRequest } from './input.js'
import type { ToolCall, ToolCaller } from './types.js'

export interface CallBounds extends Pick<ToolCall, 'signal' | 'response'> {
  readonly maxBytes: number
  readonly timeoutMs: number
}

const credentials = ['authorization', 'x-api-key'] as const
/** The headers of the tenant, the address and the trace. */
const contextHeaders = [
  'x-tenant-id', 'host', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'traceparent', 'tracestate'
] as const

/** The caller's headers that a tool call inherits. No other header passes. */
export function headersOf ({ headers, id }: Pick<ToolCaller, 'headers' | 'id'>): Record<string, string> {
  // The caller's id, for the log.
  return copyHeaders(headers, credentials, copyHeaders(headers, contextHeaders, { 'x-request-id': id }))
}

/** The same headers without credentials, and without the id. */
export function contextHeadersOf (headers: ToolCaller['headers']): Record<string, string> {
  return copyHeaders(headers, contextHeaders, {})
}

function copyHeaders (headers: ToolCaller['headers'], names: readonly string[], into: Record<string, string>): Record<string, string> {
  for (const name of names) {
    const value = headers[name]
    if (value !== undefined) into[name] = String(value)
  }
  return into
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

  constructor (caller: ToolCaller, method: string, { url, params, query, body, payload }: ToolRequest, depth: number) {
    this.id = caller.id
    this.method = method
    this.url = url
    this.headers = headersOf(caller)
    // Long bodies are validated and copied in turns of the tenant.
    if (payload !== undefined) this.headers['content-length'] = String(Buffer.byteLength(payload))
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

/** The response of a call. It is its own `raw`, and creates nothing for listeners until there is one. */
export class CallReply implements RouteReply, ResponseEnd {
  statusCode = 200
  writableFinished = false
  #isEnded = false
  #listeners: EventEmitter | undefined
  readonly #headers = new Map<string, string>()
  readonly #signal: AbortSignal | undefined
  readonly #response: ResponseEnd | undefined

  constructor ({ signal, response }: Pick<CallBounds, 'signal' | 'response'>) {
    this.#signal = signal
    this.#response = response
  }

  get raw (): ResponseEnd {
    return this
  }

  get destroyed (): boolean {
    return this.#isEnded || this.#signal?.aborted === true || this.#response?.destroyed === true
  }

  once (event: 'close' | 'finish', listener: () => void): this {
    if (this.#listeners === undefined) {
      this.#listeners = new EventEmitter()
      const leave = () => this.end(false)
      this.#signal?.addEventListener('abort', leave, { once: true })
      this.#response?.once('close', leave)
    }
    this.#listeners.once(event, listener)
    return this
  }

  /** Ends the call: it is answered, or was given up. Later calls have no effect. */
  end (isFinished: boolean): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.writableFinished = isFinished
    if (isFinished) this.#listeners?.emit('finish')
    this.#listeners?.emit('close')
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
}
