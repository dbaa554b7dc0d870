/**
 * Creates deliveries of events: one for each webhook that listens for the event, in the order of the events. Only one process
 * of a database does so at a time, so that deliveries of a subject keep the order of its events.
 */
import { createHash } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { retryForMs } from './retry.js'
import type { SubscriberDirectory, Subscribers } from './subscribers.js'

const maxTenants = 100 // per pass
const maxEach = 50 // events of each tenant, while many wait
const maxAlone = 250 // events in all, shared by fewer tenants
const maxWaiting = 100_000 // deliveries of a tenant's webhooks, or of the platform's for the events of one tenant
const maxSubjectBytes = 512 // in an index of PostgreSQL, which allows about 2,700

/** Deliveries that failed at once, because too many of the same line wait. */
interface RefusedEvents extends Line {
  readonly deliveries: number
}

interface EventRow {
  readonly place: string
  readonly tenant: Owner
  readonly type: string
  readonly subject: string
}

/** Deliveries that wait together. */
interface Line {
  /** The owner of the webhooks; empty for the platform. */
  readonly tenant: Owner
  /** See `source` of the table. */
  readonly source: string
}

interface Row extends Line {
  readonly event: string
  readonly type: string
  readonly subject: string
  readonly endpoint: string
  readonly url: string
}

/** The subject for deliveries: a hash if it is too long for an index. */
export function chainOf (subject: string): string {
  return Buffer.byteLength(subject) <= maxSubjectBytes ? subject : createHash('sha256').update(subject).digest('hex')
}

/** `more`: there may be more to do now. `busy`: another process is creating deliveries. */
export type FanOutcome = 'more' | 'busy' | 'done'

export interface FanOut {
  readonly outcome: FanOutcome
  /** The start of the next pass. */
  readonly from: string
  readonly refused: readonly RefusedEvents[]
}

/** @param from the last tenant of the previous pass */
export async function fanOut (db: Kysely<SystemTables>, subscribers: SubscriberDirectory, from: string, now: Date): Promise<FanOut> {
  const events = await waiting(db, from)
  const last = events.at(-1)
  // Before the transaction: the embedded engine has one connection. Cached webhooks are at least as new as the events, unless another
  // server loaded a newer document first; the versions show that.
  const known = new Map<string, Subscribers>()
  for (const { tenant } of events) if (!known.has(tenant)) known.set(tenant, await subscribers.of(tenant))
  let refused: readonly RefusedEvents[] = []
  if (last === undefined) return { outcome: from === '' ? 'done' : 'more', from: '', refused }

  const done = await db.transaction().execute(async (transaction) => {
    const { rows: [lock] } = await sql<
      { held: boolean }
    >`select pg_try_advisory_xact_lock(hashtextextended('tenantry.webhook_events.fan_out', 0)) as held`.execute(transaction)
    if (lock?.held !== true) return false
    const places = events.map(({ place }) => place)
    const { rows: fresh } = await sql<EventRow>`
      select place, tenant_id as tenant, type, subject from tenantry.webhook_events where place = any (${places}::bigint[]) and not fanned_out order by place for update`
      .execute(transaction)
    const present = await presentTenants(transaction, [...known.keys()])
    const rows: Row[] = []
    const settled: string[] = []
    const unsubscribed: string[] = []
    for (const event of fresh) {
      const { place, tenant } = event
      const own = known.get(tenant)
      const version = present.get(tenant)
      const isThere = tenant === platformRef || version !== undefined
      if (isThere && own !== undefined && own.version !== null && own.version !== version) {
        subscribers.forget(tenant)
        continue
      }
      const deliveries = isThere ? [...deliveriesOf(event, subscribers.platform, platformRef), ...deliveriesOf(event, own, tenant)] : []
      if (deliveries.length === 0) unsubscribed.push(place)
      else settled.push(place)
      rows.push(...deliveries)
    }
    refused = await insertDeliveries(transaction, rows, now)
    if (settled.length > 0) {
      await sql`update tenantry.webhook_events set fanned_out = true where place = any (${settled}::bigint[])`.execute(transaction)
    }
    if (unsubscribed.length > 0) await sql`delete from tenantry.webhook_events where place = any (${unsubscribed}::bigint[])`.execute(transaction)
    return true
  })
  if (!done) return { outcome: 'busy', from, refused }
  return { outcome: 'more', from: known.size < maxTenants ? '' : `${last.tenant}\u0001`, refused }
}

/**
 * Events without deliveries: of some tenants, a few of each, the oldest first. The order by both columns is that of the index,
 * so that the planner uses it even with old statistics of a growing table, and reads no other events.
 */
async function waiting (db: Kysely<SystemTables>, from: string): Promise<EventRow[]> {
  const { rows } = await sql<EventRow>`
    with recursive turns as (
      (select tenant_id from tenantry.webhook_events where not fanned_out and tenant_id >= ${from} order by tenant_id, place limit 1)
      union all
      select next.tenant_id from turns, lateral (
        select tenant_id from tenantry.webhook_events where not fanned_out and tenant_id > turns.tenant_id order by tenant_id, place limit 1) next
    ), turn as materialized (
      select tenant_id from turns limit ${maxTenants}::int
    )
    select e.place, e.tenant_id as tenant, e.type, e.subject from turn, lateral (
      select place, tenant_id, type, subject from tenantry.webhook_events where not fanned_out and tenant_id = turn.tenant_id order by tenant_id, place
      limit (select greatest(${maxEach}::int, ${maxAlone}::int / count(*)) from turn)) e`.execute(db)
  return rows
}

/** The existing tenants and the versions of their documents; locked, so that none is deleted meanwhile. */
async function presentTenants (transaction: Kysely<SystemTables>, tenants: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ id: string, version: number }>`
    select t.id, coalesce((select max(version) from tenantry.tenant_configs c where c.tenant_id = t.id), 0) as version
    from tenantry.tenants t where t.id = any (${tenants}::text[]) and t.status <> 'deleting' order by t.id for key share of t`.execute(
    transaction
  )
  return new Map(rows.map(({ id, version }) => [id, version]))
}

function deliveriesOf ({ place, tenant, type, subject }: EventRow, subscribers: Subscribers | undefined, owner: Owner): Row[] {
  if (subscribers === undefined || !subscribers.kinds.has(type)) return []
  const common = { tenant: owner, source: owner === platformRef ? tenant : '', event: place, type, subject: chainOf(subject) }
  return subscribers.webhooks.filter(({ kinds }) => kinds.has(type))
    .map(({ name, shownUrl }) => ({ ...common, endpoint: name, url: shownUrl }))
}

/** Inserts the deliveries. The first of each subject is due at once unless an earlier one waits; the others follow it. */
async function insertDeliveries (transaction: Kysely<SystemTables>, rows: readonly Row[], now: Date): Promise<readonly RefusedEvents[]> {
  if (rows.length === 0) return []
  const full = await fullLines(transaction, rows)
  const isRefused = (row: Row) => full.some((line) => isIn(line, row))
  const column = (of: (row: Row) => string) => rows.map(of)
  const given = sql`unnest(${column(({ tenant }) => tenant)}::text[], ${column(({ source }) => source)}::text[], ${column(({ event }) => event)}::bigint[],
    ${column(({ type }) => type)}::text[], ${column(({ subject }) => subject)}::text[], ${column(({ endpoint }) => endpoint)}::text[], ${
    column(({ url }) => url)
  }::text[],
    ${rows.map(isRefused)}::bool[]) as g (tenant_id, source, event, type, subject, endpoint, url, refused)`
  // Locks the last waiting delivery of each subject. If its end was committed earlier, this transaction sees it; otherwise the end comes
  // later and releases the new delivery.
  await sql`
    select from (select distinct tenant_id, source, endpoint, subject from ${given}) chain, lateral (
      select id from tenantry.webhook_deliveries d where d.tenant_id = chain.tenant_id and d.source = chain.source
      and d.endpoint = chain.endpoint and d.subject = chain.subject and d.status = 'pending' order by d.event desc limit 1 for update) tail`
    .execute(transaction)
  await sql`
    insert into tenantry.webhook_deliveries (tenant_id, source, event, type, subject, endpoint, url, status, last_error, next_attempt_at, give_up_at, created_at)
    select g.tenant_id, g.source, g.event, g.type, g.subject, g.endpoint, g.url, case when g.refused then 'failed' else 'pending' end,
      case when g.refused then 'too many deliveries wait already' end,
      case when not g.refused and row_number() over (partition by g.tenant_id, g.source, g.endpoint, g.subject order by g.event) = 1 and (
        select p.id from tenantry.webhook_deliveries p where p.tenant_id = g.tenant_id and p.source = g.source and p.endpoint = g.endpoint
        and p.subject = g.subject and p.status = 'pending' limit 1) is null then ${now}::timestamptz end,
      ${new Date(now.getTime() + retryForMs)}::timestamptz, ${now}::timestamptz
    from ${given}`.execute(transaction)
  return full.map((line) => ({ ...line, deliveries: rows.filter((row) => isIn(line, row)).length }))
}

function isIn (line: Line, row: Row): boolean {
  return row.tenant === line.tenant && row.source === line.source
}

/** The lines of the rows that have the maximum of waiting deliveries. */
async function fullLines (transaction: Kysely<SystemTables>, rows: readonly Row[]): Promise<readonly Line[]> {
  const { rows: full } = await sql<Line>`
    select tenant, source from (select distinct * from unnest(${rows.map(({ tenant }) => tenant)}::text[], ${
    rows.map(({ source }) => source)
  }::text[]) as g (tenant, source)) line, lateral (
      select count(*) as waiting from (
        select from tenantry.webhook_deliveries d where d.tenant_id = line.tenant and d.source = line.source and d.status = 'pending' limit ${maxWaiting}::int) held) w
    where waiting >= ${maxWaiting}::int`.execute(transaction)
  return full
}
