/** Requests to the platform's providers, limited in response bytes, in time, and in time without a byte. An abort ends them at once. */
import type { Readable } from 'node:stream'
import { lookupForSocket } from '../concurrency/shared-lookup.js'
import { failure } from '../errors.js'
import { connectionFailure, type KeyOwner, statusFailure } from './failures.js'

const connectMs = 5000
const keepMs = 30_000 // ms for an idle connection
const clientTtl = 60_000 // ms, after which another connection takes further requests: the name may have another address

export interface ProviderRequestOptions {
  readonly owner: KeyOwner
  /** The maximum bytes of the response. */
  readonly maxBytes: number
  /** Milliseconds for the whole request and its response. */
  readonly totalMs: number
  /** Milliseconds without a byte. Default: limited by `totalMs` only. */
  readonly idleMs?: number | undefined
  /** Aborts the request with its reason. */
  readonly signal: AbortSignal
}

export interface ProviderRequest {
  /** Passed to the SDK's call. It distinguishes the request from others. */
  readonly signal: AbortSignal
  /** The progress of the request; `answered` means a status of 200 to 299. */
  readonly state: 'new' | 'sent' | 'answered'
  /** The original error of the request, which the SDK may hide; null without an error. */
  readonly error: unknown
  /** Ends the rest of the response. Always call it. */
  end(): void
}

export type Connections = ReturnType<typeof createConnections>

export function createConnections () {
  // Loaded with the first call.
  let agent: Promise<import('undici').Agent> | undefined
  const agentOf = () => (agent ??= import('undici').then(({ Agent }) =>
    new Agent({
      connect: { timeout: connectMs, lookup: lookupForSocket },
      keepAliveTimeout: keepMs,
      keepAliveMaxTimeout: keepMs,
      clientTtl,
      headersTimeout: 0,
      bodyTimeout: 0
    })
  ))

  const fetches = new WeakMap<AbortSignal, typeof globalThis.fetch>()

  return {
    /** The `fetch` for SDKs of providers. It rejects requests without the signal of an open request. */
    async fetch (input: string | URL | Request, init?: RequestInit): Promise<Response> {
      const send = init?.signal instanceof AbortSignal ? fetches.get(init.signal) : undefined
      if (send === undefined) throw new Error('a request to a provider was not opened')
      return await send(input, init)
    },
    open (options: ProviderRequestOptions): ProviderRequest {
      const { fetch, request } = openRequest(agentOf, options)
      fetches.set(request.signal, fetch)
      return request
    },
    async close (): Promise<void> {
      await (await agent)?.destroy()
    }
  }
}

function openRequest (
  agentOf: () => Promise<import('undici').Agent>,
  { owner, maxBytes, totalMs, idleMs, signal }: ProviderRequestOptions
): { readonly fetch: typeof globalThis.fetch, readonly request: ProviderRequest } {
  const ending = new AbortController()
  let state: ProviderRequest['state'] = 'new'
  let error: unknown = null
  let isOver = false
  const abort = (reason: unknown) => {
    if (isOver) return
    error ??= reason
    ending.abort(reason)
  }
  const left = () => abort(signal.reason)
  const expire = () => abort(failure('providerTimeout'))
  const total = setTimeout(expire, totalMs)
  const idle = idleMs === undefined ? undefined : setTimeout(expire, idleMs)
  signal.addEventListener('abort', left, { once: true })
  if (signal.aborted) left()

  const refuse = (reason: unknown): never => {
    error ??= reason
    throw error
  }

  async function send (input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const url = new URL(input instanceof Request ? input.url : input)
    const dispatcher = await agentOf()
    ending.signal.throwIfAborted()
    state = 'sent'
    const { statusCode, headers, body } = await dispatcher.request({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method: 'POST',
      headers: { ...Object.fromEntries(new Headers(init.headers)), 'accept-encoding': 'identity' },
      body: typeof init.body === 'string' ? init.body : null,
      signal: ending.signal
    })
    idle?.refresh()
    if (statusCode < 200 || statusCode > 299) {
      body.on('error', () => {}).destroy()
      const retryAfter = headers['retry-after']
      return refuse(statusFailure(statusCode, typeof retryAfter === 'string' ? retryAfter : undefined, owner))
    }
    state = 'answered'
    return new Response(bounded(body), { status: 200, headers: { 'content-type': String(headers['content-type'] ?? '') } })
  }

  /** Reads only as fast as the SDK consumes the body. */
  function bounded (body: Readable): ReadableStream<Uint8Array> {
    const chunks: AsyncIterator<unknown> = body[Symbol.asyncIterator]()
    let bytes = 0
    return new ReadableStream({
      async pull (controller) {
        try {
          const { done, value } = await chunks.next()
          if (done === true) return controller.close()
          if (!(value instanceof Uint8Array)) throw new TypeError('the body of a response must be bytes')
          idle?.refresh()
          bytes += value.length
          if (bytes > maxBytes) abort(failure('providerFailed', { message: 'The response of the provider is too large' }))
          ending.signal.throwIfAborted()
          controller.enqueue(value)
        } catch (cause) {
          error ??= connectionFailure(cause)
          controller.error(error)
        }
      },
      cancel () {
        body.on('error', () => {}).destroy()
      }
    })
  }

  const request: ProviderRequest = {
    signal: ending.signal,
    get state () {
      return state
    },
    get error () {
      return error
    },
    end () {
      clearTimeout(total)
      clearTimeout(idle)
      signal.removeEventListener('abort', left)
      isOver = true
      if (!ending.signal.aborted) ending.abort(new Error('the request has ended'))
    }
  }
  return {
    request,
    fetch: (input, init) => send(input, init).catch((cause: unknown) => refuse(cause === error ? error : connectionFailure(cause)))
  }
}
