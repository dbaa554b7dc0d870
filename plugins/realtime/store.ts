/** The changes in the database: gives them positions, and reads those that a client lacks. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { StoredChange } from '../../lib/realtime/changes.js'
import { sql, type RawBuilder } from 'kysely'
import { recordFunction, triggerName } from '../../lib/database/migrations/change-triggers.js'

const maxTenants = 100 // of one batch of positions
const maxEach = 20 // changes of each tenant in a batch of positions, while many tenants wait
const maxAlone = 2000 // changes of a batch that fewer tenants share
const maxChanges = 500 // of one read
const maxBytes = 4_194_304 // of rows in one read; the first row is read whatever its size
const maxHeads = 1000 // of one read
const maxChangeBytes = 262_144 // of a row's JSON in a change; of a larger row, a change has the key and short values
const maxCutBytes = 1024 // of those values
const maxSwept = 2000 // changes of a tenant that one statement of the sweep checks

/** The advisory lock of the transaction that gives positions. */
export const positionLock = 'tenantry.realtime_changes.positions'

/** The last position and stamp of a tenant. */
export interface Head {
  readonly tenant: Owner
  readonly position: number
  readonly stamp: number
}

/** The state of a tenant's changes. */
export interface Standing {
  readonly tenant: Owner
  readonly position: number
  /** Changes up to this position are no longer kept. */
  readonly floor: number
  /** The places of the first and the last change without a position; null if there is none. */
  readonly oldest: number | null
  readonly newest: number | null
}

/** The range of a tenant's changes that must be sent. */
export interface Lag {
  readonly tenant: Owner
  readonly after: number
  readonly head: number
}

/** Changes in order, and the position up to which they are complete. */
export interface Batch {
  readonly changes: readonly StoredChange[]
  readonly until: number
}

/** The result of giving a batch of positions. */
export interface Given {
  readonly count: number
  /** The last tenant of the batch; null if no tenant follows. */
  readonly last: string | null
  /** Whether more changes may wait. */
  readonly more: boolean
  /** The first heads with a stamp after the given one, with those of this batch. */
  readonly heads: Head[]
}

export type ChangeStore = ReturnType<typeof createChangeStore>

export function createChangeStore (db: Kysely<SystemTables>) {
  async function give (turns: RawBuilder<unknown>, stamp: number): Promise<Given> {
    return await db.transaction().execute(async (transaction) => {
      // A separate statement, so that the next one sees the commits of the lock's last holder.
      await sql`select pg_advisory_xact_lock(hashtextextended(${positionLock}, 0))`.execute(transaction)
      const { rows: [row] } = await sql<Omit<Given, 'heads'> & { heads: Head[] | null }>`
          with recursive turns as ${turns}, turn as materialized (
            select tenant_id from turns limit ${maxTenants}::int
          ), share as materialized (
            select greatest(${maxEach}::int, ${maxAlone}::int / greatest(count(*), 1)) as most, count(*) = ${maxTenants}::int as full from turn
          ), fresh as materialized (
            select e.* from turn, lateral (
              select tenant_id, place from tenantry.realtime_outbox where tenant_id = turn.tenant_id order by tenant_id, place
              limit (select most from share)) e
          ), taken as (
            delete from tenantry.realtime_outbox o using fresh where o.tenant_id = fresh.tenant_id and o.place = fresh.place returning o.*
          ), wanted as materialized (
            select o.*, row_number() over (partition by o.tenant_id order by o.place) as nth, octet_length(o.record::text) > ${maxChangeBytes}::int as cut
            from taken o where exists (select from tenantry.realtime_recorded r where r.tenant_id = o.tenant_id and r.table_name = o.table_name)
          ), counts as materialized (
            select tenant_id, count(*) as count from wanted group by tenant_id
          ), heads as (
            insert into tenantry.realtime_heads as h (tenant_id, position, stamp)
            select tenant_id, count, nextval('tenantry.realtime_stamps') from counts order by tenant_id
            on conflict (tenant_id) do update set position = h.position + excluded.position, stamp = excluded.stamp
            returning h.tenant_id, h.position, h.stamp
          ), news as (
            select * from heads union all
            select * from (
              select tenant_id, position, stamp from tenantry.realtime_heads
              where stamp > ${stamp}::bigint and tenant_id not in (select tenant_id from counts) order by stamp limit ${maxHeads}::int) h
          ), placed as (
            insert into tenantry.realtime_changes (tenant_id, position, table_name, kind, key, record, before, cut)
            select tenant_id, heads.position - counts.count + nth, table_name, kind,
              (select jsonb_object_agg(k, record -> k) from unnest(keys) k),
              case when cut then (select json_object_agg(m.key, m.value) from json_each(record) m
                where octet_length(m.value::text) <= ${maxCutBytes}::int or m.key = any (keys)) else record end,
              case when before is not null then (
                select coalesce(jsonb_object_agg(m.key, m.value), '{}') from jsonb_each(before::jsonb) m
                where m.value is distinct from record::jsonb -> m.key and octet_length(m.value::text) <= ${maxCutBytes}::int) end,
              cut
            from wanted join counts using (tenant_id) join heads using (tenant_id)
          ) select (select count(*)::int from taken) as count, case when share.full then (select max(tenant_id) from turn) end as last,
            share.full or exists (select from fresh group by tenant_id having count(*) >= share.most) as more, (${
        headsIn(sql`news`)
      }) as heads from share`.execute(transaction)
      const heads = row?.heads ?? []
      return { count: row?.count ?? 0, last: row?.last ?? null, more: row?.more === true || heads.length === maxHeads, heads }
    })
  }

  return {
    /**
     * The first heads with a later stamp, and whether committed changes wait for positions. Stamps grow in commit order, since one
     * transaction at a time gives positions.
     */
    async news (stamp: number): Promise<{ readonly heads: Head[], readonly waiting: boolean, readonly more: boolean }> {
      const { rows: [row] } = await sql<{ heads: Head[] | null, waiting: boolean }>`
        select exists (select from tenantry.realtime_outbox) as waiting,
          (${headsIn(sql`tenantry.realtime_heads where stamp > ${stamp}::bigint`)}) as heads`.execute(db)
      const heads = row?.heads ?? []
      return { heads, waiting: row?.waiting === true, more: heads.length === maxHeads }
    },

    /** The latest stamp. */
    async latest (): Promise<number> {
      const { rows: [row] } = await sql<{ stamp: number }>`select coalesce(max(stamp), 0)::float8 as stamp from tenantry.realtime_heads`
        .execute(db)
      return row?.stamp ?? 0
    },

    /** By tenant: the last position, and the range of changes without one. */
    async standings (tenants: readonly string[]): Promise<Standing[]> {
      const { rows } = await sql<Standing>`
        select t.id as tenant, coalesce(h.position, 0)::float8 as position, coalesce(h.floor, 0)::float8 as floor,
          (select place from tenantry.realtime_outbox where tenant_id = t.id order by tenant_id, place limit 1)::float8 as oldest,
          (select place from tenantry.realtime_outbox where tenant_id = t.id order by tenant_id desc, place desc limit 1)::float8 as newest
        from unnest(${tenants}::text[]) t (id) left join tenantry.realtime_heads h on h.tenant_id = t.id`.execute(db)
      return rows
    },

    /**
     * Gives positions to a batch of committed changes of some tenants. A change that is committed later gets a later position, in
     * whatever order the transactions began or wrote. Changes of one row keep their order: the second writer waits for the first
     * one's commit before its trigger takes a `place`.
     *
     * @param after  the batch begins with the tenants after this one
     * @param stamp  the last stamp that the caller knows
     */
    async givePositions (after: string, stamp = 0): Promise<Given> {
      return await give(sql`(
            (select tenant_id from tenantry.realtime_outbox where tenant_id > ${after} order by tenant_id, place limit 1)
            union all
            select next.tenant_id from turns, lateral (
              select tenant_id from tenantry.realtime_outbox where tenant_id > turns.tenant_id order by tenant_id, place limit 1) next
          )`, stamp)
    },

    /** Gives positions to a batch of the tenant's committed changes. Returns their number. */
    async givePositionsOf (tenant: Owner): Promise<number> {
      return (await give(sql`(select ${tenant}::text as tenant_id)`, Number.MAX_SAFE_INTEGER)).count
    },

    /** Reads changes of the tables after a position and up to `head`, in order. */
    async read (tenant: Owner, tables: readonly string[], after: number, head: number): Promise<Batch> {
      const { rows } = await sql<StoredChange & { more: boolean }>`
        select position::float8 as position, table_name as "table", kind, key::text as key, record::text as record, before::text as before, cut, total > ${maxChanges}::int or kept < total as more from (
          select *, count(*) over () as total, count(*) filter (where nth = 1 or bytes <= ${maxBytes}::int) over () as kept from (
            select *, row_number() over (order by position) as nth, sum(octet_length(record::text)) over (order by position) as bytes from (
              select * from tenantry.realtime_changes
              where tenant_id = ${tenant} and position > ${after}::bigint and position <= ${head}::bigint and table_name = any (${tables}::text[])
              order by position limit ${maxChanges + 1}::int
            ) taken
          ) measured
        ) bounded where nth <= ${maxChanges}::int and (nth = 1 or bytes <= ${maxBytes}::int) order by position`.execute(db)
      const last = rows.at(-1)
      return { changes: rows, until: last?.more === true ? last.position : head }
    },

    /** Reads for several tenants, which share the batch. Reads at least the first change of each. */
    async readAll (lags: readonly Lag[], tables: readonly string[]): Promise<ReadonlyMap<string, Batch>> {
      const share = Math.max(maxEach, Math.floor(maxChanges / Math.max(1, lags.length)))
      const { rows } = await sql<StoredChange & { tenant: Owner, total: number }>`
        select tenant, position::float8 as position, table_name as "table", kind, key::text as key, record::text as record, before::text as before, cut, total::float8 as total from (
          select *, sum(octet_length(record::text)) over (order by nth, tenant) as bytes from (
            select t.tenant, c.*, row_number() over (partition by t.tenant order by c.position) as nth, count(*) over (partition by t.tenant) as total
            from unnest(${lags.map(({ tenant }) => tenant)}::text[], ${lags.map(({ after }) => after)}::bigint[], ${
        lags.map(({ head }) => head)
      }::bigint[]) as t (tenant, after, head), lateral (
              select position, table_name, kind, key, record, before, cut from tenantry.realtime_changes
              where tenant_id = t.tenant and position > t.after and position <= t.head and table_name = any (${tables}::text[])
              order by position limit ${share + 1}::int) c
          ) taken
        ) measured where nth <= ${share}::int and (nth = 1 or bytes <= ${maxBytes}::int) order by tenant, position`.execute(db)
      const byTenant = new Map(lags.map(({ tenant }) => [tenant, [] as typeof rows]))
      for (const row of rows) byTenant.get(row.tenant)?.push(row)
      return new Map(lags.map(({ tenant, head }) => {
        const changes = byTenant.get(tenant) ?? []
        const last = changes.at(-1)
        return [tenant, { changes, until: last !== undefined && changes.length < last.total ? last.position : head }]
      }))
    },

    /** Removes changes made before the time. Returns their number. */
    async sweep (before: Date): Promise<number> {
      const { rows: [row] } = await sql<{ count: number }>`
        with old as (
          select c.tenant_id, c.place, c.position from tenantry.realtime_heads h, lateral (
            select tenant_id, place, position, at from tenantry.realtime_changes where tenant_id = h.tenant_id and position is not null order by position limit ${maxSwept}::int) c
          where c.at < ${before}::timestamptz
        ), gone as (
          delete from tenantry.realtime_changes c using old where c.tenant_id = old.tenant_id and c.place = old.place returning c.tenant_id, c.position
        ), floors as (
          update tenantry.realtime_heads h set floor = greatest(h.floor, g.last) from (select tenant_id, max(position) as last from gone group by tenant_id) g
          where h.tenant_id = g.tenant_id returning 1
        ) select count(*)::int as count from gone`.execute(db)
      return row?.count ?? 0
    },

    /** The given tables that lack the trigger. */
    async untriggered (schema: string, tables: readonly string[]): Promise<string[]> {
      const { rows } = await sql<{ name: string }>`
        select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = ${schema} and c.relname = any (${tables}::text[])
        and not exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = ${triggerName} and t.tgfoid = to_regproc(${recordFunction}) and t.tgenabled <> 'D')`
        .execute(db)
      return rows.map(({ name }) => name)
    }
  }
}

const headsIn = (source: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select json_agg(json_build_object('tenant', tenant_id, 'position', position, 'stamp', stamp) order by stamp)
    from (select * from ${source} order by stamp limit ${maxHeads}::int) h`

/** Removes all changes made before the time. They get positions first, so that reconnecting clients see the gap. */
export async function sweepChanges (store: ChangeStore, before: Date): Promise<void> {
  for (let after = '', more = true; more;) {
    const given = await store.givePositions(after)
    after = given.last ?? ''
    more = given.more
  }
  while (await store.sweep(before) > 0);
}
