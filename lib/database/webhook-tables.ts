/** The tables of outbound webhooks in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, Generated } from 'kysely'

type Timestamp = ColumnType<Date, Date, Date>
type OptionalTime = ColumnType<Date | null, Date | null | undefined, Date | null>

/** What happened, written in the transaction in which it did. */
export interface WebhookEventsTable {
  /** In the order of writing; of one subject that is the order in which the transactions were committed. */
  place: Generated<string>
  /** What receivers see as `webhook-id`. */
  id: Generated<string>
  /** Empty for the platform. */
  tenant_id: string
  type: string
  subject: string
  /** JSON, members in their order. */
  data: ColumnType<unknown, string, string>
  at: Timestamp
  /** There is a delivery for each webhook that hears it. */
  fanned_out: Generated<boolean>
}

/** An event on its way to one address. */
export interface WebhookDeliveriesTable {
  id: Generated<string>
  /** Whose webhook it is; empty for the platform's. */
  tenant_id: string
  /** The tenant of the event where the webhook is the platform's, so that tenants take turns; else empty. */
  source: Generated<string>
  /** The place of the event. */
  event: string
  type: string
  subject: string
  /** The `name` of the webhook; empty for a callback. */
  endpoint: string
  /** Without its query string, templates as they are written. */
  url: string
  /** Of a callback: its address and secret, encrypted, see lib/secrets. */
  sealed: Buffer | null
  status: Generated<'pending' | 'delivered' | 'failed'>
  attempts: Generated<number>
  /** What the receiver answered last; null where it did not. */
  last_status: number | null
  last_error: string | null
  /**
   * When it is tried, or, while it is, when others take it over. null where another of its subject goes before it, and when it
   * has ended.
   */
  next_attempt_at: OptionalTime
  /** The attempt under way. */
  holder: string | null
  /** The last time at which it is tried. */
  give_up_at: Timestamp
  created_at: Timestamp
  delivered_at: OptionalTime
}

/** What signs where no other secret is named. */
export interface WebhookSecretsTable {
  /** Empty for the platform. */
  tenant_id: string
  /** Encrypted, see lib/secrets. */
  secret: Buffer
  created_at: Timestamp
}
