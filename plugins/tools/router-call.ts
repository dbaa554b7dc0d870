/** Calls a route through the router of this process. The request passes all hooks of the app, like any other request. */
import type { FastifyInstance } from 'fastify'
import type { Nesting } from './nesting.js'
import type { CallRoute } from './call-route.js'
import { callerLeft } from '../../lib/database/failures.js'
import { failure } from '../../lib/errors.js'
import { resultOf, valueOf } from './tool-result.js'
import { headersOf } from './call-request.js'
import { LocalRequest, LocalResponse } from './local-request.js'
import { errorOf, tooLarge } from './tool-error.js'

export function createRouterCall (app: FastifyInstance, nesting: Nesting): CallRoute {
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
