/**
 * The SQL of the ledger. Rows are always written in the order of their keys, so that servers do not deadlock, and only for
 * existing tenants. The clock of the database decides whether an instance is alive.
 */
import { CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely'
import type { Engine } from '../../lib/database/engine.js'
import { countRooms } from '../../lib/database/joined-rooms.js'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { isCreatedAt } from '../../lib/database/tenant-life.js'
import { type Owner, serverRef, type TenantRef } from '../../lib/identity/tenant-ref.js'
import { dayMs } from '../../lib/time/spans.js'
import type { Figures, Freed } from './counts.js'
import { type Counter, type Gauge, maxAmount, type Reserved } from './metrics.js'
import { dayOf, daysOf, monthOf, total } from './periods.js'

const silenceText = "'30 seconds'" // SQL for the time after which a silent instance counts as gone
const silence = sql.raw(silenceText)
const maxResolved = 1000 // reservations per statement
const keptDays = 800 // for which figures are kept: two years and the months around them

/** The open resources of this instance, to be written. */
export interface GaugeValue {
  readonly tenant: Owner
  /** The creation time of the tenant, ms since 1970. */
  readonly since: number | null
  readonly gauge: Gauge
  readonly value: number
  readonly written: number
}

/** Figures that an instance writes together; a number always has the same figures. */
export interface Batch {
  readonly number: number
  readonly figures: Figures
}

export interface Reservation {
  readonly instance: string
  readonly tenant: Owner
  /** The day to book it for, or `total`. */
  readonly period: string
  readonly amounts: ReadonlyArray<{ readonly id: string, readonly counter: Reserved, readonly amount: number }>
  /**
   * JSON: the limit of each plan for each amount, in the order of the amounts; null for no limit. The member with the empty
   * name is for plans that this server does not know.
   */
  readonly limits: string
}

interface Placing {
  /** The tenant's plan. */
  readonly plan: string
  /** For each amount whether it was admitted, and the amount taken before. */
  readonly outcomes: ReadonlyArray<{ readonly taken: number, readonly admitted: boolean }>
}

/** The settlement or release of a reservation. */
export interface Ending {
  readonly id: string
  /** The used amount; null if nothing was used. */
  readonly amount: number | null
}

/** A server or worker that counts usage. */
export interface Instance {
  readonly id: string
  /** The time of its last heartbeat. */
  readonly seenAt: Date
}

/** The figures of `GET /billing/usage`. */
export interface CurrentUsage {
  readonly plan: string
  readonly storage: number
  readonly secrets: number
  /** Tokens of language models in the month. */
  readonly tokens: number
  /** The cost of the tokens, in millionths of a USD. */
  readonly cost: number
  readonly gauges: Readonly<Record<Gauge, number>>
}

export type UsageStore = ReturnType<typeof createUsageStore>

type Sql = RawBuilder<unknown>

/**
 * Adds the rows of the CTE `sums (tenant_id, counter, period, amount)`, except those of tenants that are being deleted. Sums stay between 0
 * and the largest exact number of JSON. A month has no row: it is the sum of its days, since days are written far more often than months
 * are read.
 */
const bookText = `insert into tenantry.usage_counters as c (tenant_id, counter, period, amount)
  select b.tenant_id, b.counter, b.period, greatest(least(b.amount, ${maxAmount}), ${-maxAmount})::bigint from (
    select s.tenant_id, s.counter, s.period, sum(s.amount) as amount from sums s
    join tenantry.tenants t on t.id = s.tenant_id and t.status <> 'deleting' group by s.tenant_id, s.counter, s.period
  ) b where b.amount > 0 or (b.amount < 0 and exists (
    select from tenantry.usage_counters e where e.tenant_id = b.tenant_id and e.counter = b.counter and e.period = b.period
  )) order by b.tenant_id, b.counter, b.period
  on conflict (tenant_id, counter, period) do update set amount = least(greatest(c.amount + excluded.amount, 0), ${maxAmount})`
const book = sql.raw(bookText)

/** The tenants of the counts, except those being deleted and later tenants of the same id. */
const present = (since: Sql): Sql =>
  sql`t.status <> 'deleting' and (${since} is null or ${isCreatedAt(sql`t.created_at`, since)})`

/** The storage of running uploads. */
const reservedStorage = (tenant: Sql): Sql =>
  sql`coalesce((
  select sum(amount) from tenantry.usage_reservations where tenant_id = ${tenant} and counter = 'storage_bytes' and booked is null
), 0)`

/** A reported sum, at most the largest exact number of JSON. */
const capped = (amount: Sql): Sql => sql`least(${amount}, ${sql.lit(maxAmount)})::float8`

const gone =
  sql`not exists (select from tenantry.usage_instances i where i.id = r.instance_id and i.seen_at > clock_timestamp() - interval ${silence})`

const lockTenant = {
  name: 'usage_tenant',
  text: "select plan, created_at from tenantry.tenants where id = $1 and status <> 'deleting' for no key update"
}

const reserveStatement = {
  name: 'usage_reserve',
  text: `with tenant as (
    select plan, coalesce($8::jsonb -> plan, $8::jsonb -> '') as limits from tenantry.tenants where id = $3 and status <> 'deleting'
  ), asked as (
    select a.*, t.plan, (t.limits ->> (a.place - 1)::integer)::bigint as most,
      coalesce((select sum(amount) from tenantry.usage_counters c where c.tenant_id = $3 and c.counter = a.counter and c.period = any($7::text[])), 0)
      + coalesce((select sum(amount) from tenantry.usage_reservations r where r.tenant_id = $3 and r.counter = a.counter and r.period = any($7::text[]) and r.booked is null), 0) as taken
    from tenant t cross join unnest($1::uuid[], $4::text[], $6::bigint[]) with ordinality as a (id, counter, amount, place)
  ), placed as (
    insert into tenantry.usage_reservations (id, instance_id, tenant_id, counter, period, amount)
    select id, $2::uuid, $3, counter, $5, amount from asked where not exists (select from asked where taken + amount > most)
  ) select json_build_object('plan', min(plan), 'outcomes', json_agg(
    json_build_object('taken', taken, 'admitted', most is null or taken + amount <= most) order by place))::text from asked having count(*) > 0`
}

const settleStatement = {
  name: 'usage_settle',
  text: `with sums as (
    delete from tenantry.usage_reservations r using unnest($1::uuid[], $2::bigint[]) as e (id, amount) where r.id = e.id
    returning r.tenant_id, r.counter, r.period, coalesce(e.amount, 0) - coalesce(r.booked, 0) as amount
  ) ${bookText}`
}

const takeStatement = {
  name: 'usage_take',
  text: `with others as (
    select coalesce(sum(g.value), 0) as value from tenantry.usage_gauges g join tenantry.usage_instances i on i.id = g.instance_id
    where g.tenant_id = $2 and g.gauge = $3 and g.instance_id <> $1::uuid and i.seen_at > clock_timestamp() - interval ${silenceText}
  ), room as (
    select value, case when $6::bigint is null then $5::bigint else greatest(least($5::bigint, $6::bigint - value - $4::bigint), 0) end as admitted from others
  ), put as (
    insert into tenantry.usage_gauges as g (instance_id, tenant_id, gauge, value, written)
    select $1::uuid, $2, $3, $4::bigint + admitted, $7::bigint from room
    on conflict (tenant_id, gauge, instance_id) do update set value = excluded.value, written = excluded.written, written_at = clock_timestamp() where g.written < excluded.written
  ) select value::float8 as others, admitted::float8 as admitted from room`
}

export function createUsageStore (
  { kysely: db, kyselyFor, text, transaction }: Pick<Engine, 'kysely' | 'kyselyFor' | 'text' | 'transaction'>
) {
  return {
    /**
     * Writes a batch, the values of gauges and the instance's heartbeat in one statement. Returns false, without a write, if an earlier
     * statement wrote this batch and its response was lost.
     */
    async write (instance: string, { number, figures }: Batch, gauges: readonly GaugeValue[]): Promise<boolean> {
      const { day, tenants, since, calls, bandwidth } = figures
      const freed = <Name extends keyof Freed>(name: Name) => figures.freed.map((each) => each[name])
      const value = <Name extends keyof GaugeValue>(name: Name) => gauges.map((each) => each[name])
      const { rows: [row] } = await sql<{ heard: boolean }>`with heard as (
        insert into tenantry.usage_instances as i (id, seen_at, last_batch) values (${instance}::uuid, clock_timestamp(), ${number}::bigint)
        on conflict (id) do update set seen_at = clock_timestamp(), last_batch = excluded.last_batch where i.last_batch < excluded.last_batch returning 1
      ), requested as (
        insert into tenantry.usage_requests as r (tenant_id, day, api_calls, bandwidth_bytes)
        select f.tenant_id, ${day}, f.api_calls, f.bandwidth_bytes
        from unnest(${tenants}::text[], ${since}::bigint[], ${calls}::bigint[], ${bandwidth}::bigint[]) as f (tenant_id, since, api_calls, bandwidth_bytes)
        join tenantry.tenants t on t.id = f.tenant_id and ${present(sql`f.since`)} where exists (select from heard) order by f.tenant_id
        on conflict (tenant_id, day) do update set api_calls = least(r.api_calls + excluded.api_calls, ${
        sql.lit(maxAmount)
      }), bandwidth_bytes = least(r.bandwidth_bytes + excluded.bandwidth_bytes, ${sql.lit(maxAmount)})
      ), sums as (
        select f.tenant_id, 'storage_bytes' as counter, ${sql.lit(total)} as period, -f.amount as amount
        from unnest(${freed('tenant')}::text[], ${freed('since')}::bigint[], ${freed('amount')}::bigint[]) as f (tenant_id, since, amount)
        join tenantry.tenants t on t.id = f.tenant_id and ${present(sql`f.since`)} where exists (select from heard)
      ), counted as (${book}), gauged as (
        insert into tenantry.usage_gauges as g (instance_id, tenant_id, gauge, value, written)
        select ${instance}::uuid, v.tenant_id, v.gauge, v.value, v.written
        from unnest(${value('tenant')}::text[], ${value('since')}::bigint[], ${value('gauge')}::text[], ${value('value')}::bigint[], ${
        value('written')
      }::bigint[]) as v (tenant_id, since, gauge, value, written)
        join tenantry.tenants t on t.id = v.tenant_id and ${present(sql`v.since`)} where exists (select from heard)
        on conflict (tenant_id, gauge, instance_id) do update set value = excluded.value, written = excluded.written, written_at = clock_timestamp() where g.written < excluded.written
      ) select exists (select from heard) as heard`.execute(db)
      return row?.heard === true
    },

    /**
     * Reserves all amounts, if the current plan has room for them beside the used and reserved ones; otherwise none. null if
     * there is no such tenant.
     */
    async reserve ({ instance, tenant, period, amounts, limits }: Reservation): Promise<Placing | null> {
      const column = <Value>(of: (one: Reservation['amounts'][number]) => Value) => amounts.map(of)
      const values = [
        column(({ id }) => id),
        instance,
        tenant,
        column(({ counter }) => counter),
        period,
        column(({ amount }) => amount),
        period === total ? [total] : daysOf(monthOf(period)),
        limits
      ]
      // A separate statement, so that the next one sees the writes of the lock's earlier holders.
      const found = await text(reserveStatement, values, { tenant, first: { statement: lockTenant, values: [tenant] } })
      return found === null ? null : JSON.parse(found)
    },

    /**
     * Books the used amounts and ends the reservations; ended ones are unaffected.
     *
     * @param tenant  the tenant in whose turn it waits
     * @param within  its transaction. Default: a new one
     */
    async settle (endings: readonly Ending[], tenant: TenantRef, within?: Kysely<SystemTables>): Promise<void> {
      const values = [endings.map(({ id }) => id), endings.map(({ amount }) => amount)]
      if (within === undefined && tenant !== serverRef) await text(settleStatement, values, { tenant })
      else await (within ?? db).executeQuery(CompiledQuery.raw(settleStatement.text, values))
    },

    /** Subtracts storage within the transaction. */
    async free (tenant: Owner, amount: number, within: Kysely<SystemTables>): Promise<void> {
      await sql`update tenantry.usage_counters set amount = greatest(amount - ${amount}::bigint, 0)
        where tenant_id = ${tenant} and counter = 'storage_bytes' and period = ${total}`.execute(within)
    },

    /**
     * Resolves reservations of instances that are gone. A provider may have charged tokens and cost, so these are booked; storage is
     * released. An instance that returns may still end its reservations. Returns their number.
     */
    async resolve (): Promise<number> {
      const { rows: [row] } = await sql<{ count: number }>`with dead as (
        select r.id from tenantry.usage_reservations r where r.booked is null and ${gone} order by r.id limit ${sql.lit(maxResolved)} for update skip locked
      ), sums as (
        update tenantry.usage_reservations r set booked = case r.counter when 'storage_bytes' then 0 else r.amount end, resolved_at = clock_timestamp()
        from dead where r.id = dead.id returning r.tenant_id, r.counter, r.period, r.booked as amount
      ), counted as (${book}) select count(*)::int as count from sums`.execute(db)
      return row?.count ?? 0
    },

    /** Resolves the reservations of an instance that stops normally, and removes its row. */
    async retire (instance: string): Promise<void> {
      await sql`with sums as (
        delete from tenantry.usage_reservations r where r.instance_id = ${instance}::uuid returning r.tenant_id, r.counter, r.period, case when r.counter = 'storage_bytes' then 0 else r.amount end - coalesce(r.booked, 0) as amount
      ), counted as (${book}) delete from tenantry.usage_instances where id = ${instance}::uuid`.execute(db)
    },

    /** Admits as many of the wanted resources as the plan allows; null for an unknown tenant. `holding`: those of the instance now. */
    async take (
      { instance, tenant, gauge, written, wanted }: Pick<GaugeValue, 'tenant' | 'gauge' | 'written'> & { instance: string, wanted: number },
      holding: (createdAt: number) => number,
      limitOf: (plan: string) => number | null
    ): Promise<{ plan: string, others: number, admitted: number } | null> {
      return await transaction({ tenant }, async (session) => {
        const [locked] = await session.rows<{ plan: string, created_at: Date }>(lockTenant, [tenant])
        if (locked === undefined) return null
        const { plan, created_at: createdAt } = locked
        const values = [instance, tenant, gauge, holding(createdAt.getTime()), wanted, limitOf(plan), written]
        const [row] = await session.rows<{ others: number, admitted: number }>(takeStatement, values)
        return row === undefined ? null : { plan, ...row }
      })
    },

    /** Live instances, by id. */
    async instances (limit: number): Promise<Instance[]> {
      const { rows } = await sql<
        Instance
      >`select id, seen_at as "seenAt" from tenantry.usage_instances where seen_at > clock_timestamp() - interval ${silence} order by id limit ${limit}`
        .execute(db)
      return rows
    },

    /** Amounts by counter and period; missing ones are 0. */
    async amounts (
      tenant: Owner,
      counters: readonly Counter[],
      periods: readonly string[]
    ): Promise<(counter: Counter, period: string) => number> {
      const { rows } = await sql<
        { counter: Counter, period: string, amount: number }
      >`select counter, period, ${capped(sql`sum(amount)`)} as amount from (
        select counter, period, amount from tenantry.usage_counters where tenant_id = ${tenant}
        union all select c.counter, r.day, c.amount from tenantry.usage_requests r
        cross join lateral (values ('api_calls', r.api_calls), ('bandwidth_bytes', r.bandwidth_bytes)) c (counter, amount) where r.tenant_id = ${tenant}
        union all select 'storage_bytes', ${total}, ${reservedStorage(sql`${tenant}`)}
      ) a where counter = any(${counters}::text[]) and period = any(${periods}::text[]) group by counter, period`.execute(kyselyFor(tenant))
      const amounts = new Map(rows.map(({ counter, period, amount }) => [`${counter} ${period}`, amount]))
      return (counter, period) => amounts.get(`${counter} ${period}`) ?? 0
    },

    /** undefined if the tenant does not exist. `days`: those of the month. */
    async standing (tenant: Owner, days: readonly string[]): Promise<CurrentUsage | undefined> {
      const summed = (counter: Counter, periods: readonly string[]) =>
        sql`coalesce((
        select sum(amount) from tenantry.usage_counters c where c.tenant_id = t.id and c.counter = ${sql.lit(counter)} and c.period = any(${periods}::text[])), 0)`
      const open = (gauge: Gauge) =>
        sql`coalesce((
        select sum(g.value) from tenantry.usage_gauges g join tenantry.usage_instances i on i.id = g.instance_id
        where g.tenant_id = t.id and g.gauge = ${sql.lit(gauge)} and i.seen_at > clock_timestamp() - interval ${silence}), 0)::float8`
      const { rows: [row] } = await sql<Omit<CurrentUsage, 'gauges'> & Record<Gauge, number>>`select t.plan,
          ${capped(sql`${summed('storage_bytes', [total])} + ${reservedStorage(sql`t.id`)}`)} as storage,
          ${capped(summed('llm_tokens', days))} as tokens, ${capped(summed('ai_cost', days))} as cost,
          (select count(*) from tenantry.secrets s where s.tenant_id = t.id and s.deleted_at is null)::float8 as secrets,
          ${open('connections')} as connections, ${open('rooms')} + ${countRooms(sql`t.id`)} as rooms, ${open('entities_watched')} as entities_watched
        from tenantry.tenants t where t.id = ${tenant}`.execute(kyselyFor(tenant))
      if (row === undefined) return undefined
      const { plan, storage, secrets, tokens, cost, ...gauges } = row
      return { plan, storage, secrets, tokens, cost, gauges }
    }
  }
}

/**
 * Removes daily figures older than two years, and rows that the ledger no longer needs.
 *
 * @param now milliseconds since 1970
 */
export async function sweepUsage (db: Kysely<SystemTables>, now: number): Promise<void> {
  const oldest = dayOf(now - keptDays * dayMs)
  await sweep(db, 'tenantry.usage.sweep', [
    removal('tenantry.usage_requests', sql`day < ${oldest}`),
    removal('tenantry.usage_counters', sql`period < ${oldest}`),
    // Reservations resolved by other instances are kept in case their own returns.
    removal('tenantry.usage_reservations', sql`resolved_at < clock_timestamp() - interval '1 day'`),
    removal('tenantry.usage_instances', sql`seen_at < clock_timestamp() - interval '7 days'`),
    // A write cannot happen later than the maximum duration of a statement.
    removal('tenantry.usage_gauges', sql`value = 0 and written_at < clock_timestamp() - interval '10 minutes'`)
  ])
}
