/** The tables of billing in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, Generated } from 'kysely'

type OptionalTime = ColumnType<Date | null, Date | null | undefined, Date | null>

/** What billing remembers of a tenant. */
export interface BillingTenantsTable {
  tenant_id: string
  /** What its subscriptions gave it last; null where none ever gave anything. */
  plan: string | null
  /** When time changes something: a period or a grace ends, or the provider is to be asked. */
  due_at: OptionalTime
  /** When the provider answered last, */
  pulled_at: OptionalTime
  /** and when it was asked last. */
  tried_at: OptionalTime
}

/** A subscription as its provider had it last. */
export interface BillingSubscriptionsTable {
  tenant_id: string
  provider: string
  /** The provider's id. */
  id: string
  /** By the provider's clock; null if only payments are known. */
  as_of: OptionalTime
  customer_id: string | null
  product_ids: Generated<string[]>
  /** What the products stood for when it was written. */
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
  /** Several states of one moment were received. */
  unsure: Generated<boolean>
  /** The time of the last event about it that did not tell its state; null where none came since the provider was asked. */
  asked_at: OptionalTime
}

/** Events of providers that were handled. */
export interface BillingEventsTable {
  tenant_id: string
  provider: string
  /** The provider's id. */
  id: string
  received_at: ColumnType<Date, Date, Date>
}

/** Events whose tenant is not there. */
export interface BillingUnclaimedTable {
  provider: string
  id: string
  /** In the order of arrival. */
  place: Generated<string>
  /** The tenant that the event names; null if it names none. */
  tenant: string | null
  subscription_id: string | null
  customer_id: string | null
  event: ColumnType<unknown, string, string>
  received_at: ColumnType<Date, Date, Date>
}
