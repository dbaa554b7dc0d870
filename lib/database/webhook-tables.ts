/** The tables of outbound webhooks in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, Generated } from 'kysely'

type Timestamp = ColumnType<Date, Date, Date>
type OptionalTime = ColumnType<Date | null, Date | null | undefined, Date | null>

/** An event, written in the transaction of its change. */
export interface WebhookEventsTable {
  /** The order of writing; for one subject, it is the order of the commits. */
  place: Generated<string>
  /** The receivers' `webhook-id`. */
  id: Generated<string>
  /** Empty for the platform. */
  tenant_id: string
  type: string
  subject: string
  /** JSON, with its members in order. */
  data: ColumnType<unknown, string, string>
  at: Timestamp
  /** Every subscribed webhook has a delivery. */
  fanned_out: Generated<boolean>
}

/** A delivery of an event to one address. */
export interface WebhookDeliveriesTable {
  id: Generated<string>
  /** The owner of the webhook; empty for the platform's. */
  tenant_id: string
  /** The tenant of the event for the platform's webhooks, so that tenants take turns; else empty. */
  source: Generated<string>
  event: string
  type: string
  subject: string
  /** The `name` of the webhook; empty for a callback. */
  endpoint: string
  /** Without its query string, with its templates. */
  url: string
  /** For a callback: its address and secret, encrypted, see lib/secrets. */
  sealed: Buffer | null
  status: Generated<'pending' | 'delivered' | 'failed'>
  attempts: Generated<number>
  /** The receiver's last status; null without a response. */
  last_status: number | null
  last_error: string | null
  /**
   * The time of the next attempt. During an attempt, the time at which other servers take it over. null while an earlier delivery
   * of the subject is pending, and after the end.
   */
  next_attempt_at: OptionalTime
  /** The running attempt. */
  holder: string | null
  /** The time of the last possible attempt. */
  give_up_at: Timestamp
  created_at: Timestamp
  delivered_at: OptionalTime
}

/** Secrets that sign by default. */
export interface WebhookSecretsTable {
  /** Empty for the platform. */
  tenant_id: string
  /** Encrypted, see lib/secrets. */
  secret: Buffer
  created_at: Timestamp
}
