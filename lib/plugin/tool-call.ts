/** Requests that run the tool of another request: they are part of it, and no further API call. */
import type { FastifyRequest } from 'fastify'

const calls = new WeakSet<FastifyRequest>()

export function markToolCall (request: FastifyRequest): void {
  calls.add(request)
}

export function isToolCall (request: FastifyRequest): boolean {
  return calls.has(request)
}
