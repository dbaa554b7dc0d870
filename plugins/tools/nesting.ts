/** Requests that are calls of tools: how deep they are within each other, and their end. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { randomUUID } from 'node:crypto'
import { failure } from '../../lib/errors.js'
import { markToolCall } from '../../lib/plugin/tool-call.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** Tool calls that this request is within; 0 for a request that came over the network, unless it names a depth at `POST /mcp`. */
    toolDepth: number
  }
}

const maxDepth = 3
/**
 * Names a ticket: a random id that holds for one call and never leaves the process, so that no caller can set a depth. An
 * AsyncLocalStorage would slow every promise of the process on Node 20, and lose the depth in callbacks of pools.
 */
const header = 'x-tenantry-tool-call'

interface Ticket {
  readonly depth: number
  readonly signal: AbortSignal
}

export interface Nesting {
  /**
   * Runs the call of a tool with headers that tell its depth; the signal ends its request as a caller that leaves does.
   * Throws `toolsNested` beyond the greatest depth.
   */
  within<Result> (request: FastifyRequest, signal: AbortSignal, call: (headers: Readonly<Record<string, string>>) => Promise<Result>): Promise<Result>
}

export function trackNesting (app: FastifyInstance): Nesting {
  const tickets = new Map<string, Ticket>()
  app.decorateRequest('toolDepth', 0)
  app.addHook('onRequest', (request, reply, done) => {
    const id = request.headers[header]
    if (id !== undefined) {
      delete request.headers[header]
      const ticket = tickets.get(String(id))
      tickets.delete(String(id))
      if (ticket !== undefined) {
        markToolCall(request)
        begin(ticket, request, reply)
      }
    }
    done()
  })
  return {
    async within ({ toolDepth }, signal, call) {
      if (toolDepth >= maxDepth) throw failure('toolsNested')
      const id = randomUUID()
      tickets.set(id, { depth: toolDepth + 1, signal })
      try {
        return await call({ [header]: id })
      } finally {
        tickets.delete(id)
      }
    }
  }
}

function begin ({ depth, signal }: Ticket, request: FastifyRequest, { raw }: FastifyReply): void {
  request.toolDepth = depth
  const leave = () => {
    request.raw.destroy()
    raw.destroy()
  }
  if (signal.aborted) return leave()
  signal.addEventListener('abort', leave, { once: true })
  raw.once('close', () => signal.removeEventListener('abort', leave))
}
