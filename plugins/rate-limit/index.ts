/**
 * Limits the requests of each tenant, or of each address if no token names a tenant. It counts routes with
 * `config: { access }` or an own rule. `config.rateLimit` of @fastify/rate-limit works too.
 */
import type { FastifyInstance } from 'fastify'
import { catalogue } from '../../lib/errors.js'
import { trustsTenantHeader } from '../../lib/http/account.js'
import { guardRoutes } from '../../lib/http/guards.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { callback, type ClockOption, flag, membersOf, withMethods } from '../../lib/plugin/options.js'
import { openRedis } from '../../lib/redis/redis.js'
import { RateLimit as RateLimitSection } from '../../lib/schema/limits.js'
import { plansOf } from '../plans/plans-of.js'
import { registerRateLimit } from './fastify.js'
import { createLimiter } from './limiter.js'
import { createMemoryStore } from './memory.js'
import { createRedisStore } from './redis.js'
import { createLimit, createRules, type Limit, type RateLimitOptions, type RateLimitRule, type RouteRule } from './rules.js'
import { addAddressStep, addHeaderStep, addRouteStep, decorateRequests } from './steps.js'
import type { RateLimitStore } from './store.js'
import type { RateLimiter } from './types.js'

export type {} from '@fastify/rate-limit'
export type { RateLimitStore } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    rateLimiter: RateLimiter
  }
  interface FastifyContextConfig {
    /** The route's own rule. false: no limit, not even the plan's. Default: `perEndpoint`, then `default`. */
    rateLimitRule?: RouteRule | false
    /** Replaces `default` on this route: a rule of `perEndpoint` has precedence, and without rate limits it does not count. */
    usualRateLimitRule?: RouteRule
    /** The rule that counts only this route. undefined if the route shares the count of all routes. Set by this plugin. */
    ownLimit?: Limit
    /**
     * Limits each address on this route before tokens, keys and tenants are checked. For routes that check input of callers without a
     * token. It counts even if `rateLimit.enabled` is false.
     */
    addressLimit?: RateLimitRule
  }
}

export interface RateLimitPluginOptions extends RateLimitOptions, ClockOption {
  /** The Redis in which instances share their counts. Default: each process counts separately. */
  readonly redis?: { readonly url: string } | undefined
  /** A store that replaces the default one. */
  readonly store?: RateLimitStore | undefined
}

export default definePlugin<RateLimitPluginOptions>({
  name: 'rate-limit',
  optional: ['plans', 'tenancy'],
  observesRoutes: true,
  options: { ...membersOf(RateLimitSection), plansOnly: flag, store: withMethods<RateLimitStore>('take', 'refund'), now: callback },
  async setup (app, options) {
    const rules = createRules(options)
    const store = options.store ?? await openStore(app, options.redis)
    const now = options.now ?? Date.now
    let trustsHeader = false
    const limiter = createLimiter({
      store,
      plans: () => rules.enabled ? plansOf(app) : null,
      trustsHeader: () => trustsHeader,
      now
    })
    app.decorate('rateLimiter', limiter)
    decorateRequests(app)
    await registerRateLimit(app, store, now)

    guardRoutes(app, 'rate-limit', (route) => {
      const { access, rateLimitRule, usualRateLimitRule, addressLimit, rateLimit } = route.config ?? {}
      // HEAD shares the count of its GET route.
      const method = String([route.method].flat().filter((name) => name !== 'HEAD')) || 'GET'
      if (addressLimit !== undefined) addAddressStep(route, limiter, createLimit(addressLimit, `address ${method} ${route.url}`))
      const isLeftAlone = rateLimitRule === false || (access === undefined && rateLimitRule === undefined)
      const limit = isLeftAlone ? null : rules.limitOf(rateLimitRule ?? null, method, route.url, usualRateLimitRule)
      if (limit !== null && limit.bucket !== '') route.config = { ...route.config, ownLimit: limit }
      if (limit !== null) addRouteStep(route, limiter, limit)
      else if (access !== undefined || addressLimit !== undefined) addHeaderStep(route, limiter)
      if (route.config?.countsWithin === true) {
        const within = rules.limitOf(null, method, route.url)
        if (within !== null) route.config = { ...route.config, limitWithin: within }
      }
      const limitStatuses = new Set([
        ...addressLimit === undefined ? [] : [refusalStatus(addressLimit)],
        ...limit === null ? [] : [refusalStatus(limit.rule)],
        // The plan's limit, and that of @fastify/rate-limit, refuse with this status.
        ...limit !== null && (rules.enabled || isRecord(rateLimit)) ? [catalogue.rateLimited.status] : []
      ])
      if (limitStatuses.size > 0) route.config = { ...route.config, limitStatuses: [...limitStatuses] }
    })

    app.addHook('onReady', async () => {
      trustsHeader = trustsTenantHeader(app)
      for (const key of rules.unused()) app.log.warn(`rateLimit.perEndpoint has "${key}", which is not a limited route of this server, or has its own rule`)
    })
  }
})

async function openStore (app: FastifyInstance, redis: RateLimitPluginOptions['redis']): Promise<RateLimitStore> {
  const memory = createMemoryStore()
  if (redis === undefined) return memory
  const connection = await openRedis(redis.url, app.log)
  app.addHook('onClose', async () => {
    connection.close()
  })
  return createRedisStore(connection, memory)
}

function refusalStatus ({ statusCode = catalogue.rateLimited.status }: RateLimitRule): number {
  return statusCode
}
