/** The rule that counts a route's requests: its own, else that of `perEndpoint`, else the default. */
import { platformRef, type Owner } from '../../lib/identity/tenant-ref.js'
import { createHash } from 'node:crypto'

/** How many requests a client may send in a window. */
export interface RateLimitRule {
  /** Requests a window. */
  readonly max: number
  /** The window, in milliseconds. */
  readonly windowMs: number
  /** The `message` of the refusal. Default: "Rate limit exceeded". */
  readonly message?: string | undefined
  /** The status of the refusal. Default: 429. */
  readonly statusCode?: number | undefined
  /** Answers below 400 do not count. Default: false. */
  readonly skipSuccessfulRequests?: boolean | undefined
  /** Answers of 400 and above do not count. Default: false. */
  readonly skipFailedRequests?: boolean | undefined
}

/** The rule of one route. */
export type RouteRule = Omit<RateLimitRule, 'windowMs'> & {
  /** The window, in milliseconds. Default: 60,000. */
  readonly windowMs?: number | undefined
}

/** The document's `rateLimit` section. */
export interface RateLimitOptions {
  /** false: `default`, `perEndpoint` and the plans count nothing; a route's own rule still does. Default: true. */
  readonly enabled?: boolean | undefined
  /**
   * The rule of every route that has no other; its requests share one count. Without `max`: 100 for each address,
   * while a tenant is held to its plan alone.
   */
  readonly default?: Partial<RateLimitRule> | undefined
  /** Rules by `"GET /path"` or `"/path"`, the path as it is declared. What one leaves out is taken from `default`. */
  readonly perEndpoint?: Readonly<Record<string, Partial<RateLimitRule>>> | undefined
  /** Routes without a rule hold tenants to their plans, and addresses to nothing. Default: false. */
  readonly plansOnly?: boolean | undefined
}

/** A rule and the count that it draws on, prepared before the first request. */
export interface Limit {
  readonly rule: RateLimitRule
  /** The name of the count, such as `GET /articles`; that of the default is empty. */
  readonly bucket: string
  /** The tenant whose document says so: its counts are kept apart from the platform's. */
  readonly owner: Owner
  /** Some answers are given back. */
  readonly isConditional: boolean
  /** It counts for callers without a tenant only. */
  readonly addressesOnly: boolean
  /** It counts for no caller: only the plan's ceiling beside it does. */
  readonly plansOnly: boolean
  /** The bucket, in a key of bounded length. */
  readonly key: string
}

export interface LimitOptions {
  readonly owner?: Owner
  readonly addressesOnly?: boolean
  readonly plansOnly?: boolean
}

const maxKey = 80 // characters of a name that go into a key as they are
const keyHead = 40 // characters of a longer one that stay readable

export function createLimit (
  rule: RateLimitRule,
  bucket: string,
  { owner = platformRef, addressesOnly = false, plansOnly = false }: LimitOptions = {}
): Limit {
  const isConditional = rule.skipSuccessfulRequests === true || rule.skipFailedRequests === true
  return Object.freeze({ rule, bucket, owner, isConditional, addressesOnly, plansOnly, key: boundedKey(bucket) })
}

/** A name as a key: the digest of a long one takes the place of its end. */
export function boundedKey (name: string): string {
  return name.length <= maxKey ? name : `${name.slice(0, keyHead)}#${createHash('sha256').update(name).digest('base64url')}`
}

export interface Rules {
  /** false: only routes' own rules count. */
  readonly enabled: boolean
  /** The limit of a route, null where there is none: `method` such as `GET`, the path as declared. */
  limitOf(own: RouteRule | null, method: string, path: string): Limit | null
  /** The keys of `perEndpoint` that no route has asked for. */
  unused(): string[]
}

const fallback = { max: 100, windowMs: 60_000 }

/** @param owner whose document it is */
export function createRules (
  { enabled = true, default: given, perEndpoint = {}, plansOnly = false }: RateLimitOptions,
  owner: Owner = platformRef
): Rules {
  const general = { ...fallback, ...given }
  const byEndpoint = new Map<string, Limit>()
  if (enabled) {
    for (const [key, rule] of Object.entries(perEndpoint)) byEndpoint.set(key, createLimit({ ...general, ...rule }, key, { owner }))
  }
  const unused = new Set(byEndpoint.keys())
  const byDefault = enabled ? createLimit(general, '', { owner, addressesOnly: given?.max === undefined, plansOnly }) : null

  return {
    enabled,
    limitOf (own, method, path) {
      const name = `${method} ${path}`
      const key = byEndpoint.has(name) ? name : path
      unused.delete(key)
      if (own !== null) return createLimit({ ...own, windowMs: own.windowMs ?? fallback.windowMs }, name, { owner })
      return byEndpoint.get(key) ?? byDefault
    },
    unused: () => [...unused]
  }
}
