/** The `X-RateLimit-*` headers. If a request has several limits, they show the one with the fewest requests left. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

const limitHeader = 'x-ratelimit-limit'
const remainingHeader = 'x-ratelimit-remaining'
const resetHeader = 'x-ratelimit-reset'

// Three numbers instead of an object: nothing is allocated for a request.
const shownMax = Symbol('tenantry.rate-limit.shown-max')
const shownLeft = Symbol('tenantry.rate-limit.shown-left')
const shownReset = Symbol('tenantry.rate-limit.shown-reset')

declare module 'fastify' {
  interface FastifyRequest {
    /** The values that this plugin wrote last. A reset of 0 means none. */
    [shownMax]: number
    [shownLeft]: number
    [shownReset]: number
  }
}

export function decorateShown (app: FastifyInstance): void {
  app.decorateRequest(shownMax, 0)
  app.decorateRequest(shownLeft, 0)
  app.decorateRequest(shownReset, 0)
}

/** Writes the headers, unless the request is admitted and they already show a limit with fewer requests left. */
export function showLimit (
  request: FastifyRequest,
  reply: FastifyReply,
  admitted: boolean,
  max: number,
  left: number,
  resetAt: number
): void {
  const before = reply.getHeader(remainingHeader)
  if (admitted && before !== undefined && Number(before) <= left) return
  write(request, reply, max, left, Math.ceil(resetAt / 1000))
}

/**
 * Call it when the response is sent. @fastify/rate-limit overwrites the headers with its own limit, whose reset is in seconds from
 * now. This keeps the stricter limit, with its reset in seconds since 1970. If both are equal, it keeps the one that ends later.
 *
 * @param now in milliseconds since 1970
 */
export function mergeHeaders (request: FastifyRequest, reply: FastifyReply, now: number): void {
  const reset = reply.getHeader(resetHeader)
  const { [shownMax]: max, [shownLeft]: left, [shownReset]: ownReset } = request
  if (reset === undefined || reset === ownReset) return
  const theirLeft = Number(reply.getHeader(remainingHeader))
  const theirReset = Math.ceil(now / 1000) + Number(reset)
  if (ownReset > 0 && (left < theirLeft || (left === theirLeft && ownReset > theirReset))) write(request, reply, max, left, ownReset)
  else write(request, reply, Number(reply.getHeader(limitHeader)), theirLeft, theirReset)
}

function write (request: FastifyRequest, reply: FastifyReply, max: number, left: number, reset: number): void {
  request[shownMax] = max
  request[shownLeft] = left
  request[shownReset] = reset
  reply.header(limitHeader, max)
  reply.header(remainingHeader, left)
  reply.header(resetHeader, reset)
}
