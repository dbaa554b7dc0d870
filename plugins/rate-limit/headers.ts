/** The headers `X-RateLimit-*`, which show the strictest of the limits that counted a request. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Limit } from './rules.js'
import type { LimitResult } from './store.js'

const limitHeader = 'x-ratelimit-limit'
const remainingHeader = 'x-ratelimit-remaining'
const resetHeader = 'x-ratelimit-reset'

export const shownLimit = Symbol('tenantry.rate-limit.shown')

/** The values of the headers. */
interface Shown {
  readonly max: number
  readonly left: number
  /** Seconds since 1970. */
  readonly reset: number
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The headers that this plugin wrote last; null without any. */
    [shownLimit]: Shown | null
  }
}

/** The limit with fewer requests left. If both are equal, the one that ends later. */
export function strictest (first: Limit, second: Limit | null, taken: LimitResult): { limit: Limit, left: number, resetAt: number } {
  const left = Math.max(0, first.rule.max - taken.count)
  if (second !== null) {
    const leftOfSecond = Math.max(0, second.rule.max - taken.secondCount)
    if (leftOfSecond < left || (leftOfSecond === left && taken.secondResetAt > taken.resetAt)) {
      return { limit: second, left: leftOfSecond, resetAt: taken.secondResetAt }
    }
  }
  return { limit: first, left, resetAt: taken.resetAt }
}

/** Writes the strictest limit, unless the request is admitted and the headers already show one with fewer requests left. Returns it. */
export function writeHeaders (request: FastifyRequest, reply: FastifyReply, first: Limit, second: Limit | null, taken: LimitResult) {
  const shown = strictest(first, second, taken)
  const before = reply.getHeader(remainingHeader)
  const isStricter = taken.admitted && before !== undefined && Number(before) <= shown.left
  if (!isStricter) write(request, reply, { max: shown.limit.rule.max, left: shown.left, reset: Math.ceil(shown.resetAt / 1000) })
  return shown
}

/**
 * Call it when the response is sent. @fastify/rate-limit overwrites the headers with its own limit, whose reset is in seconds from
 * now. This keeps the stricter limit, with its reset in seconds since 1970. If both are equal, it keeps the one that ends later.
 *
 * @param now the clock, in milliseconds since 1970
 */
export function mergeHeaders (request: FastifyRequest, reply: FastifyReply, now: () => number): void {
  const reset = reply.getHeader(resetHeader)
  const { [shownLimit]: own } = request
  if (reset === undefined || reset === own?.reset) return
  const theirs = {
    max: Number(reply.getHeader(limitHeader)),
    left: Number(reply.getHeader(remainingHeader)),
    reset: Math.ceil(now() / 1000) + Number(reset)
  }
  const isStricter = own !== null && (own.left < theirs.left || (own.left === theirs.left && own.reset > theirs.reset))
  write(request, reply, isStricter ? own : theirs)
}

function write (request: FastifyRequest, reply: FastifyReply, shown: Shown): void {
  request[shownLimit] = shown
  reply.header(limitHeader, shown.max)
  reply.header(remainingHeader, shown.left)
  reply.header(resetHeader, shown.reset)
}
