/** The tables of what is done once, in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType } from 'kysely'

type Timestamp = ColumnType<Date, Date, Date>

/** A delivery of an inbound webhook that is being handled, or was. */
export interface WebhookReceiptsTable {
  /** Empty for the platform. */
  tenant_id: string
  /** That of the route, with its parameters. */
  path: string
  /** What the sender calls the delivery, or a hash of what was signed. */
  id: string
  /** The process that handles it. */
  holder: string
  /** When others take it over from the holder; null once it was handled. */
  held_until: ColumnType<Date | null, Date | null, Date | null>
  received_at: Timestamp
}

/** An idempotency key of a request, with the answer that is given again. */
export interface IdempotencyKeysTable {
  /** Empty for the platform. */
  tenant_id: string
  /** SHA-256 of caller, method, path and key. */
  id: Buffer
  /** The request that holds it. */
  holder: string
  /** `running`: nothing is written yet. `written`: the write is committed, and the answer is not kept yet. */
  state: 'running' | 'written' | 'answered'
  /** The caller sent no credentials. */
  stranger: boolean
  /** `content` is encrypted, see lib/secrets. */
  encrypted: boolean
  /** SHA-256 of the query string and the body, in hexadecimal; then the body of the answer. */
  content: Buffer
  status: number | null
  headers: ColumnType<Record<string, string> | null, string | null, string | null>
  /** Until then `running` and `written` are believed. */
  leased_until: Timestamp
  expires_at: Timestamp
}

/** A limit that a tenant has reached, with a notice that was sent. */
export interface UsageNoticesTable {
  tenant_id: string
  metric: string
  /** `YYYY-MM`; the day for what is open at a time. */
  period: string
  at: Timestamp
}
