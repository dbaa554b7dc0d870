/** The events of a tenant's month with a payment provider, and orders in which to deliver them. */
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { Payment, ProviderEvent, Snapshot, SubscriptionStatus } from '../../../plugins/billing/providers/provider.js'

export const day = 86_400_000 // ms
export const start = Date.parse('2026-06-01T12:00:00Z')
/** The time this many days after the start of the month. */
export const at = (days: number, seconds = 0): Date => new Date(start + days * day + seconds * 1000)

/** The plans of these tests' products. */
export const products = {
  pro_monthly: 'prod_pro_m',
  pro_yearly: 'prod_pro_y',
  team_monthly: 'prod_team_m',
  team_yearly: 'prod_team_y'
} as const

export function productPlans (ids: readonly string[]): { plan: string, cycle: 'monthly' | 'yearly' } | null {
  for (const [key, id] of Object.entries(products)) {
    const [plan = '', cycle] = key.split('_')
    if (ids.includes(id)) return { plan, cycle: cycle === 'yearly' ? 'yearly' : 'monthly' }
  }
  return null
}

/** A running subscription to pro; the default of `asOf` is its start. */
export function snapshotOf (changes: Partial<Snapshot> = {}): Snapshot {
  const startedAt = changes.startedAt ?? at(0)
  return {
    id: 'sub_1',
    tenant: tenantRef('acme'),
    customerId: 'cus_1',
    productIds: [products.pro_monthly],
    status: 'active',
    startedAt,
    periodStart: startedAt,
    periodEnd: new Date(startedAt.getTime() + 30 * day),
    cancelAtPeriodEnd: false,
    endedAt: null,
    pastDueSince: null,
    paymentMethod: 'card',
    asOf: startedAt,
    ...changes
  }
}

let events = 0

/** An event with the snapshot. */
export function eventOf (snapshot: Snapshot, type = 'subscription.updated'): ProviderEvent {
  return {
    id: `evt_${++events}`,
    type,
    at: snapshot.asOf,
    tenant: snapshot.tenant,
    subscriptionId: snapshot.id,
    customerId: snapshot.customerId,
    snapshot,
    payment: null
  }
}

/** An event without a snapshot, such as a payment. */
export function bareEvent (
  time: Date,
  subscriptionId: string | null,
  outcome: Payment['outcome'] | null,
  changes: Partial<ProviderEvent> = {}
): ProviderEvent {
  const number = ++events
  const payment: Payment | null = outcome === null ? null : { id: `pay_${number}`, outcome, amount: 2900, currency: 'usd' }
  return {
    id: `evt_${number}`,
    type: outcome === null ? 'checkout.completed' : `payment.${outcome}`,
    at: time,
    tenant: tenantRef('acme'),
    subscriptionId,
    customerId: 'cus_1',
    snapshot: null,
    payment,
    ...changes
  }
}

/**
 * A trial, a failed payment, its recovery, a change of plan, a cancellation at the period's end that is revoked, an immediate cancellation,
 * a refund, and a new subscription with two events within one second. In the provider's order.
 */
export function recordedMonth (tenant = 'acme'): ProviderEvent[] {
  const id = `sub_${tenant}_1`
  const customerId = `cus_${tenant}`
  const first = (asOf: Date, status: SubscriptionStatus, changes: Partial<Snapshot> = {}) =>
    eventOf(snapshotOf({ id, tenant: tenantRef(tenant), customerId, status, asOf, periodStart: at(7), periodEnd: at(37), ...changes }))
  const second = (status: SubscriptionStatus, changes: Partial<Snapshot> = {}) =>
    eventOf(snapshotOf({
      id: `sub_${tenant}_2`,
      tenant: tenantRef(tenant),
      customerId,
      status,
      startedAt: at(22),
      asOf: at(22),
      periodStart: at(22),
      periodEnd: at(387),
      productIds: [products.team_yearly],
      ...changes
    }))
  const bare = (time: Date, subscription: string | null, outcome: Payment['outcome'] | null, named: string | null = tenant) =>
    bareEvent(time, subscription, outcome, { tenant: named === null ? null : tenantRef(named), customerId })
  const team = { productIds: [products.team_monthly] }
  return [
    bare(at(0), id, null),
    first(at(0, 1), 'trialing', { periodStart: at(0), periodEnd: at(7), paymentMethod: null }),
    // Their tenant follows only from the subscription or the customer.
    bare(at(7), id, 'failed', null),
    first(at(7, 1), 'past_due', { pastDueSince: at(7) }),
    bare(at(9), id, 'paid'),
    first(at(9), 'active', { paymentMethod: null }),
    first(at(10), 'active', team),
    bare(at(10), id, 'paid'),
    first(at(12), 'active', { ...team, cancelAtPeriodEnd: true }),
    first(at(13), 'active', team),
    first(at(20), 'canceled', { ...team, endedAt: at(20) }),
    bare(at(20, 60), null, 'refunded', null),
    second('incomplete', { paymentMethod: null }),
    second('active'),
    bare(at(22, 1), `sub_${tenant}_2`, 'paid')
  ]
}

/** The provider's snapshots at the end of the month. */
export function endOfMonth (month: readonly ProviderEvent[]): Snapshot[] {
  const last = new Map<string, Snapshot>()
  for (const { snapshot } of month) if (snapshot !== null) last.set(snapshot.id, snapshot)
  return [...last.values()].reverse()
}

/** A random order; all orders are equally likely. */
export function shuffled<Item> (items: readonly Item[], next: () => number): Item[] {
  return items.map((item) => ({ item, key: next() })).sort((one, other) => one.key - other.key).map(({ item }) => item)
}
