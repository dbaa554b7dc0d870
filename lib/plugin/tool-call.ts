/** Requests that run a tool for another request: they are part of that request, and do not count as API calls. */
import type { FastifyRequest } from 'fastify'

const calls = new WeakSet<FastifyRequest>()

export function markToolCall (request: FastifyRequest): void {
  calls.add(request)
}

export function isToolCall (request: FastifyRequest): boolean {
  return calls.has(request)
}
