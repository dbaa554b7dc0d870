/** Counts a request, writes the `X-RateLimit-*` headers, and refuses it beyond the limit. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RateLimitStore, Usage } from './store.js'
import type { RateLimitRule, Rules } from './rules.js'
import { STATUS_CODES } from 'node:http'
import { catalogue, TenantryError } from '../../lib/errors.js'
import { addressKey } from './client.js'

/** The stores are apart so that no flood of addresses pushes out the count of a tenant. */
export interface LimiterStores {
  readonly tenants: RateLimitStore
  readonly addresses: RateLimitStore
}

/** What `app.rateLimiter` is. */
export interface RateLimiter {
  /**
   * Counts the request under a rule, or under the document's default where it is null; throws `rateLimited` beyond the
   * limit. A promise only where the store is not in this process.
   *
   * @param bucket the name of the rule's own count, such as `GET /articles`; not read for the default, which has its own
   */
  check (request: FastifyRequest, reply: FastifyReply, rule: RateLimitRule | null, bucket: string): void | Promise<void>
}

/**
 * @param trustsHeader whether a gateway vouches for the tenant of a request whose token names none
 * @param now the clock, in milliseconds since 1970
 */
export function createLimiter (rules: Rules, stores: LimiterStores, trustsHeader: () => boolean, now: () => number): RateLimiter {
  return {
    check (request, reply, own, ownBucket) {
      const rule = own ?? rules.default?.rule
      if (rule === undefined) return
      const bucket = own === null ? '' : ownBucket
      const tenant = request.auth?.tenant_id ?? (trustsHeader() ? request.tenant?.id : undefined)
      const store = tenant === undefined ? stores.addresses : stores.tenants
      const client = tenant ?? addressKey(request.ip)
      const time = now()
      const usage = store.take(client, bucket, rule.windowMs, time)
      if (usage instanceof Promise) {
        return usage.then((counted) => {
          if (isConditional(rule)) giveBackLater(store, client, bucket, counted.resetAt, rule, reply)
          settle(reply, rule, counted, time)
        })
      }
      if (isConditional(rule)) giveBackLater(store, client, bucket, usage.resetAt, rule, reply)
      settle(reply, rule, usage, time)
    }
  }
}

function settle (reply: FastifyReply, rule: RateLimitRule, { count, resetAt }: Usage, time: number): void {
  reply.header('x-ratelimit-limit', rule.max)
  reply.header('x-ratelimit-remaining', count < rule.max ? rule.max - count : 0)
  reply.header('x-ratelimit-reset', Math.ceil(resetAt / 1000))
  if (count > rule.max) throw refusal(rule, resetAt - time)
}

function refusal ({ message, statusCode }: RateLimitRule, waitMs: number): TenantryError {
  const retryAfter = Math.max(1, Math.ceil(waitMs / 1000))
  const entry = statusCode === undefined
    ? catalogue.rateLimited
    : { ...catalogue.rateLimited, status: statusCode, title: STATUS_CODES[statusCode] ?? catalogue.rateLimited.title }
  return new TenantryError(entry, {
    ...(message !== undefined && { message }),
    extras: { retryAfter },
    headers: { 'retry-after': String(retryAfter) }
  })
}

function isConditional (rule: RateLimitRule): boolean {
  return rule.skipSuccessfulRequests === true || rule.skipFailedRequests === true
}

/** A request that the rule does not count is given back once its answer is known; one that was cut off stays counted. */
function giveBackLater (store: RateLimitStore, client: string, bucket: string, resetAt: number, rule: RateLimitRule, reply: FastifyReply): void {
  reply.raw.once('finish', () => {
    const skipped = reply.statusCode < 400 ? rule.skipSuccessfulRequests : rule.skipFailedRequests
    if (skipped !== true) return
    Promise.resolve(store.giveBack(client, bucket, resetAt)).catch((error: unknown) => {
      reply.log.warn({ err: error }, 'a request could not be given back to its rate limit')
    })
  })
}
