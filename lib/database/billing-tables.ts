/** The tables of billing in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, Generated } from 'kysely'

type OptionalTime = ColumnType<Date | null, Date | null | undefined, Date | null>

export interface BillingTenantsTable {
  tenant_id: string
  /** The last plan of its subscriptions; null if none ever gave one. */
  plan: string | null
  /** The next due time: the end of a period or a grace, or the next call to the provider. */
  due_at: OptionalTime
  /** The time of the provider's last response, */
  pulled_at: OptionalTime
  /** and of the last call to it. */
  tried_at: OptionalTime
}

/** The last known state of a subscription. */
export interface BillingSubscriptionsTable {
  tenant_id: string
  provider: string
  /** The provider's id. */
  id: string
  /** By the provider's clock; null if only payments are known. */
  as_of: OptionalTime
  customer_id: string | null
  product_ids: Generated<string[]>
  /** The plan and cycle of its products when it was written. */
  plan: string | null
  cycle: string | null
  status: string | null
  started_at: OptionalTime
  period_start: OptionalTime
  period_end: OptionalTime
  cancel_at_period_end: Generated<boolean>
  ended_at: OptionalTime
  past_due_since: OptionalTime
  payment_method: string | null
  payment_method_as_of: OptionalTime
  /** Several states with one timestamp were received. */
  unsure: Generated<boolean>
  /** The time of the last event without a state; null if the provider was called since then. */
  asked_at: OptionalTime
}

/** Handled events of providers. */
export interface BillingEventsTable {
  tenant_id: string
  provider: string
  /** The provider's id. */
  id: string
  received_at: ColumnType<Date, Date, Date>
}

/** Events of unknown tenants. */
export interface BillingUnclaimedTable {
  provider: string
  id: string
  /** The order of arrival. */
  place: Generated<string>
  /** The tenant in the event; null if it names none. */
  tenant: string | null
  subscription_id: string | null
  customer_id: string | null
  event: ColumnType<unknown, string, string>
  received_at: ColumnType<Date, Date, Date>
}
