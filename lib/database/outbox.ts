/** Events for webhooks, written in the transaction of the change, so that neither exists without the other. plugins/webhooks sends them. */
import { type Kysely, sql } from 'kysely'
import { storableJson } from '../json/storable.js'
import { stringifyJson } from '../json/stringify.js'
import type { SystemTables } from './system-tables.js'

/** The most bytes of JSON in an event. */
export const maxEventBytes = 262_144

export const eventsTable = 'tenantry.webhook_events'

export interface OutboundEvent {
  /** Its tenant; empty for the platform. */
  readonly tenant: string
  /** `entity.created`, `secret.rotated`, ... */
  readonly type: string
  /** The entity whose events keep their order: `notes:<id>`, a run's id, ... */
  readonly subject: string
  /** The receivers' `data`: JSON of at most `maxEventBytes`, without secrets. */
  readonly data: object
  readonly at: Date
  /** The number of webhooks that led to it. Default: 0. */
  readonly depth?: number | undefined
}

/** The part of `app.webhooks` that other plugins use to send their events. */
export interface Emitter {
  /** Writes the event in the transaction, if a webhook may subscribe to it. Call `wake` after the commit. */
  emit(transaction: Kysely<SystemTables>, event: OutboundEvent): Promise<void>
  wake(): void
}

/** Inserts the event, unless its tenant is gone or is being deleted. Throws if its data are too large. */
export async function writeEvent (db: Kysely<SystemTables>, { tenant, type, subject, data, at, depth = 0 }: OutboundEvent): Promise<void> {
  await sql`with live as (select id from tenantry.tenants where id = ${tenant} and status <> 'deleting' for key share)
    insert into tenantry.webhook_events (tenant_id, type, subject, data, at, depth)
    select ${tenant}::text, ${type}::text, ${subject}::text, ${
    eventText(data)
  }::json, ${at}::timestamptz, ${depth}::smallint where ${tenant}::text = '' or exists (select from live)`.execute(db)
}

/** The data as JSON, without NUL and lone surrogates, which PostgreSQL cannot store. */
export function eventText (data: object): string {
  const text = storableJson(stringifyJson(data))
  const bytes = Buffer.byteLength(text)
  if (bytes > maxEventBytes) throw new Error(`the data of an event has ${bytes} bytes: the maximum is ${maxEventBytes}`)
  return text
}
