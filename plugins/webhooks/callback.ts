/** Callbacks: events for a single address that is in no document. */
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { sql } from 'kysely'
import { eventText, type OutboundEvent } from '../../lib/database/outbox.js'
import { chainOf } from './fan-out.js'

export interface NewCallback {
  /** Of the delivery. */
  readonly id: string
  readonly event: OutboundEvent
  /** Without its query string. */
  readonly url: string
  /** Address and secret. */
  readonly sealed: Buffer
  readonly now: Date
  readonly giveUpAt: Date
}

/** Writes the event with its delivery, unless the tenant does not exist or is being deleted. */
export async function writeCallback (
  transaction: Kysely<SystemTables>,
  { id, event, url, sealed, now, giveUpAt }: NewCallback
): Promise<void> {
  const { tenant, type, subject, data, at } = event
  // No other delivery waits for it: a subject has one callback.
  await sql`
    with live as (select id from tenantry.tenants where id = ${tenant} and status <> 'deleting' for share),
    added as (
      insert into tenantry.webhook_events (tenant_id, type, subject, data, at, fanned_out)
      select ${tenant}::text, ${type}::text, ${subject}::text, ${
    eventText(data)
  }::json, ${at}::timestamptz, true where ${tenant}::text = '' or exists (select from live)
      returning place
    )
    insert into tenantry.webhook_deliveries (id, tenant_id, event, type, subject, endpoint, url, sealed, next_attempt_at, give_up_at, created_at)
    select ${id}::uuid, ${tenant}, place, ${type}, ${
    chainOf(subject)
  }, '', ${url}, ${sealed}, ${now}::timestamptz, ${giveUpAt}::timestamptz, ${now}::timestamptz from added`.execute(transaction)
}
