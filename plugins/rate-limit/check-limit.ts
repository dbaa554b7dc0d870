/** Rate limits that other plugins declare for their own work. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { optional } from '../../lib/plugin/define.js'
import { createLimit, type Limit, type RateLimitRule } from './rules.js'

/** Rejects with `rateLimited` if the address or tenant is over the limit. Without the plugin rate-limit nothing counts. */
export async function checkLimit (request: FastifyRequest, reply: FastifyReply, limit: Limit): Promise<void> {
  await optional(request.server, 'rateLimiter')()?.check(request, reply, limit)
}

/** One count per address over all endpoints. Valid signatures are never refused: a service may share a proxy's address with others. */
const failedSignatures = createLimit({ max: 60, windowMs: 60_000 }, 'failed signatures of webhooks')

/** Rejects with `rateLimited` if the address has sent too many wrong signatures. */
export async function countFailedSignature (request: FastifyRequest, reply: FastifyReply): Promise<void> {
  await checkLimit(request, reply, failedSignatures)
}

const minute = 60_000 // ms

/** Limits per address for endpoints where callers without a token can guess passwords, tokens and addresses. */
export const triesPerMinute: RateLimitRule = { max: 60, windowMs: minute }
export const triesPerHour: RateLimitRule = { max: 60, windowMs: 60 * minute }
