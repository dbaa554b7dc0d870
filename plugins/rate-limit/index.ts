/**
 * Limits how often a tenant, or an address where no token names a tenant, may call. A service plugin (fp). Counts the
 * requests of routes that declare `config: { access }` or a rule of their own; after auth and tenancy, where they are registered.
 */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { addStep } from '../pipeline.js'
import { createLimiter, type LimiterStores, type RateLimiter } from './limiter.js'
import { createRules, type RateLimitOptions, type RateLimitRule } from './rules.js'
import { createMemoryStore } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    rateLimiter: RateLimiter
  }
  interface FastifyContextConfig {
    /** The route's own rule; false: the route is never limited. Default: `perEndpoint`, else the default. */
    rateLimitRule?: RateLimitRule | false
  }
}

export interface RateLimitPluginOptions extends RateLimitOptions {
  /** Where requests are counted. Default: in this process. */
  readonly stores?: LimiterStores
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: () => number
}

export async function rateLimit (app: FastifyInstance, options: RateLimitPluginOptions): Promise<void> {
  const rules = createRules(options)
  const stores = options.stores ?? { tenants: createMemoryStore(), addresses: createMemoryStore() }
  let trustsHeader = false
  const limiter = createLimiter(rules, stores, () => trustsHeader, options.now ?? Date.now)
  app.decorate('rateLimiter', limiter)

  app.addHook('onRoute', (route) => {
    const { access, rateLimitRule } = route.config ?? {}
    if (rateLimitRule === false || (access === undefined && rateLimitRule === undefined)) return
    // A HEAD that Fastify adds to a GET draws on the same count.
    const method = String(route.method).replace('HEAD', 'GET')
    const applied = rules.ruleOf(rateLimitRule ?? null, method, route.url)
    if (applied === null) return
    const { rule, bucket } = applied
    addStep(route, 'rate-limit', (request, reply, done) => {
      const pending = limiter.check(request, reply, rule, bucket)
      if (pending === undefined) done()
      else pending.then(() => done(), done)
    })
  })

  app.addHook('onReady', async () => {
    trustsHeader = app.hasDecorator('tenancy') && app.tenancy.trustHeader
    for (const key of rules.unused()) app.log.warn(`rateLimit.perEndpoint names "${key}", which is no route of this server`)
  })
}

export default fp(rateLimit, { name: 'tenantry-rate-limit', fastify: '5.x' })
