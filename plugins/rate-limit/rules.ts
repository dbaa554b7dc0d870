/** Chooses the rule that counts a route's requests: its own, else that of `perEndpoint`, else the default. */
import { createHash } from 'node:crypto'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'

/** The maximum number of requests of a client in a window. */
export interface RateLimitRule {
  /** Requests per window. */
  readonly max: number
  /** The window, in milliseconds. */
  readonly windowMs: number
  /** The `message` of the refusal. Default: "Rate limit exceeded". */
  readonly message?: string | undefined
  /** The status of the refusal. Default: 429. */
  readonly statusCode?: number | undefined
  /** Whether responses with a status below 400 do not count. Default: false. */
  readonly skipSuccessfulRequests?: boolean | undefined
  /** Whether responses with a status of 400 or above do not count. Default: false. */
  readonly skipFailedRequests?: boolean | undefined
}

export type RouteRule = Omit<RateLimitRule, 'windowMs'> & {
  /** The window, in milliseconds. Default: 60,000. */
  readonly windowMs?: number | undefined
}

/** The document's `rateLimit` section. */
export interface RateLimitOptions {
  /** false: only routes' own rules count, not `default`, `perEndpoint` or the plans. Default: true. */
  readonly enabled?: boolean | undefined
  /**
   * The rule of all routes without another one; they share one count. Without `max`, addresses have a limit of 100, and tenants have
   * only the limit of their plan.
   */
  readonly default?: Partial<RateLimitRule> | undefined
  /** Rules by `"GET /path"` or `"/path"`, with the declared path. Omitted members come from `default`. */
  readonly perEndpoint?: Readonly<Record<string, Partial<RateLimitRule>>> | undefined
  /** For routes without a rule, tenants have only the limit of their plan, and addresses none. Default: false. */
  readonly plansOnly?: boolean | undefined
}

/** A rule and its count, prepared before the first request. */
export interface Limit {
  readonly rule: RateLimitRule
  /** The name of the count, such as `GET /articles`; empty for the default. */
  readonly bucket: string
  /** The tenant whose document declares it: its counts are separate from the platform's. */
  readonly owner: Owner
  /** Whether some responses give their request back. */
  readonly isConditional: boolean
  /** Whether it counts only callers without a tenant. */
  readonly addressesOnly: boolean
  /** Whether it counts no callers, so that only the plan's limit counts. */
  readonly plansOnly: boolean
  /** The plan whose requests a minute it counts; null for a rule. */
  readonly plan: string | null
  /** The name as a part of a key, with a limited length. */
  readonly key: string
}

const maxKey = 80 // characters of a name that a key keeps
const keyHead = 40 // characters of a longer name that stay readable

export function createLimit (
  rule: RateLimitRule,
  bucket: string,
  { owner = platformRef, addressesOnly = false, plansOnly = false, plan = null }: Partial<
    Pick<Limit, 'owner' | 'addressesOnly' | 'plansOnly' | 'plan'>
  > = {}
): Limit {
  const isConditional = rule.skipSuccessfulRequests === true || rule.skipFailedRequests === true
  return Object.freeze({ rule, bucket, owner, isConditional, addressesOnly, plansOnly, plan, key: boundedKey(bucket) })
}

/** A name as a key. A digest replaces the end of a long name. */
export function boundedKey (name: string): string {
  return name.length <= maxKey ? name : `${name.slice(0, keyHead)}#${createHash('sha256').update(name).digest('base64url')}`
}

const fallback = { max: 100, windowMs: 60_000 }

/** @param owner the tenant of the document */
export function createRules (
  { enabled = true, default: given, perEndpoint = {}, plansOnly = false }: RateLimitOptions,
  owner: Owner = platformRef
) {
  const general = { ...fallback, ...given }
  const byEndpoint = new Map<string, Limit>()
  if (enabled) {
    for (const [key, rule] of Object.entries(perEndpoint)) byEndpoint.set(key, createLimit({ ...general, ...rule }, key, { owner }))
  }
  const unused = new Set(byEndpoint.keys())
  const byDefault = enabled ? createLimit(general, '', { owner, addressesOnly: given?.max === undefined, plansOnly }) : null

  return {
    /** false: only routes' own rules count. */
    enabled,
    /** The limit of a route, null without one: `method` such as `GET`, and the declared path. `usual` replaces `default`. */
    limitOf (own: RouteRule | null, method: string, path: string, usual?: RouteRule): Limit | null {
      const name = `${method} ${path}`
      const limitBy = (rule: RouteRule) => createLimit({ ...rule, windowMs: rule.windowMs ?? fallback.windowMs }, name, { owner })
      if (own !== null) return limitBy(own)
      const key = byEndpoint.has(name) ? name : path
      unused.delete(key)
      return byEndpoint.get(key) ?? (enabled && usual !== undefined ? limitBy(usual) : byDefault)
    },
    /** The keys of `perEndpoint` that limit no route. */
    unused: () => [...unused]
  }
}
