/** The tables of webhooks and of work that runs only once, in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, Generated } from 'kysely'
import type { OptionalTime, Time } from './column-types.js'

export interface WebhookTables {
  /** An event, written in the transaction of its change. */
  'tenantry.webhook_events': {
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
    at: Time
    /** Every subscribed webhook has a delivery. */
    fanned_out: Generated<boolean>
    /** The number of webhooks that led to it. */
    depth: Generated<number>
  }

  /** A delivery of an event to one address. */
  'tenantry.webhook_deliveries': {
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
    /** The next attempt, or when to take over a running one; null while an earlier delivery of the subject is pending, and at the end. */
    next_attempt_at: OptionalTime
    /** The running attempt. */
    holder: string | null
    /** The time of the last possible attempt. */
    give_up_at: Time
    created_at: Time
    delivered_at: OptionalTime
  }

  /** Secrets that sign by default. */
  'tenantry.webhook_secrets': {
    /** Empty for the platform. */
    tenant_id: string
    /** Encrypted, see lib/secrets. */
    secret: Buffer
    created_at: Time
  }

  /** A current or earlier delivery of an inbound webhook. */
  'tenantry.webhook_receipts': {
    /** Empty for the platform. */
    tenant_id: string
    /** The path of the route, with its parameters. */
    path: string
    /** The sender's id of the delivery, or a hash of the signed bytes. */
    id: string
    /** The process that handles it. */
    holder: string
    /** The time at which others take it over; null once it was handled. */
    held_until: ColumnType<Date | null, Date | null, Date | null>
    received_at: Time
  }

  /** An idempotency key of a request, with its kept response. */
  'tenantry.idempotency_keys': {
    /** Empty for the platform. */
    tenant_id: string
    /** SHA-256 of caller, method, path and key. */
    id: Buffer
    /** The request that holds the key. */
    holder: string
    /** `running`: nothing is written yet. `written`: the write has committed, but the response is not stored yet. */
    state: 'running' | 'written' | 'answered'
    /** The caller sent no credentials. */
    stranger: boolean
    /** `content` is encrypted, see lib/secrets. */
    encrypted: boolean
    /** SHA-256 of the query string and the body, in hexadecimal; then the body of the response. */
    content: Buffer
    status: number | null
    headers: ColumnType<Record<string, string> | null, string | null, string | null>
    /** The states `running` and `written` are valid until then. */
    leased_until: Time
    expires_at: Time
  }

  /** A reached limit of a tenant, whose notice was sent. */
  'tenantry.usage_notices': {
    tenant_id: string
    metric: string
    /** `YYYY-MM`, or the day for current totals. */
    period: string
    at: Time
  }
}
