/** A subscription as Polar documents it, and its snapshot. */
import { type Static, Type } from 'typebox'
import { OrNull } from '../../../../lib/http/schemas.js'
import { isTenantId, type TenantId } from '../../../../lib/identity/tenant-ref.js'
import { documented, Id as IdOf, Time } from '../call.js'
import type { Snapshot, SubscriptionStatus } from '../provider.js'

export const Id = IdOf(200)
const NullableTime = OrNull(Time)
export const Metadata = Type.Record(Type.String(), Type.Unknown())

/** The members of a customer that name the tenant. */
export const Customer = Type.Object({
  external_id: Type.Optional(OrNull(Type.String())),
  default_payment_method_id: Type.Optional(OrNull(Type.String())),
  metadata: Metadata
})

const statusNames = ['incomplete', 'incomplete_expired', 'trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused'] as const

const statuses: Readonly<Record<typeof statusNames[number], SubscriptionStatus>> = {
  incomplete: 'incomplete',
  incomplete_expired: 'incomplete',
  trialing: 'trialing',
  active: 'active',
  past_due: 'past_due',
  canceled: 'canceled',
  unpaid: 'unpaid',
  // A paused subscription is not paid, and Polar withdraws its benefits.
  paused: 'unpaid'
}

/** Those of its members that are read. */
export const Subscription = Type.Object({
  id: Id,
  created_at: Time,
  modified_at: NullableTime,
  status: Type.Enum([...statusNames]),
  current_period_start: Time,
  current_period_end: Time,
  cancel_at_period_end: Type.Boolean(),
  started_at: NullableTime,
  ended_at: NullableTime,
  past_due_at: Type.Optional(NullableTime),
  customer_id: Id,
  product_id: Id,
  metadata: Metadata,
  customer: Customer,
  prices: Type.Array(Type.Object({ id: Id }), { maxItems: 100 }),
  pending_update: Type.Optional(OrNull(Type.Object({ product_id: OrNull(Id) })))
})
export type Subscription = Static<typeof Subscription>

export const readSubscription = documented('a subscription', Subscription)

/**
 * The tenant of a subscription or an order. The metadata, which come from the tenant's own checkout, take precedence: for two tenants with
 * one e-mail address, Polar creates one customer, with the external id of the first. See `externalIdOf` for the time in that id.
 */
export function tenantOf (
  { metadata, customer }: { readonly metadata: Readonly<Record<string, unknown>>, readonly customer: Static<typeof Customer> }
): TenantId | null {
  const tenant = metadata['tenant_id'] ?? customer.external_id?.replace(/@\d+$/, '') ?? customer.metadata['tenant_id']
  return isTenantId(tenant) ? tenant : null
}

/** `modified_at` is empty until the first change: later states are later than its creation. */
export function snapshotOf (subscription: Subscription): Snapshot {
  const status = statuses[subscription.status]
  return {
    id: subscription.id,
    tenant: tenantOf(subscription),
    customerId: subscription.customer_id,
    productIds: [...new Set([subscription.product_id, ...subscription.prices.map(({ id }) => id)])],
    status,
    startedAt: new Date(subscription.started_at ?? subscription.created_at),
    periodStart: new Date(subscription.current_period_start),
    periodEnd: new Date(subscription.current_period_end),
    cancelAtPeriodEnd: subscription.cancel_at_period_end,
    endedAt: dateOf(subscription.ended_at),
    pastDueSince: status === 'past_due' ? dateOf(subscription.past_due_at) ?? new Date(subscription.current_period_start) : null,
    paymentMethod: null,
    asOf: new Date(subscription.modified_at ?? subscription.created_at)
  }
}

function dateOf (time: string | null | undefined): Date | null {
  return time === null || time === undefined ? null : new Date(time)
}
