/**
 * Events for webhooks, written in the transaction of the change: a change that was rolled back has none, and one that was
 * committed has one, even if its process ends. plugins/webhooks sends them.
 */
import type { Kysely } from 'kysely'
import type { SystemTables } from './system-tables.js'
import { sql } from 'kysely'
import { storableJson } from '../json/storable.js'
import { stringifyJson } from '../json/stringify.js'

/** Bytes of JSON that an event tells at most. */
export const maxEventBytes = 262_144

/** The table of events, as statements name it. */
export const eventsTable = 'tenantry.webhook_events'

/** Something that happened. */
export interface OutboundEvent {
  /** Whose it is; empty for the platform. */
  readonly tenant: string
  /** `entity.created`, `secret.rotated`, ... */
  readonly type: string
  /** The entity whose events keep their order: `notes:<id>`, a run's id, ... */
  readonly subject: string
  /** What receivers read as `data`: JSON of at most `maxEventBytes`, nothing that is secret. */
  readonly data: object
  readonly at: Date
}

/** The part of `app.webhooks` that other plugins use to send their events. */
export interface Emitter {
  /** Writes the event in the transaction; nothing where no webhook could hear it. Call `wake` when it is committed. */
  emit(transaction: Kysely<SystemTables>, event: OutboundEvent): Promise<void>
  wake(): void
}

/** Inserts the event, unless its tenant is gone or is being deleted. Throws where its data are too large. */
export async function writeEvent (db: Kysely<SystemTables>, { tenant, type, subject, data, at }: OutboundEvent): Promise<void> {
  await sql`with live as (select id from tenantry.tenants where id = ${tenant} and status <> 'deleting' for share)
    insert into tenantry.webhook_events (tenant_id, type, subject, data, at)
    select ${tenant}::text, ${type}::text, ${subject}::text, ${
    eventText(data)
  }::json, ${at}::timestamptz where ${tenant}::text = '' or exists (select from live)`.execute(db)
}

/** The data as JSON. PostgreSQL takes neither NUL nor halves of surrogate pairs. */
export function eventText (data: object): string {
  const text = storableJson(stringifyJson(data))
  const bytes = Buffer.byteLength(text)
  if (bytes > maxEventBytes) throw new Error(`the data of an event have ${bytes} bytes: at most ${maxEventBytes}`)
  return text
}
