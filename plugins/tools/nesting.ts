/** Requests that are calls of tools: how deep they are within each other. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { failure } from '../../lib/errors.js'
import { markToolCall } from '../../lib/plugin/tool-call.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** Tool calls that this request is within; 0 for a request that came over the network, unless it names a depth at `POST /mcp`. */
    toolDepth: number
  }
}

const maxDepth = 3

export interface Nesting {
  /**
   * Makes a request that this process sends to itself the call of a tool within another request. Throws `toolsNested` beyond
   * the greatest depth. An AsyncLocalStorage would slow every promise of the process on Node 20, and lose the depth in
   * callbacks of pools.
   */
  mark(call: IncomingMessage, within: FastifyRequest): void
}

export function trackNesting (app: FastifyInstance): Nesting {
  const depths = new WeakMap<IncomingMessage, number>()
  app.decorateRequest('toolDepth', 0)
  app.addHook('onRequest', (request, _reply, done) => {
    const depth = depths.get(request.raw)
    if (depth !== undefined) {
      markToolCall(request)
      request.toolDepth = depth
    }
    done()
  })
  return {
    mark (call, { toolDepth }) {
      if (toolDepth >= maxDepth) throw failure('toolsNested')
      depths.set(call, toolDepth + 1)
    }
  }
}
