/** A subscription of Stripe in the platform's terms. */
import { isTenantId, type TenantId } from '../../../../lib/identity/tenant-ref.js'
import { ProviderFault } from '../call.js'
import type { Snapshot, SubscriptionStatus } from '../provider.js'
import { type AltprovSubscription, readSubscription } from './documented.js'

/** `incomplete_expired` was never paid, although it has a period; `paused` waits for a payment method, and gives no plan. */
const statuses: Readonly<Record<AltprovSubscription['status'], SubscriptionStatus>> = {
  active: 'active',
  trialing: 'trialing',
  past_due: 'past_due',
  canceled: 'canceled',
  unpaid: 'unpaid',
  paused: 'unpaid',
  incomplete: 'incomplete',
  incomplete_expired: 'incomplete'
}

/** Throws a ProviderFault for another object, or one without a period. */
export function subscriptionOf (value: unknown): AltprovSubscription {
  const subscription = readSubscription(value)
  periodOf(subscription)
  return subscription
}

export function snapshotOf (subscription: AltprovSubscription, asOf: Date): Snapshot {
  const { id, metadata, customer, items, canceled_at: canceledAt, ended_at: endedAt, default_payment_method: method } = subscription
  const expanded = typeof customer === 'string' ? undefined : customer
  const status = statuses[subscription.status]
  const { periodStart, periodEnd } = periodOf(subscription)
  const ended = endedAt ?? (status === 'canceled' ? canceledAt ?? null : null)
  return {
    id,
    tenant: tenantOf(metadata.tenant_id ?? expanded?.metadata?.tenant_id),
    customerId: idOf(customer),
    productIds: [...new Set(items.data.flatMap(({ price }) => [idOf(price.product), price.id]))],
    status,
    startedAt: time(subscription.start_date),
    periodStart: time(periodStart),
    periodEnd: time(periodEnd),
    cancelAtPeriodEnd: isCanceling(subscription),
    endedAt: ended === null ? null : time(ended),
    pastDueSince: status === 'past_due' ? time(periodStart) : null,
    paymentMethod: kindOf(method) ?? kindOf(expanded?.invoice_settings?.default_payment_method),
    asOf
  }
}

/**
 * Whether the subscription ends with its period: by its flag, or by an end date within the period, which the provider's portal sets. Under
 * a schedule, such a date may belong to a phase.
 */
export function isCanceling (subscription: AltprovSubscription): boolean {
  const { cancel_at_period_end: atPeriodEnd, cancel_at: at, schedule } = subscription
  if (atPeriodEnd) return true
  return at !== null && (schedule ?? null) === null && at <= periodOf(subscription).periodEnd
}

/** An invalid id of a tenant counts as none. */
export function tenantOf (value: string | null | undefined): TenantId | null {
  return isTenantId(value) ? value : null
}

export function idOf (named: string | { readonly id: string }): string {
  return typeof named === 'string' ? named : named.id
}

/** The date of a time in seconds since 1970. */
export function time (seconds: number): Date {
  return new Date(seconds * 1000)
}

/** The period that ends first of all items, in seconds. Before version 2025-03-31 the subscription itself has the period. */
function periodOf (subscription: AltprovSubscription) {
  const periods = [subscription, ...subscription.items.data].flatMap(
    ({ current_period_start: periodStart, current_period_end: periodEnd }) =>
      periodStart === undefined || periodEnd === undefined ? [] : [{ periodStart, periodEnd }]
  )
  const [first] = periods.sort((one, other) => one.periodEnd - other.periodEnd)
  if (first === undefined) throw new ProviderFault('unreadable', { message: 'a subscription without a period' })
  return first
}

function kindOf (method: AltprovSubscription['default_payment_method']): string | null {
  return typeof method === 'object' && method !== null ? method.type : null
}
