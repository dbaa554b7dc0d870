/** The tables for work that must run only once, in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType } from 'kysely'

type Timestamp = ColumnType<Date, Date, Date>

/** A current or earlier delivery of an inbound webhook. */
export interface WebhookReceiptsTable {
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
  received_at: Timestamp
}

/** An idempotency key of a request, with its kept response. */
export interface IdempotencyKeysTable {
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
  leased_until: Timestamp
  expires_at: Timestamp
}

/** A reached limit of a tenant, whose notice was sent. */
export interface UsageNoticesTable {
  tenant_id: string
  metric: string
  /** `YYYY-MM`, or the day for current totals. */
  period: string
  at: Timestamp
}
