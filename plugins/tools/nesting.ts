/** The nesting depth of requests that are tool calls. */
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { failure } from '../../lib/errors.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { markToolCall } from '../../lib/plugin/request-end.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The number of tool calls around this request. 0 for a request from the network, unless it gives a depth at `POST /mcp`. */
    toolDepth: number
  }
}

const maxDepth = 3

/** The depth of a call that this caller makes. Throws `toolsNested` beyond the maximum. */
export function depthWithin ({ toolDepth }: { readonly toolDepth: number }): number {
  if (toolDepth >= maxDepth) throw failure('toolsNested')
  return toolDepth + 1
}

export type Nesting = ReturnType<typeof trackNesting>

export function trackNesting (app: FastifyInstance) {
  const depths = new WeakMap<IncomingMessage, number>()
  // Not by a hook: it would run for every request.
  app.decorateRequest('toolDepth', {
    getter () {
      return depths.get(this.raw) ?? 0
    },
    setter (depth) {
      depths.set(this.raw, depth)
    }
  })
  return {
    /**
     * Marks a local request as a tool call. An AsyncLocalStorage would slow every promise of the process on Node 20, and lose the depth
     * in callbacks of pools.
     */
    mark (call: IncomingMessage, depth: number): void {
      markToolCall(call)
      depths.set(call, depth)
    }
  }
}

export const depthMember = 'tenantry/toolDepth'

const max = 100

/** 0 for a message without a depth. A caller that sets one only reduces its own nested calls. */
export function depthOf (message: unknown): number {
  const params = isRecord(message) ? message['params'] : undefined
  const meta = isRecord(params) ? params['_meta'] : undefined
  const depth = isRecord(meta) ? meta[depthMember] : undefined
  return typeof depth === 'number' && Number.isSafeInteger(depth) && depth >= 0 ? Math.min(depth, max) : 0
}
