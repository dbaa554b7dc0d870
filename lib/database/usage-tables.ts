/** The tables of request figures, usage and billing in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, Generated } from 'kysely'
import type { Bigint, OptionalTime, Time, Timestamp } from './column-types.js'

export interface UsageTables {
  /** Requests of one kind in one hour. */
  'tenantry.request_stats': {
    /** Empty for the platform, whose rows cover all requests. */
    tenant_id: string
    hour: Time
    /** The `serviceName` of the counting server. */
    service: string
    method: string
    route: string
    status: number
    count: Bigint
    /** The buckets of a histogram of durations, in order. */
    buckets: number[]
    /** The number of requests in each bucket. */
    counts: ColumnType<string[], number[], number[]>
  }

  'tenantry.request_stats_writers': {
    id: string
    /** The number of the batch that it wrote last. */
    batch: Bigint
    written_at: Time
  }

  /** The requests of a tenant on a day; at most 2^53 - 1 of each. */
  'tenantry.usage_requests': {
    tenant_id: string
    /** `YYYY-MM-DD`, in UTC. */
    day: string
    api_calls: Bigint
    bandwidth_bytes: Bigint
  }

  /** A tenant's other usage in a period; never negative, and at most 2^53 - 1. */
  'tenantry.usage_counters': {
    tenant_id: string
    counter: string
    /** `YYYY-MM-DD`, or `total`. */
    period: string
    amount: Bigint
  }

  /** Processes that count usage. */
  'tenantry.usage_instances': {
    id: string
    seen_at: Timestamp
    /** The number of the last batch of figures that it wrote. */
    last_batch: Bigint
  }

  /** The open connections and similar items of a tenant in a process. */
  'tenantry.usage_gauges': {
    instance_id: string
    tenant_id: string
    gauge: string
    value: Bigint
    /** Counts the writes of the process, so that an older one that arrives late has no effect. */
    written: Bigint
    written_at: Timestamp
  }

  /** Amounts reserved for running operations. */
  'tenantry.usage_reservations': {
    id: string
    instance_id: string
    tenant_id: string
    counter: string
    /** The period of the figures for its booking: a day, or `total`. */
    period: string
    amount: Bigint
    /** The amount that others booked after its process was gone; null while it is open. */
    booked: ColumnType<string | null, number | null | undefined, number | null>
    created_at: Timestamp
    resolved_at: OptionalTime
  }

  'tenantry.billing_tenants': {
    tenant_id: string
    /** The last plan of its subscriptions; null if none ever gave one. */
    plan: string | null
    /** The next due time: the end of a period or a grace, or the next call to the provider. */
    due_at: OptionalTime
    /** The time of the provider's last response. */
    pulled_at: OptionalTime
    /** The time of the last call to the provider. */
    tried_at: OptionalTime
  }

  /** The last known state of a subscription. */
  'tenantry.billing_subscriptions': {
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
  'tenantry.billing_events': {
    tenant_id: string
    provider: string
    /** The provider's id. */
    id: string
    received_at: Time
  }

  /** Events of unknown tenants. */
  'tenantry.billing_unclaimed': {
    provider: string
    id: string
    /** The order of arrival. */
    place: Generated<string>
    /** The tenant in the event; null if it names none. */
    tenant: string | null
    subscription_id: string | null
    customer_id: string | null
    event: ColumnType<unknown, string, string>
    received_at: Time
  }
}
