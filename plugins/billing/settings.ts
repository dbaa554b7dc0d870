/** The product map of payment providers, in both directions. */
import { type BillingSettings, soldAs } from '../../lib/document/rules/billing.js'
import { type Cycle, type ProviderName, providerNames } from './providers/provider.js'

/** A plan for a cycle. */
export interface Sale {
  readonly plan: string
  readonly cycle: Cycle
}

export type ProductMap = ReturnType<typeof createProductMap>

/** @param tiers of all plans, from the lowest to the highest */
export function createProductMap (settings: BillingSettings, tiers: readonly string[]) {
  const byId = new Map<string, Sale>()
  const byProvider = new Map<ProviderName, ReadonlyMap<string, string>>()
  const sold = new Map<ProviderName, readonly Sale[]>()
  const rank = ({ plan }: Sale) => tiers.indexOf(plan)
  for (const provider of providerNames) {
    const entries = Object.entries(settings[provider]?.productMap ?? {})
    const sales: Sale[] = []
    for (const [key, id] of entries) {
      const sale = soldAs(key, tiers)
      if (sale === null) continue
      sales.push(sale)
      byId.set(id, sale)
    }
    byProvider.set(provider, new Map(entries))
    sold.set(provider, sales.sort((one, other) => rank(one) - rank(other) || one.cycle.localeCompare(other.cycle)))
  }
  return {
    /** The provider's id for it; undefined if it is not for sale. */
    idOf: (provider: ProviderName, { plan, cycle }: Sale): string | undefined => byProvider.get(provider)?.get(`${plan}_${cycle}`),
    /** The plans for sale at the provider, from the lowest. */
    soldBy: (provider: ProviderName): readonly Sale[] => sold.get(provider) ?? [],
    /**
     * The plan and cycle of a subscription with these products and prices, for any provider: the highest plan among them. null without one.
     */
    saleOf (ids: readonly string[]): Sale | null {
      let best: Sale | null = null
      for (const id of ids) {
        const sale = byId.get(id)
        if (sale !== undefined && (best === null || rank(sale) > rank(best))) best = sale
      }
      return best
    }
  }
}
