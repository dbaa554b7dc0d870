/** Deliveries in the database: which are tried, how they ended, and the log of them. Every time is the caller's clock. */
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { sql } from 'kysely'
import { removal, sweep } from '../../lib/database/sweeping.js'

/** Milliseconds for which an attempt is a process's own; then others take it over. Longer than any attempt takes. */
export const leaseMs = 30_000

const keptMs = 30 * 86_400_000
const keptDeliveries = 100_000 // of an owner that have ended; the oldest leave
const maxCounted = 10_000

export type DeliveryStatus = 'pending' | 'delivered' | 'failed'

/** An attempt that this process makes. */
export interface Attempt {
  readonly id: string
  /** Whose webhook it is; empty for the platform's. */
  readonly tenant: string
  /** The `name` of the webhook; empty for a callback. */
  readonly endpoint: string
  readonly sealed: Buffer | null
  /** 1 for the first. */
  readonly attempts: number
  readonly giveUpAt: Date
  /** Of the event. */
  readonly messageId: string
  readonly type: string
  readonly at: Date
  /** JSON. */
  readonly data: string
}

/** How an attempt ended. `again`: when it is tried next; null where it is not. */
export interface Ending {
  readonly delivered: boolean
  readonly status: number | null
  readonly error: string | null
  readonly again: Date | null
}

/** A delivery in the log. */
export interface LoggedDelivery {
  readonly id: string
  readonly event: string
  readonly url: string
  readonly webhook: string | null
  readonly status: DeliveryStatus
  readonly attempts: number
  readonly lastStatus: number | null
  readonly lastError: string | null
  readonly nextAttemptAt: Date | null
  readonly createdAt: Date
  readonly deliveredAt: Date | null
}

/** When the next attempt is due; null where none is. */
export async function nextDue (db: Kysely<SystemTables>): Promise<Date | null> {
  const { next } = await db.selectFrom('tenantry.webhook_deliveries').select(({ fn }) => fn.min('next_attempt_at').as('next')).where('next_attempt_at', 'is not', null).executeTakeFirstOrThrow()
  return next
}

export interface Taking {
  readonly now: Date
  readonly holder: string
  /** Whose turn it is: the first owner that is not before this text, then those after it. */
  readonly from: string
  /** Those who have no place left. */
  readonly full: readonly string[]
  readonly room: number
  /** Of one owner. */
  readonly each: number
}

/** Takes deliveries that are due, of a few of each owner in turn. */
export async function takeDue (db: Kysely<SystemTables>, { now, holder, from, full, room, each }: Taking): Promise<Attempt[]> {
  // From owner to owner by the index: a look is as cheap with thousands of deliveries of one as with one.
  const { rows } = await sql<Attempt>`
    with recursive turns as (
      (select tenant_id from tenantry.webhook_deliveries where next_attempt_at is not null and tenant_id >= ${from} order by tenant_id limit 1)
      union all
      select next.tenant_id from turns, lateral (
        select tenant_id from tenantry.webhook_deliveries where next_attempt_at is not null and tenant_id > turns.tenant_id order by tenant_id limit 1) next
    ), chosen as (
      select due.id from turns, lateral (
        select id from tenantry.webhook_deliveries where tenant_id = turns.tenant_id and next_attempt_at <= ${now}
        order by next_attempt_at limit ${each}::int for update skip locked) due
      where turns.tenant_id <> all (${full}::text[])
      limit ${room}::int
    ), taken as (
      update tenantry.webhook_deliveries d set next_attempt_at = ${new Date(now.getTime() + leaseMs)}, holder = ${holder}::uuid, attempts = attempts + 1
      from chosen where d.id = chosen.id
      returning d.id, d.tenant_id, d.event, d.endpoint, d.sealed, d.attempts, d.give_up_at
    )
    select t.id, t.tenant_id as tenant, t.endpoint, t.sealed, t.attempts, t.give_up_at as "giveUpAt",
      e.id as "messageId", e.type, e.at, e.data::text as data
    from taken t join tenantry.webhook_events e on e.place = t.event`.execute(db)
  return rows
}

/** Writes how an attempt ended, and lets the next delivery of its subject go; nothing where another process has it now. */
export async function finish (db: Kysely<SystemTables>, id: string, holder: string, { delivered, status, error, again }: Ending, now: Date): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const ended = await transaction.updateTable('tenantry.webhook_deliveries')
      .set({
        status: delivered ? 'delivered' : again === null ? 'failed' : 'pending',
        last_status: status,
        last_error: error,
        next_attempt_at: again,
        holder: null,
        delivered_at: delivered ? now : null
      })
      .where('id', '=', id).where('holder', '=', holder).where('status', '=', 'pending')
      .returning(['tenant_id as tenant', 'endpoint', 'subject']).executeTakeFirst()
    if (ended === undefined || again !== null) return
    // Only now: what was fanned out behind it meanwhile is seen by this statement (fan-out.ts locks the last of a subject).
    await sql`
      update tenantry.webhook_deliveries set next_attempt_at = ${now} where next_attempt_at is null and id = (
        select id from tenantry.webhook_deliveries where tenant_id = ${ended.tenant} and endpoint = ${ended.endpoint} and subject = ${ended.subject}
        and status = 'pending' order by event limit 1)`.execute(transaction)
  })
}

/** Somebody else shall make the attempts; these do not count. */
export async function handBack (db: Kysely<SystemTables>, ids: readonly string[], holder: string, now: Date): Promise<void> {
  await db.updateTable('tenantry.webhook_deliveries').set({ next_attempt_at: now, holder: null, attempts: sql<number>`greatest(attempts - 1, 0)` })
    .where('id', 'in', ids).where('holder', '=', holder).where('status', '=', 'pending').execute()
}

export interface DeliveryFilter {
  readonly status?: DeliveryStatus | undefined
  readonly event?: string | undefined
}

/** A page of an owner's deliveries, the newest first, and how many there are, counted up to 10,000. */
export async function listDeliveries (db: Kysely<SystemTables>, tenant: string, { status, event }: DeliveryFilter, { limit, offset }: { limit: number, offset: number }): Promise<{ data: LoggedDelivery[], total: number }> {
  let found = db.selectFrom('tenantry.webhook_deliveries').where('tenant_id', '=', tenant)
  if (status !== undefined) found = found.where('status', '=', status)
  if (event !== undefined) found = found.where('type', '=', event)
  const data = await found
    .select(['id', 'type as event', 'url', 'endpoint', 'status', 'attempts', 'last_status as lastStatus', 'last_error as lastError', 'next_attempt_at as nextAttemptAt', 'created_at as createdAt', 'delivered_at as deliveredAt'])
    .orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).offset(offset).execute()
  const { total } = await db.selectFrom(found.select('id').limit(maxCounted).as('counted')).select(sql<number>`count(*)::int`.as('total')).executeTakeFirstOrThrow()
  return { data: data.map(({ endpoint, ...row }) => ({ ...row, webhook: endpoint === '' ? null : endpoint })), total }
}

/** Lets a delivery be tried at once, and again until `giveUpAt`; false where the owner has none of that id. One that waits for another of its subject goes on waiting. */
export async function redeliver (transaction: Kysely<SystemTables>, tenant: string, id: string, now: Date, giveUpAt: Date): Promise<boolean> {
  const { numUpdatedRows } = await transaction.updateTable('tenantry.webhook_deliveries')
    .set({
      next_attempt_at: sql<Date | null>`case when status <> 'pending' or (next_attempt_at is not null and holder is null) then ${now}::timestamptz else next_attempt_at end`,
      give_up_at: giveUpAt,
      delivered_at: null,
      status: 'pending'
    })
    .where('tenant_id', '=', tenant).where('id', '=', id).executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

/** Removes events that are older than 30 days, with their deliveries, and of owners with very many those that ended first; then events that nothing is left of. */
export function sweepDeliveries (db: Kysely<SystemTables>, now: Date): Promise<boolean> {
  return sweep(db, 'tenantry.webhook_deliveries.sweep', [
    removal('tenantry.webhook_events', sql`at < ${new Date(now.getTime() - keptMs)} and not exists (
      select from tenantry.webhook_deliveries d where d.event = place and d.status = 'pending')`),
    async (transaction) => {
      await sql`
        delete from tenantry.webhook_deliveries d using (select tenant_id from tenantry.webhook_deliveries group by tenant_id having count(*) > ${keptDeliveries}) many,
          lateral (select created_at from tenantry.webhook_deliveries k where k.tenant_id = many.tenant_id order by created_at desc, id desc offset ${keptDeliveries} limit 1) last
        where d.tenant_id = many.tenant_id and d.created_at <= last.created_at and d.status <> 'pending'`.execute(transaction)
      // One statement finds them all.
      return 0
    },
    removal('tenantry.webhook_events', sql`fanned_out and not exists (select from tenantry.webhook_deliveries d where d.event = place)`)
  ])
}
