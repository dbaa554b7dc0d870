/** Which rule counts a route's requests: its own, else the one that `perEndpoint` names, else the default (DESIGN 7). */

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

/** The document's `rateLimit` section. */
export interface RateLimitOptions {
  /** false: `default` and `perEndpoint` count nothing; a route's own rule still does. Default: true. */
  readonly enabled?: boolean | undefined
  /** The rule of every route that has no other; its requests share one count. Default: 100 a minute. */
  readonly default?: Partial<RateLimitRule> | undefined
  /** Rules by `"GET /path"` or `"/path"`, the path as it is declared. What one leaves out is taken from `default`. */
  readonly perEndpoint?: Readonly<Record<string, Partial<RateLimitRule>>> | undefined
}

/** A rule, and the count that it draws on; the default's is the empty one. */
export interface AppliedRule {
  readonly rule: RateLimitRule
  readonly bucket: string
}

export interface Rules {
  /** null where nothing limits a route that has no rule of its own. */
  readonly default: AppliedRule | null
  /** The rule of a route: `method` such as `GET`, the path as declared. */
  ruleOf (own: RateLimitRule | null, method: string, path: string): AppliedRule | null
  /** The keys of `perEndpoint` that no route has asked for. */
  unused (): string[]
}

const fallback = { max: 100, windowMs: 60_000 }

export function createRules ({ enabled = true, default: given, perEndpoint = {} }: RateLimitOptions): Rules {
  const general = { ...fallback, ...given }
  const byEndpoint = new Map<string, AppliedRule>()
  if (enabled) {
    for (const [key, rule] of Object.entries(perEndpoint)) byEndpoint.set(key, { rule: { ...general, ...rule }, bucket: key })
  }
  const unused = new Set(byEndpoint.keys())
  const byDefault = enabled ? { rule: general, bucket: '' } : null

  return {
    default: byDefault,
    ruleOf (own, method, path) {
      const key = byEndpoint.has(`${method} ${path}`) ? `${method} ${path}` : path
      unused.delete(key)
      if (own !== null) return { rule: own, bucket: `${method} ${path}` }
      return byEndpoint.get(key) ?? byDefault
    },
    unused: () => [...unused]
  }
}
