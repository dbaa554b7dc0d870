/** What each plan includes (SPEC "Plan tiers" and "Secrets by plan", DESIGN 7). Unlimited is -1. */

export const tiers = ['free', 'pro', 'team', 'scale', 'enterprise'] as const
export type Tier = typeof tiers[number]

export interface Plan {
  readonly tier: Tier
  readonly limits: {
    readonly fileStorage: { readonly maxStorageMB: number }
    readonly api: { readonly requestsPerMinute: number }
    readonly ai: { readonly llmTokensPerMonth: number }
    readonly tenantConfig: { readonly maxSecrets: number, readonly rotation: boolean, readonly auditRetentionDays: number }
  }
}

export const unlimited = -1

function plan (tier: Tier, maxStorageMB: number, requestsPerMinute: number, llmTokensPerMonth: number, maxSecrets: number, auditRetentionDays: number): Plan {
  return {
    tier,
    limits: {
      fileStorage: { maxStorageMB },
      api: { requestsPerMinute },
      ai: { llmTokensPerMonth },
      tenantConfig: { maxSecrets, rotation: tier !== 'free', auditRetentionDays }
    }
  }
}

export const plans: Readonly<Record<Tier, Plan>> = {
  free: plan('free', 200, 100, 100_000, 5, 7),
  pro: plan('pro', 5120, 1000, 10_000_000, 50, 90),
  team: plan('team', 25_600, 3000, 50_000_000, 200, 90),
  scale: plan('scale', 102_400, 6000, 75_000_000, 500, 90),
  enterprise: plan('enterprise', unlimited, 10_000, unlimited, unlimited, unlimited)
}

/** The lowest tier above this one that the test accepts; null where none does. */
export function nextTier (tier: Tier, fits: (plan: Plan) => boolean): Tier | null {
  return tiers.slice(tiers.indexOf(tier) + 1).find((candidate) => fits(plans[candidate])) ?? null
}
