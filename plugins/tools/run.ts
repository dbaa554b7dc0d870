/** Runs the route of a tool in this process, with all hooks of a request. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { CompiledTool } from './compiled.js'
import type { Nesting } from './nesting.js'
import type { ToolAnswer, ToolCall } from './types.js'
import { failure, TenantryError } from '../../lib/errors.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { answerOf, valueOf } from './tool-result.js'
import { requestOf } from './input.js'
import { LocalRequest, LocalResponse } from './local-exchange.js'

const defaultBytes = 65_536 // of a result, which a model reads
const defaultTimeout = 30_000 // ms
const maxDetails = 5 // of a validation error, in a message
const maxMessage = 1000 // characters

/** Headers of the caller that its tool calls get too: credentials, tenant, address and trace. Other headers are not passed on. */
const passed = [
  'authorization',
  'x-api-key',
  'x-tenant-id',
  'host',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'traceparent',
  'tracestate'
] as const

export type RunTool = (tool: CompiledTool, input: unknown, request: FastifyRequest, call: ToolCall) => Promise<ToolAnswer>

export function createRun (app: FastifyInstance, nesting: Nesting): RunTool {
  return async (tool, input, request, { signal, maxBytes = defaultBytes, timeoutMs = defaultTimeout }) => {
    const { url, payload } = requestOf(tool, input)
    signal?.throwIfAborted()
    const remoteAddress = request.raw.socket.remoteAddress ?? '127.0.0.1'
    // Limits of addresses count the caller's address.
    const own = new LocalRequest({ method: tool.route.method, url, headers: headersOf(request), payload, remoteAddress })
    nesting.mark(own, request)
    const response = new LocalResponse(own, maxBytes, () => tooLarge(maxBytes))
    // As if a caller left.
    const end = () => {
      own.destroy()
      response.destroy()
    }
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      end()
    }, timeoutMs)
    signal?.addEventListener('abort', end, { once: true })
    try {
      app.routing(own, response)
      const text = (await response.body).toString()
      const { statusCode } = response
      const answer = answerOf(text, String(response.getHeader('content-type')).startsWith('application/json'))
      if (statusCode >= 400) throw errorOf(statusCode, valueOf(answer))
      return answer
    } catch (error) {
      if (isLate) throw failure('toolTimeout', { cause: error })
      signal?.throwIfAborted()
      throw error
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      // The rest of a response that is too large is not produced.
      if (!response.writableEnded) end()
    }
  }
}

function headersOf ({ headers, id }: FastifyRequest): Record<string, string> {
  // The same id in the log.
  const own: Record<string, string> = { 'x-request-id': id }
  for (const name of passed) {
    const value = headers[name]
    if (value !== undefined) own[name] = String(value)
  }
  return own
}

function tooLarge (maxBytes: number): Error {
  return failure('answerTooLarge', { message: `The result has more than ${maxBytes} bytes: ask for fewer records or fields` })
}

/** The route's own error, which says which values are wrong. */
function errorOf (status: number, body: unknown): TenantryError {
  const { code, error, message, details } = isRecord(body) ? body : {}
  if (typeof code !== 'string' || typeof message !== 'string' || typeof error !== 'string') {
    return failure('toolFailed', { message: `The tool failed with the status ${status}` })
  }
  const faults = Array.isArray(details)
    ? details.filter(isRecord).slice(0, maxDetails).map((detail) => `${String(detail['path'])} ${String(detail['message'])}`.trim())
    : []
  const whole = [message, ...faults].join('; ')
  return new TenantryError({ code, status, title: error, message }, { message: whole.slice(0, maxMessage) })
}
