/** Runs the route of a tool in this process, by Fastify's `inject`: the request goes the whole way of any other. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Readable } from 'node:stream'
import type { CompiledTool } from './compiled.js'
import type { Nesting } from './nesting.js'
import type { ToolAnswer, ToolCall } from './types.js'
import { failure, TenantryError } from '../../lib/errors.js'
import { isRecord } from '../../lib/plain-value.js'
import { answerOf, valueOf } from './answer.js'
import { requestOf } from './input.js'

const defaultBytes = 65_536 // of a result: what a model reads
const defaultTimeout = 30_000 // ms
const maxDetails = 5 // of a validation error, in a message
const maxMessage = 1000 // characters

/**
 * Headers of the caller that its tool calls have too: who calls, for which tenant, from where, and the trace. No other
 * header passes.
 */
const passed = ['authorization', 'x-api-key', 'x-tenant-id', 'host', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'traceparent', 'tracestate'] as const

export type RunTool = (tool: CompiledTool, input: unknown, request: FastifyRequest, call: ToolCall) => Promise<ToolAnswer>

export function createRun (app: FastifyInstance, nesting: Nesting): RunTool {
  return async (tool, input, request, { signal, maxBytes = defaultBytes, timeoutMs = defaultTimeout }) => {
    const { url, payload } = requestOf(tool, input)
    signal?.throwIfAborted()
    const controller = new AbortController()
    const abort = () => controller.abort()
    let isLate = false
    let isWhole = false
    const timer = setTimeout(() => {
      isLate = true
      abort()
    }, timeoutMs)
    signal?.addEventListener('abort', abort, { once: true })
    try {
      return await nesting.within(request, controller.signal, async (headers) => {
        const response = await app.inject({
          method: methodOf(tool.route.method),
          url,
          headers: { ...headersOf(request), ...headers, ...payload !== undefined && { 'content-type': 'application/json' } },
          ...payload !== undefined && { payload },
          // Limits of addresses count the caller's own.
          remoteAddress: request.raw.socket.remoteAddress ?? '127.0.0.1',
          payloadAsStream: true
        })
        const text = await textOf(response.stream(), maxBytes)
        isWhole = true
        const answer = answerOf(text, String(response.headers['content-type']).startsWith('application/json'))
        if (response.statusCode >= 400) throw errorOf(response.statusCode, valueOf(answer))
        return answer
      })
    } catch (error) {
      if (isLate) throw failure('toolTimeout', { cause: error })
      signal?.throwIfAborted()
      throw error
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      // Whatever is left of the response is not made. To abort a request that is over would cost more than it did.
      if (!isWhole) abort()
    }
  }
}

const methods = ['DELETE', 'GET', 'PATCH', 'POST', 'PUT'] as const

function methodOf (method: string): typeof methods[number] {
  const found = methods.find((name) => name === method)
  if (found === undefined) throw new Error(`a tool has no method ${method}`)
  return found
}

function headersOf ({ headers, id }: FastifyRequest): Record<string, string> {
  const own = passed.flatMap((name) => {
    const value = headers[name]
    return value === undefined ? [] : [[name, String(value)]]
  })
  // The same id in the log.
  return { ...Object.fromEntries(own), 'x-request-id': id }
}

async function textOf (stream: Readable, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream) {
    const buffer = Buffer.from(chunk)
    bytes += buffer.length
    if (bytes > maxBytes) throw failure('answerTooLarge', { message: `The result has more than ${maxBytes} bytes: ask for fewer records or fields` })
    chunks.push(buffer)
  }
  return Buffer.concat(chunks).toString()
}

/** The route's own error, whose message says which values are wrong. */
function errorOf (status: number, body: unknown): TenantryError {
  const { code, error, message, details } = isRecord(body) ? body : {}
  if (typeof code !== 'string' || typeof message !== 'string' || typeof error !== 'string') {
    return failure('toolFailed', { message: `The tool failed with the status ${status}` })
  }
  const faults = Array.isArray(details) ? details.filter(isRecord).slice(0, maxDetails).map((detail) => `${String(detail['path'])} ${String(detail['message'])}`.trim()) : []
  const whole = [message, ...faults].join('; ')
  return new TenantryError({ code, status, title: error, message }, { message: whole.slice(0, maxMessage) })
}
