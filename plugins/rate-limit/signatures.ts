/** The limit of addresses that send webhooks with wrong signatures: one count for all endpoints that verify some. */
import type {} from './index.js'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { createLimit } from './rules.js'

/** Of one address. What is signed is never refused: many share the address of a proxy, and the service may be one of them. */
const failed = createLimit({ max: 60, windowMs: 60_000 }, 'failed signatures of webhooks')

/** Throws `rateLimited`, or rejects with it, where the address has sent too many. */
export async function countFailedSignature (request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (request.server.hasDecorator('rateLimiter')) await request.server.rateLimiter.check(request, reply, failed)
}
