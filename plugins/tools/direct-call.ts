/**
 * Calls a declared route without an HTTP request. The calling request already has its identity, tenant and API call. The route's own
 * steps run, from its rate limit and validation to its response.
 */
import type { FastifyInstance } from 'fastify'
import type {} from '../rate-limit/index.js'
import type {} from '../responses/index.js'
import type { CallRoute } from './call-route.js'
import type { ServeCall, ToolRoute } from './types.js'
import { failure } from '../../lib/errors.js'
import { reportError } from '../../lib/http/error-handler.js'
import { optional } from '../../lib/plugin/define.js'
import { resultOf } from './tool-result.js'
import { CallReply, CallRequest } from './call-request.js'
import { errorOf, tooLarge } from './tool-error.js'

export function createDirectCall (app: FastifyInstance): CallRoute {
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
