/** The contents of each plan, and the refusal beyond it. */
import { type Static, Type } from 'typebox'
import { failure, type TenantryError } from '../errors.js'
import { deepFreeze } from '../json/plain-value.js'
import type { Plans as Changes } from '../schema/plans.js'

/** In place of a limit or of a price: unlimited, or by agreement. */
export const unlimited = -1

export const bytesPerMB = 1_048_576

const limit = (description: string) => Type.Number({ description: `${description} -1 means unlimited.` })
const price = (description: string) => Type.Number({ description: `${description} -1 means a price by agreement.` })

export const Plan = Type.Object({
  tier: Type.String({ description: 'The id of the plan.' }),
  name: Type.String({ description: 'The display name.' }),
  description: Type.String(),
  price: Type.Object({
    monthly: price('The price per month.'),
    yearly: price('The price per year.'),
    currency: Type.String({ description: 'The ISO 4217 code of the currency.' })
  }),
  limits: Type.Object({
    websocket: Type.Object({
      maxConnections: limit('The number of concurrent connections.'),
      maxEntitiesWatched: limit('The number of concurrently watched entities.'),
      maxRooms: limit('The number of concurrent rooms.')
    }),
    fileStorage: Type.Object({
      maxStorageMB: limit('The total size of files in megabytes (1,048,576 bytes).'),
      maxFileSizeMB: limit('The size of one file in megabytes.')
    }),
    api: Type.Object({
      requestsPerMinute: limit('The number of requests per minute. Requests are counted unless the document has `rateLimit.enabled` false.')
    }),
    ai: Type.Object({
      llmTokensPerMonth: limit('The number of tokens of language models per month.'),
      maxCostPerMonth: limit('The cost of language models per month, in USD.')
    }),
    tenantConfig: Type.Object({
      maxSecrets: limit('The number of secrets.'),
      rotation: Type.Boolean({ description: 'True if secrets can be rotated.' }),
      auditRetentionDays: limit('The number of days for which audit entries are kept.')
    })
  })
})
/** Frozen deeply, since all requests of all tenants share it. */
export type Plan = Static<typeof Plan>

/** The plan that a 402 suggests. */
export interface Upgrade {
  readonly plan: string
  readonly limit: number
}

/** The type of `app.plans`. */
export interface Plans {
  /** From the lowest to the highest: by their price for a month, those by agreement last; at equal prices built-in plans first. */
  readonly all: readonly Plan[]
  /** All plans, in their order. */
  readonly tiers: readonly string[]
  /** The plan of a tier; `free` for an unknown one. */
  of(tier: string | undefined): Plan
  /**
   * The lowest plan above the tier with room for `needed`; null without one.
   *
   * @param limitOf the exceeded limit of a plan
   * @param needed the amount including the refused request
   */
  upgrade(tier: string, limitOf: (plan: Plan) => number, needed: number): Upgrade | null
}

/** The differences between the built-in plans. */
type Figure =
  | 'monthly' | 'connections' | 'watched' | 'storageMB' | 'fileMB' | 'requests' | 'tokens' | 'cost' | 'secrets' | 'retentionDays'

function builtIn (
  tier: string,
  description: string,
  { monthly, connections, watched, storageMB, fileMB, requests, tokens, cost, secrets, retentionDays }: Readonly<Record<Figure, number>>
): Plan {
  return {
    tier,
    name: tier.charAt(0).toUpperCase() + tier.slice(1),
    description,
    price: { monthly, yearly: monthly === unlimited ? unlimited : monthly * 10, currency: 'USD' },
    limits: {
      websocket: { maxConnections: connections, maxEntitiesWatched: watched, maxRooms: connections / 2 },
      fileStorage: { maxStorageMB: storageMB, maxFileSizeMB: fileMB },
      api: { requestsPerMinute: requests },
      ai: { llmTokensPerMonth: tokens, maxCostPerMonth: cost },
      tenantConfig: { maxSecrets: secrets, rotation: tier !== 'free', auditRetentionDays: retentionDays }
    }
  }
}

const free = builtIn('free', 'To try it out', {
  monthly: 0,
  connections: 10,
  watched: 2,
  storageMB: 200,
  fileMB: 5,
  requests: 100,
  tokens: 100_000,
  cost: 5,
  secrets: 5,
  retentionDays: 7
})
const builtInList: readonly Plan[] = [
  free,
  builtIn('pro', 'For a first product', {
    monthly: 29,
    connections: 100,
    watched: 50,
    storageMB: 5120,
    fileMB: 50,
    requests: 1000,
    tokens: 10_000_000,
    cost: 100,
    secrets: 50,
    retentionDays: 90
  }),
  builtIn('team', 'For a team with several products', {
    monthly: 99,
    connections: 500,
    watched: 250,
    storageMB: 25_600,
    fileMB: 100,
    requests: 3000,
    tokens: 50_000_000,
    cost: 500,
    secrets: 200,
    retentionDays: 90
  }),
  builtIn('scale', 'For many users at a time', {
    monthly: 299,
    connections: 2000,
    watched: 1000,
    storageMB: 102_400,
    fileMB: 500,
    requests: 6000,
    tokens: 75_000_000,
    cost: 1000,
    secrets: 500,
    retentionDays: 90
  }),
  builtIn('enterprise', 'With limits by agreement', {
    monthly: unlimited,
    connections: 10_000,
    watched: unlimited,
    storageMB: unlimited,
    fileMB: 5000,
    requests: 10_000,
    tokens: unlimited,
    cost: unlimited,
    secrets: unlimited,
    retentionDays: unlimited
  })
]

/** The built-in plans with a document's changes, and its added tiers, whose missing members are those of the built-in `free`. */
export function createPlans (changes: Changes = {}): Plans {
  const byTier = new Map(builtInList.map((plan) => [plan.tier, plan]))
  for (const [tier, change] of Object.entries(changes)) {
    byTier.set(tier, changed(byTier.get(tier) ?? { ...free, tier, name: tier, description: '' }, change))
  }
  const all = deepFreeze([...byTier.values()].sort(byPrice))
  const lowest = byTier.get(free.tier) ?? free
  const planOf = (tier = '') => byTier.get(tier) ?? lowest

  return {
    all,
    tiers: Object.freeze(all.map(({ tier }) => tier)),
    of: planOf,
    upgrade (tier, limitOf, needed) {
      const above = all.slice(all.indexOf(planOf(tier)) + 1)
      const next = above.find((plan) => limitOf(plan) === unlimited || limitOf(plan) >= needed)
      return next === undefined ? null : { plan: next.tier, limit: limitOf(next) }
    }
  }
}

function byPrice ({ price: { monthly: one } }: Plan, { price: { monthly: other } }: Plan): number {
  if (one === unlimited || other === unlimited) return Number(one === unlimited) - Number(other === unlimited)
  return one - other
}

function changed (plan: Plan, { name = plan.name, description = plan.description, price, limits = {} }: Changes[string]): Plan {
  const { websocket, fileStorage, api, ai, tenantConfig } = plan.limits
  return {
    tier: plan.tier,
    name,
    description,
    price: overlaid(plan.price, price),
    limits: {
      websocket: overlaid(websocket, limits.websocket),
      fileStorage: overlaid(fileStorage, limits.fileStorage),
      api: overlaid(api, limits.api),
      ai: overlaid(ai, limits.ai),
      tenantConfig: overlaid(tenantConfig, limits.tenantConfig)
    }
  }
}

/** The group with the given members, without undefined ones. */
function overlaid<Group extends object> (group: Group, changes: Partial<Group> = {}): Group {
  const result = { ...group }
  for (const name in group) result[name] = changes[name] ?? group[name]
  return result
}

export const builtInPlans = createPlans()

/** 402: the plan does not include it; `upgrade` is the lowest sufficient plan. */
export function planLimit (message: string, upgrade: Upgrade | null): TenantryError {
  return failure('planLimit', { message, extras: { allowed: false, upgrade } })
}

export const Percentage = Type.Number({
  description:
    'The used percentage of the limit, with two decimals. 0 if the limit is unlimited; 100 if the limit is 0 and something is used.'
})

/** The figure that `Percentage` describes. */
export function percentageOf (current: number, limit: number): number {
  if (limit === unlimited || current === 0) return 0
  return limit === 0 ? 100 : Math.round(current / limit * 10_000) / 100
}
