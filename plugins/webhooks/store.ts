/**
 * Deliveries in the database: due ones, their results, and their log. Times come from the caller's clock, except the ends of leases: those
 * follow the clock of the database, since the clocks of processes may differ.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { tenantColumn } from '../../lib/database/sql.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { maxCallback } from '../../lib/secrets/cipher.js'

/** Milliseconds that an attempt belongs to a process; then others take it over. Longer than any attempt takes. */
const leaseMs = 30_000

const maxCounted = 10_000

export const deliveryStatuses = ['pending', 'delivered', 'failed'] as const

export interface Attempt {
  readonly id: string
  /** The owner of the webhook; empty for the platform. */
  readonly tenant: Owner
  /** For the platform's webhooks: the tenant of the event. Else empty. */
  readonly source: string
  /** The `name` of the webhook; empty for a callback. */
  readonly endpoint: string
  /** null for the webhook of a document, and for a callback that is too long. */
  readonly sealed: Buffer | null
  /** 1 for the first. */
  readonly attempts: number
  readonly giveUpAt: Date
  /** The id of the event. */
  readonly messageId: string
  readonly type: string
  readonly at: Date
  /** JSON. */
  readonly data: string
  /** The number of webhooks that led to the event. */
  readonly depth: number
}

/** The result of an attempt. `again`: the time of the next one; null for none. */
export interface Ending {
  readonly delivered: boolean
  readonly status: number | null
  readonly error: string | null
  readonly again: Date | null
}

/** The time of the next attempt; null for none. */
export async function nextDue (db: Kysely<SystemTables>): Promise<Date | null> {
  const { rows: [row] } = await sql<{ next: Date }>`select next_attempt_at as next from tenantry.webhook_deliveries
    where next_attempt_at is not null order by next_attempt_at at time zone 'UTC' limit 1`.execute(db)
  return row?.next ?? null
}

/** Lines that take turns. */
export interface Turn {
  /** The first line that does not sort before this text comes first, then those after it. */
  readonly from: string
  /** Lines without a free slot. */
  readonly full: readonly string[]
  /** The total of free slots. */
  readonly room: number
}

export interface Taking {
  readonly now: Date
  readonly holder: string
  /** The platform's webhooks: the tenants of the events take turns. */
  readonly platform: Turn
  /** The webhooks of tenants: their owners take turns. `room` counts those of the platform too. */
  readonly tenants: Turn
  /** Deliveries that a line gets in its turn. */
  readonly each: number
}

/** Takes due deliveries, a few of each line in turn. */
export async function takeDue (db: Kysely<SystemTables>, taking: Taking): Promise<Attempt[]> {
  const { rows } = await takeStatement(taking).execute(db)
  return rows
}

export function takeStatement ({ now, holder, platform, tenants, each }: Taking): RawBuilder<Attempt> {
  // Steps through the lines by the index, so that the cost of a look does not grow with a line's deliveries. The order by all columns is
  // that of the index, so that the planner uses it with any statistics.
  const isDue = sql`next_attempt_at <= greatest(${now}, now()) and next_attempt_at <= case when holder is null then ${now} else now() end`
  return sql<Attempt>`
    with recursive sources as (
      (select source from tenantry.webhook_deliveries where tenant_id = '' and next_attempt_at is not null and source >= ${platform.from}
        order by tenant_id, source, next_attempt_at limit 1)
      union all
      select next.source from sources, lateral (
        select source from tenantry.webhook_deliveries where tenant_id = '' and next_attempt_at is not null and source > sources.source
        order by tenant_id, source, next_attempt_at limit 1) next
    ), owners as (
      (select tenant_id from tenantry.webhook_deliveries where next_attempt_at is not null and tenant_id > '' and tenant_id >= ${tenants.from}
        order by tenant_id, source, next_attempt_at limit 1)
      union all
      select next.tenant_id from owners, lateral (
        select tenant_id from tenantry.webhook_deliveries where next_attempt_at is not null and tenant_id > owners.tenant_id
        order by tenant_id, source, next_attempt_at limit 1) next
    ), chosen as (
      select id from (
        (select due.id from sources, lateral (
          select id from tenantry.webhook_deliveries where tenant_id = '' and source = sources.source and ${isDue}
          order by next_attempt_at limit ${each}::int for update skip locked) due
        where sources.source <> all (${platform.full}::text[]) limit ${platform.room}::int)
        union all
        (select due.id from owners, lateral (
          select id from tenantry.webhook_deliveries where tenant_id = owners.tenant_id and source = '' and ${isDue}
          order by next_attempt_at limit ${each}::int for update skip locked) due
        where owners.tenant_id <> all (${tenants.full}::text[]) limit ${tenants.room}::int)
      ) either limit ${tenants.room}::int
    ), taken as (
      update tenantry.webhook_deliveries d set next_attempt_at = now() + ${leaseMs} * interval '1 ms', holder = ${holder}::uuid,
        attempts = attempts + 1, sealed = case when octet_length(d.sealed) <= ${maxCallback} then d.sealed end
      from chosen where d.id = chosen.id
      returning d.id, d.tenant_id, d.source, d.event, d.endpoint, d.sealed, d.attempts, d.give_up_at
    )
    select t.id, t.tenant_id as tenant, t.source, t.endpoint, t.sealed, t.attempts, t.give_up_at as "giveUpAt",
      e.id as "messageId", e.type, e.at, e.data::text as data, e.depth
    from taken t join tenantry.webhook_events e on e.place = t.event`
}

/** Writes the result of an attempt, and releases the next delivery of its subject; does nothing if another process has it now. */
export async function finish (
  db: Kysely<SystemTables>,
  id: string,
  holder: string,
  { delivered, status, error, again }: Ending,
  now: Date
): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    // Ends of one subject run one after the other: each of two at once would see the other's delivery as pending, and release nothing.
    if (again === null) {
      const chain = sql`concat_ws(' ', 'tenantry.webhook_deliveries', tenant_id, source, endpoint, subject)`
      await sql`select pg_advisory_xact_lock(hashtextextended(${chain}, 0))
        from tenantry.webhook_deliveries where id = ${id}`.execute(transaction)
    }
    const ended = await transaction.updateTable('tenantry.webhook_deliveries')
      .set({
        status: statusOf({ delivered, again }),
        last_status: status,
        last_error: error,
        next_attempt_at: again,
        holder: null,
        delivered_at: delivered ? now : null
      })
      .where('id', '=', id).where('holder', '=', holder).where('status', '=', 'pending')
      .returning([tenantColumn, 'source', 'endpoint', 'subject']).executeTakeFirst()
    if (ended === undefined || again !== null) return
    // A separate statement, to see deliveries that were added or ended meanwhile (fan-out.ts locks the last one of a subject).
    await sql`
      update tenantry.webhook_deliveries set next_attempt_at = ${now} where next_attempt_at is null and id = (
        select id from tenantry.webhook_deliveries where tenant_id = ${ended.tenant} and source = ${ended.source}
        and endpoint = ${ended.endpoint} and subject = ${ended.subject} and status = 'pending' order by event limit 1)`.execute(transaction)
  })
}

function statusOf ({ delivered, again }: Pick<Ending, 'delivered' | 'again'>): typeof deliveryStatuses[number] {
  if (delivered) return 'delivered'
  return again === null ? 'failed' : 'pending'
}

/** Returns deliveries to the queue for other servers. The attempts do not count. */
export async function handBack (db: Kysely<SystemTables>, ids: readonly string[], holder: string, now: Date): Promise<void> {
  await db.updateTable('tenantry.webhook_deliveries').set({
    next_attempt_at: now,
    holder: null,
    attempts: sql<number>`greatest(attempts - 1, 0)`
  })
    .where('id', 'in', ids).where('holder', '=', holder).where('status', '=', 'pending').execute()
}

export interface DeliveryFilter {
  readonly status?: typeof deliveryStatuses[number] | undefined
  readonly event?: string | undefined
}

/** A page of an owner's deliveries, the newest first, and their total, counted up to 10,000. */
export async function listDeliveries (db: Kysely<SystemTables>, tenant: Owner, { status, event }: DeliveryFilter, { limit, offset }: Page) {
  let found = db.selectFrom('tenantry.webhook_deliveries').where('tenant_id', '=', tenant)
  if (status !== undefined) found = found.where('status', '=', status)
  if (event !== undefined) found = found.where('type', '=', event)
  const data = await found
    .select([
      'id', 'type as event', 'url', 'endpoint', 'status', 'attempts', 'last_status as lastStatus',
      'last_error as lastError', 'next_attempt_at as nextAttemptAt', 'created_at as createdAt',
      'delivered_at as deliveredAt'
    ])
    .orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).offset(offset).execute()
  const { total } = await db.selectFrom(found.select('id').limit(maxCounted).as('counted')).select(sql<number>`count(*)::int`.as('total'))
    .executeTakeFirstOrThrow()
  return { data: data.map(({ endpoint, ...row }) => ({ ...row, webhook: endpoint === '' ? null : endpoint })), total }
}

/**
 * Makes a delivery due now, with retries until `giveUpAt`; false if the owner has none of this id. A delivery that waits for
 * another of its subject continues to wait.
 */
export async function redeliver (
  transaction: Kysely<SystemTables>,
  tenant: Owner,
  id: string,
  now: Date,
  giveUpAt: Date
): Promise<boolean> {
  const { numUpdatedRows } = await transaction.updateTable('tenantry.webhook_deliveries')
    .set({
      next_attempt_at: sql<
        Date | null
      >`case when status <> 'pending' or (next_attempt_at is not null and holder is null) then ${now}::timestamptz else next_attempt_at end`,
      give_up_at: giveUpAt,
      delivered_at: null,
      status: 'pending'
    })
    .where('tenant_id', '=', tenant).where('id', '=', id).executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}
