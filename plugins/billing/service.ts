/** What `app.billing` is. */
import type { Cycle, ProviderEvent, ProviderName, Snapshot, SubscriptionStatus } from './providers/provider.js'

/** A tenant's subscription (SPEC "Tenant subscription"). */
export interface Subscription {
  /** The tier that the tenant has now, whoever gave it. */
  readonly plan: string
  readonly status: SubscriptionStatus
  readonly startDate: Date
  readonly renewalDate: Date
  readonly currentPeriodEnd: Date
  readonly cancelAtPeriodEnd: boolean
  readonly paymentMethod: string
}

/** A subscription that entitles a tenant to its plan now. */
export interface InForce {
  readonly snapshot: Snapshot
  readonly plan: string
  readonly cycle: Cycle
  readonly provider: ProviderName
}

/**
 * `applied`: it counts; `stale`: something later, or the same, was known; `duplicate`: an event of its id was handled
 * before; `unclaimed`: its tenant is not there, or it is of one that was deleted.
 */
export type Outcome = 'applied' | 'stale' | 'duplicate' | 'unclaimed'

export interface Billing {
  /** Handles an event whose signature was right. When it resolves, what it changed is committed; when it rejects nothing is, and the event may come again. */
  receive (provider: ProviderName, event: ProviderEvent): Promise<Outcome>
  /** Judged now: what is over is settled first. `tenantUnknown` */
  subscription (tenant: string): Promise<Subscription>
  /** The subscription that entitles to the highest plan now; null without one. `tenantUnknown` */
  inForce (tenant: string): Promise<InForce | null>
  /** Takes over what a call to the provider answered. */
  record (provider: ProviderName, tenant: string, snapshots: readonly Snapshot[]): Promise<void>
  /** Asks the provider. `billingNotConfigured` without one, `tenantUnknown`, and what its call fails with. */
  sync (tenant: string): Promise<Subscription>
  /** What time changes at tenants that nobody asks about: a bounded number of them, each on one server at a time; how many it settled. */
  settleDue (): Promise<number>
}
