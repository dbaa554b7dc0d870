/** The changes in the database: gives them positions, and reads those that a client lacks. */
import type { Engine, Statement, TextOptions } from '../../lib/database/engine.js'
import { recordFunction, triggerName } from '../../lib/database/migrations/change-triggers.js'
import { type Owner, serverRef, type TenantRef } from '../../lib/identity/tenant-ref.js'
import type { StoredChange } from '../../lib/realtime/changes.js'
import { batchesIn, batchesSql, batchSql } from './batches.js'

const maxTenants = 100 // of one run of positions
const maxEach = 20 // changes of each tenant in a run of positions, while many tenants wait
const maxAlone = 2000 // changes of a run that fewer tenants share
const maxRunBytes = 8_388_608 // of changes in a run, which its tenants share; each has at least one change
const maxBatchChanges = 100 // of one row of `realtime_changes`
const maxBatchBytes = 262_144 // of one row, without its last change
const maxChanges = 500 // of one read
const maxBytes = 4_194_304 // of changes in one read; the first batch may be larger
const maxReplayBytes = 131_072 // the same for earlier changes, which are read for each client
const maxHeads = 1000 // of one read
const maxSweptTenants = 100 // of one statement of the sweep
const maxSwept = 10_000 // batches that one statement of the sweep checks; its tenants share them

/** The advisory lock of the transaction that gives positions. */
export const positionLock = 'tenantry.realtime_changes.positions'

/** The last position and stamp of a tenant. */
export interface Head {
  readonly tenant: Owner
  readonly position: number
  readonly stamp: number
}

/** The state of a tenant's changes. */
export interface ChangeState {
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

/** The first heads with a stamp after the given one. */
export interface Heads {
  readonly heads: Head[]
  /** Whether there are more heads. */
  readonly more: boolean
  /** Changes when a replica becomes the primary; changes of rows may then be missing. */
  readonly epoch: number
}

/** The result of giving positions to some changes: also `more` if more changes may wait. */
export interface PositionResult extends Heads {
  readonly count: number
  /** The last tenant of the run; null if no tenant follows. */
  readonly last: string | null
}

export type ChangeStore = ReturnType<typeof createChangeStore>

const headsIn = (source: string): string =>
  `(select coalesce(json_agg(json_build_object('tenant', tenant_id, 'position', position, 'stamp', stamp) order by stamp), '[]')
    from (select * from ${source} order by stamp limit ${maxHeads}) h)`

const epoch = '(select epoch from tenantry.realtime_timeline)'

/**
 * Runs before `give` in the same transaction, so that `give` sees the commits of the lock's last holder and the positions of a new
 * timeline. A connection keeps the plan of `give`: without the setting, a plan from the time of a small outbox would read all of a
 * large one.
 */
const lock: Statement = {
  name: 'tenantry_realtime_lock',
  text: "select pg_advisory_xact_lock(hashtextextended($1, 0)), set_config('enable_seqscan', 'off', true), tenantry.follow_timeline()::text"
}

/** Runs before `standings` in the same transaction. */
const follow: Statement = { name: 'tenantry_realtime_follow', text: 'select tenantry.follow_timeline()::text' }

/** The size of a recorded change. It is 0 if an earlier version recorded the change while the migration ran. */
const sizeSql = 'case bytes when 0 then octet_length(record::text) + coalesce(octet_length(before::text), 0) else bytes end'

/**
 * It never parses the JSON of a row: a failure at one row would stop the changes of all tenants. Values: the last stamp that the caller
 * knows, and those of `turns`, which selects the tenants and the first place of each.
 */
const assignText = (turns: string): string =>
  `with recursive turns as (${turns}), turn as materialized (
    select * from turns limit ${maxTenants}
  ), share as materialized (
    select greatest(${maxEach}, ${maxAlone} / greatest(count(*), 1)) as most, ${maxRunBytes} / greatest(count(*), 1) as most_bytes,
      count(*) = ${maxTenants} as full
    from turn
  ), fresh as materialized (
    select tenant_id, e.row, e.earlier_bytes < most_bytes as fits from turn, share, lateral (
      select row, sum(size) over (order by place) - size as earlier_bytes from (
        select ctid as row, place, ${sizeSql} as size from tenantry.realtime_outbox where tenant_id = turn.tenant_id and place >= turn.place
        order by tenant_id, place limit (select most from share)) first) e
  ), taken as (
    delete from tenantry.realtime_outbox where ctid = any (array(select row from fresh where fits)) returning *
  ), wanted as (
    select * from taken t where exists (select from tenantry.realtime_recorded r where r.tenant_id = t.tenant_id and r.table_name = t.table_name)
  ), numbered as materialized (
    select tenant_id, table_name, kind, cut, record, before, row_number() over w as nth, sum(${sizeSql}) over w as bytes
    from wanted window w as (partition by tenant_id order by place)
  ), counts as materialized (
    select tenant_id, count(*) as count from numbered group by tenant_id
  ), heads as (
    insert into tenantry.realtime_heads as h (tenant_id, position, stamp)
    select tenant_id, count, nextval('tenantry.realtime_stamps') from counts order by tenant_id
    on conflict (tenant_id) do update set position = h.position + excluded.position, stamp = excluded.stamp
    returning h.tenant_id, h.position, h.stamp
  ), news as (
    select * from heads union all
    select * from (
      select tenant_id, position, stamp from tenantry.realtime_heads
      where stamp > $1::bigint and tenant_id not in (select tenant_id from counts) order by stamp limit ${maxHeads}) h
  ), placed as (
    insert into tenantry.realtime_changes (tenant_id, position, first, bytes, tables, changes)
    select tenant_id, heads.position - counts.count + b.last, heads.position - counts.count + b.first, octet_length(changes), tables, changes from (
      select tenant_id, max(nth) as last, min(nth) as first, array_agg(distinct table_name) as tables, ${batchSql} as changes
      from numbered group by tenant_id, (nth - 1) / ${maxBatchChanges}, bytes / ${maxBatchBytes}
    ) b join counts using (tenant_id) join heads using (tenant_id)
  ) select json_build_object('count', (select count(*) from taken), 'last', case when share.full then (select max(tenant_id) from turn) end,
    'more', share.full or exists (select from fresh where not fits)
      or exists (select from fresh group by tenant_id having count(*) >= share.most),
    'epoch', ${epoch}, 'heads', ${headsIn('news')})::text from share`

/** Values: the last stamp, and the tenant after which the run begins. */
const assign: Statement = {
  name: 'tenantry_realtime_give',
  text: assignText(`(select tenant_id, place from tenantry.realtime_outbox where tenant_id > $2 order by tenant_id, place limit 1)
    union all
    select next.* from turns, lateral (
      select tenant_id, place from tenantry.realtime_outbox where tenant_id > turns.tenant_id order by tenant_id, place limit 1) next`)
}

/** Values: the last stamp, and the tenant. */
const assignOfTenant: Statement = { name: 'tenantry_realtime_give_of', text: assignText('select $2::text as tenant_id, 0 as place') }

/** Values: the last stamp. */
const news: Statement = {
  name: 'tenantry_realtime_news',
  text: `select json_build_object('waiting', exists (select from tenantry.realtime_outbox) or exists (
      select from tenantry.realtime_timeline where timeline <> tenantry.wal_timeline()), 'epoch', ${epoch},
    'heads', ${headsIn('tenantry.realtime_heads where stamp > $1::bigint')})::text`
}

const latest: Statement = {
  name: 'tenantry_realtime_latest',
  text: 'select coalesce(max(stamp), 0)::text from tenantry.realtime_heads'
}

/** Values: tenants. */
const standings: Statement = {
  name: 'tenantry_realtime_standings',
  text: `select coalesce(json_agg(json_build_object('tenant', t.id, 'position', coalesce(h.position, 0), 'floor', coalesce(h.floor, 0),
      'oldest', (select place from tenantry.realtime_outbox where tenant_id = t.id order by tenant_id, place limit 1),
      'newest', (select place from tenantry.realtime_outbox where tenant_id = t.id order by tenant_id desc, place desc limit 1))), '[]')::text
    from unnest($1::text[]) t (id) left join tenantry.realtime_heads h on h.tenant_id = t.id`
}

/**
 * Values: tenants, their cursors and heads, tables, the changes of each tenant, the bytes of all. Batches that hold no change of the
 * tables are skipped. A head may be within a batch, while the batch is being sent to others.
 */
const read: Statement = {
  name: 'tenantry_realtime_read',
  isRead: true,
  text: `select ${batchesSql} from (
      select *, coalesce(not lead(is_taken) over (partition by tenant order by position), false) as more from (
        select *, nth = 1 or (count <= $5::int and sum(bytes) over (order by nth, tenant) <= $6::bigint) as is_taken from (
          select t.tenant, c.*, row_number() over each as nth, sum(c.position - c.first + 1) over each as count
          from unnest($1::text[], $2::bigint[], $3::bigint[]) as t (tenant, after, head), lateral (
            select position, first, bytes, changes from tenantry.realtime_changes
            where tenant_id = t.tenant and position > t.after and tables && $4::text[] and position <= coalesce((
              select min(position) from tenantry.realtime_changes where tenant_id = t.tenant and position >= t.head), t.head)
            order by position limit $5::int + 1) c
          window each as (partition by t.tenant order by c.position)
        ) found
      ) measured
    ) bounded where is_taken`
}

/** Values: the time. */
const sweep: Statement = {
  name: 'tenantry_realtime_sweep',
  text: `with due as materialized (
      select tenant_id from tenantry.realtime_heads h
      where (select at from tenantry.realtime_changes where tenant_id = h.tenant_id order by position limit 1) < $1::timestamptz
      limit ${maxSweptTenants}
    ), old as (
      select c.tenant_id, c.position from due, lateral (
        select tenant_id, position, at from tenantry.realtime_changes where tenant_id = due.tenant_id order by position
        limit (select ${maxSwept} / count(*) from due)) c
      where c.at < $1::timestamptz
    ), gone as (
      delete from tenantry.realtime_changes c using old where c.tenant_id = old.tenant_id and c.position = old.position returning c.tenant_id, c.position
    ), floors as (
      update tenantry.realtime_heads h set floor = greatest(h.floor, g.last) from (select tenant_id, max(position) as last from gone group by tenant_id) g
      where h.tenant_id = g.tenant_id returning 1
    ) select count(*)::text from gone`
}

/** Values: the schema, tables. */
const withoutTrigger: Statement = {
  name: 'tenantry_realtime_untriggered',
  text: `select coalesce(json_agg(c.relname), '[]')::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relname = any ($2::text[])
    and not exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = '${triggerName}' and t.tgfoid = to_regproc('${recordFunction}') and t.tgenabled <> 'D')`
}

export function createChangeStore (engine: Pick<Engine, 'text'>) {
  /** Each statement has one row, and writes the JSON of its result itself. */
  async function json<Result> (statement: Statement, values: readonly unknown[], first?: TextOptions['first']): Promise<Result> {
    return JSON.parse(await engine.text(statement, values, { tenant: serverRef, first }) ?? 'null')
  }

  async function assignWith (statement: Statement, stamp: number, from: string): Promise<PositionResult> {
    const given = await json<PositionResult>(statement, [stamp, from], { statement: lock, values: [positionLock] })
    return { ...given, more: given.more || given.heads.length === maxHeads }
  }

  /** Reads for several tenants, which share the batches. Reads at least the first batch of each. */
  async function readAll (
    lags: readonly Lag[],
    tables: readonly string[],
    reader: TenantRef = serverRef,
    bytes = maxBytes
  ): Promise<ReadonlyMap<string, Batch>> {
    const share = Math.max(maxEach, Math.floor(maxChanges / Math.max(1, lags.length)))
    const text = await engine.text(read, [
      lags.map(({ tenant }) => tenant),
      lags.map(({ after }) => after),
      lags.map(({ head }) => head),
      tables,
      share,
      bytes
    ], { tenant: reader })
    const byTenant = new Map(lags.map(({ tenant, after, head }) => [tenant, { after, head, changes: [] as StoredChange[], until: head }]))
    for (const { tenant, position, more, changesBetween } of text === null ? [] : batchesIn(text)) {
      const batch = byTenant.get(tenant)
      if (batch === undefined) continue
      batch.changes.push(...changesBetween(batch.after, batch.head))
      if (more) batch.until = position
    }
    return byTenant
  }

  return {
    /**
     * The state of all changes. Stamps grow in commit order, since one transaction at a time gives positions. `waiting`: whether
     * committed changes wait for positions.
     */
    async news (stamp: number) {
      const found = await json<Omit<Heads, 'more'> & { readonly waiting: boolean }>(news, [stamp])
      return { ...found, more: found.heads.length === maxHeads }
    },

    latest: () => json<number>(latest, []),

    /** By tenant: the last position, and the range of changes without one. */
    standings: (tenants: readonly string[]) => json<ChangeState[]>(standings, [tenants], { statement: follow, values: [] }),

    /**
     * Gives positions to a run of committed changes of some tenants. The order of the commits decides, not that in which the
     * transactions began or wrote. Changes of one row keep their order: the second writer waits for the first
     * one's commit before its trigger takes a `place`.
     *
     * @param after  the run begins with the tenants after this one
     * @param stamp  the last stamp that the caller knows
     */
    assignPositions: (after: string, stamp = 0) => assignWith(assign, stamp, after),

    /** Gives positions to a run of the tenant's committed changes. Returns their number. */
    async assignPositionsOf (tenant: Owner): Promise<number> {
      return (await assignWith(assignOfTenant, Number.MAX_SAFE_INTEGER, tenant)).count
    },

    /** Reads changes of the table after a position and up to `head`, in order. The tenant waits for its connections. */
    async read (tenant: Owner, table: string, after: number, head: number): Promise<Batch> {
      const batches = await readAll([{ tenant, after, head }], [table], tenant, maxReplayBytes)
      const { changes, until } = batches.get(tenant) ?? { changes: [], until: head }
      return { changes: changes.filter((change) => change.table === table), until }
    },

    readAll,

    /** Removes changes made before the time. Returns the number of batches. */
    sweep: (before: Date) => json<number>(sweep, [before]),

    /** The given tables that lack the trigger. */
    withoutTrigger: (schema: string, tables: readonly string[]) => json<string[]>(withoutTrigger, [schema, tables])
  }
}

/** Removes all changes made before the time. They get positions first, so that reconnecting clients see the gap. */
export async function sweepChanges (store: ChangeStore, before: Date): Promise<void> {
  for (let after = '', more = true; more;) {
    const given = await store.assignPositions(after)
    after = given.last ?? ''
    more = given.more
  }
  while (await store.sweep(before) > 0);
}
