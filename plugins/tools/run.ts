/** Runs the route of a tool in this process. */
import type { FastifyInstance } from 'fastify'
import { isLongRequest } from '../../lib/compiler/request.js'
import { callerLeft } from '../../lib/database/failures.js'
import { failure } from '../../lib/errors.js'
import { reportError } from '../../lib/http/error-handler.js'
import { optional } from '../../lib/plugin/define.js'
import { inTurn, unrefused } from '../../lib/runtime/computing.js'
import { requireSameLife } from '../tenancy/tenant.js'
import { type CallBounds, CallReply, CallRequest, headersOf } from './call-request.js'
import { requestOf, type ToolRequest } from './input.js'
import { LocalRequest, LocalResponse } from './local-request.js'
import { depthWithin, type Nesting } from './nesting.js'
import { errorOf, resultOf, tooLarge, valueOf } from './tool-result.js'
import type { CompiledTool } from './tool-set.js'
import type { ServeCall, ToolCall, ToolCaller, ToolResult, ToolRoute } from './types.js'

const defaultBytes = 65_536 // of a result, which a model reads
const defaultTimeout = 30_000 // ms

export type RunTool = (tool: CompiledTool, input: unknown, caller: ToolCaller, call: ToolCall) => Promise<ToolResult>

export function createRun (app: FastifyInstance, nesting: Nesting): RunTool {
  const direct = createDirectCall(app)
  const throughRouter = createRouterCall(app, nesting)
  const tenantsOf = optional(app, 'tenants')
  return async (tool, input, caller, { signal, response, maxBytes = defaultBytes, timeoutMs = defaultTimeout }) => {
    signal?.throwIfAborted()
    const make = () => requestOf(tool, input)
    // The input may be as long as the request that contains it.
    const request = isLongRequest(caller.headers) ? await inTurn({ worker: caller, length: 0, turns: unrefused }, make) : make()
    // The caller may have waited, for a model for example.
    const [tenants, { tenant }] = [tenantsOf(), caller]
    if (tenants !== null && tenant !== null) await requireSameLife(tenants, tenant)
    signal?.throwIfAborted()
    if (response?.destroyed === true) throw callerLeft()
    const depth = depthWithin(caller)
    const call = tool.route.serve === undefined ? throughRouter : direct
    return await call(tool.route, request, caller, depth, { signal, response, maxBytes, timeoutMs })
  }
}

/** @param depth the number of nested tool calls, including this one */
type CallRoute = (
  route: ToolRoute,
  request: ToolRequest,
  caller: ToolCaller,
  depth: number,
  bounds: CallBounds
) => Promise<ToolResult>

/**
 * Calls a declared route without an HTTP request. The calling request already has its identity, tenant and API call. The route's own
 * steps run, from its rate limit and validation to its response.
 */
function createDirectCall (app: FastifyInstance): CallRoute {
  const [limiter, responses] = [optional(app, 'rateLimiter'), optional(app, 'responses')]

  async function serve (route: ToolRoute, serve: ServeCall, within: object, call: CallRequest, reply: CallReply): Promise<string> {
    const limit = route.limit()
    if (limit !== null) await limiter()?.checkCall(call, reply, limit)
    return responses()?.run(call, within, `${route.method} ${route.path}`, () => serve(call, reply)) ?? serve(call, reply)
  }

  return async (route, request, caller, depth, bounds) => {
    if (route.serve === undefined) throw new Error('the router serves the route of the tool')
    const reply = new CallReply(bounds)
    const call = new CallRequest(caller, route.method, request, depth)
    const text = await within(serve(route, route.serve, caller, call, reply), reply, bounds.timeoutMs, (thrown) => {
      const error = reportError(thrown, call, route.path)
      reply.code(error.statusCode)
      return errorOf(error.statusCode, error.toBody(caller.id))
    })
    // The route itself bounds its result, as over HTTP. The text is therefore whole here.
    if (Buffer.byteLength(text) > bounds.maxBytes) throw tooLarge(bounds.maxBytes)
    return resultOf(text, true)
  }
}

/** Rejects if the work takes too long. The work then continues, like that of a request whose caller has left. */
function within (work: Promise<string>, reply: CallReply, timeoutMs: number, failed: (error: unknown) => Error): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reply.end(false)
      reject(failure('toolTimeout'))
    }, timeoutMs)
    work.then((text) => {
      clearTimeout(timer)
      reply.end(true)
      resolve(text)
    }, (thrown: unknown) => {
      clearTimeout(timer)
      const error = failed(thrown)
      reply.end(true)
      reject(error)
    })
  })
}

/** Calls a route through the router of this process. The request passes all hooks of the app, like any other request. */
function createRouterCall (app: FastifyInstance, nesting: Nesting): CallRoute {
  return async (route, { url, payload }, caller, depth, { signal, response: outer, maxBytes, timeoutMs }) => {
    const { raw } = caller
    if (raw === undefined) throw failure('toolUnknown')
    const remoteAddress = raw.socket.remoteAddress ?? '127.0.0.1'
    // Limits by address count the address of the caller.
    const own = new LocalRequest({ method: route.method, url, headers: headersOf(caller), payload, remoteAddress })
    nesting.mark(own, depth)
    const response = new LocalResponse(own, maxBytes, () => tooLarge(maxBytes))
    // Has the effect of a caller that leaves.
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
    outer?.once('close', end)
    try {
      app.routing(own, response)
      const text = (await response.body).toString()
      const { statusCode } = response
      const result = resultOf(text, String(response.getHeader('content-type')).startsWith('application/json'))
      if (statusCode >= 400) throw errorOf(statusCode, valueOf(result))
      return result
    } catch (error) {
      if (isLate) throw failure('toolTimeout', { cause: error })
      signal?.throwIfAborted()
      if (outer?.destroyed === true) throw callerLeft()
      throw error
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      // Destroys an unfinished response, such as one that is too large.
      if (!response.writableEnded) end()
    }
  }
}
