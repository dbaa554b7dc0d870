/**
 * The SQL of limits and usage. A row of usage holds what one user has used of one resource and metric, with a slot for each period, so that
 * one statement counts in every period or in none. Times come from the caller, so that a single clock is used.
 */
import { hash } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { Engine, Statement } from '../../lib/database/engine.js'
import { type IdempotencyClaim, requireMark } from '../../lib/database/idempotency-claim.js'
import { maxSweptRows as maxRows, sweep } from '../../lib/database/retention.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isStorable } from '../../lib/json/storable.js'
import { clockTolerance, dayMs } from '../../lib/time/spans.js'
import { endOf, type Period, periods, startOf } from './periods.js'
import type { LimitedUser, Rule } from './rules.js'
import { type Slots, slotsOf } from './usage.js'

const maxUserLength = 256 // characters of an id that is stored as it is
const kept = 32 * dayMs // ms that a row with an unused `total` stays: as long as for any other period

/** The count of a user: its resource, metric and amount. */
export interface Counting {
  readonly user: LimitedUser
  readonly resource: string
  readonly metric: string
  readonly amount: number
  /** The maximum amount of each counted period. */
  readonly caps: ReadonlyMap<Period, number>
  /** Milliseconds since 1970. */
  readonly at: number
}

/** The stored amounts that a refused count finds. */
export interface RefusedCount {
  /** The tenant's number of usage rows. */
  readonly counters: number
  /** The user's usage; null if nothing was counted yet. */
  readonly slots: Slots | null
}

export interface UsedResource {
  readonly resource: string
  readonly metric: string
  readonly slots: Slots
}

/** @param maxCounters usage rows of a tenant at most */
export function createLimitStore (engine: Engine, maxCounters: number) {
  return {
    /** For requests of any tenant, in the server's own turn. Empty if the tenant has no rules. */
    async rules (tenant: Owner, reader = engine.kysely): Promise<readonly Rule[]> {
      const row = await reader.selectFrom('tenantry.resource_limits').select(sql<readonly Rule[]>`rules`.as('rules'))
        .where('tenant_id', '=', tenant).executeTakeFirst()
      return row?.rules ?? []
    },

    /**
     * Counts in all periods and returns the new amounts; null if a period has no room, or if the tenant has too many rows. Marks
     * the claim in the same transaction.
     */
    async count ({ user, resource, metric, amount, caps, at }: Counting, claim?: IdempotencyClaim): Promise<Slots | null> {
      const spans: (Date | number | null)[] = []
      let ends = -Infinity
      for (const period of periods) {
        const cap = caps.get(period)
        if (cap === undefined) {
          spans.push(null, null)
          continue
        }
        const start = startOf(period, at)
        ends = Math.max(ends, endOf(period, start))
        spans.push(new Date(start), cap)
      }
      const until = ends === Infinity ? 'infinity' : new Date(ends)
      const values = [user.tenant, userKey(user.id), resource, metric, amount, new Date(at + clockTolerance), until, maxCounters, ...spans]
      const tenant = { tenant: tenantRef(user.tenant) }
      const text = claim === undefined
        ? await engine.text(countStatement, values, tenant)
        : await engine.transaction(tenant, async (session) => {
          const counted = await session.text(countStatement, values)
          if (counted !== null) requireMark(await session.rows(claim.mark, claim.mark.values))
          return counted
        })
      return text === null ? null : slotsOf(JSON.parse(text))
    },

    /** Takes back the counted amounts of these slots, unless another period has begun in them. */
    async uncount ({ user, resource, metric, amount, caps }: Counting, counted: Slots): Promise<void> {
      const starts = periods.map((period) => {
        const { start } = counted[period]
        return start === null || !caps.has(period) ? null : new Date(start)
      })
      const values = [user.tenant, userKey(user.id), resource, metric, amount, ...starts]
      await engine.text(uncountStatement, values, { tenant: tenantRef(user.tenant) })
    },

    /** null if the tenant has no limits, or no longer exists. */
    async read ({ tenant, id }: LimitedUser, resource: string, metric: string): Promise<RefusedCount | null> {
      const text = await engine.text(lookStatement, [tenant, userKey(id), resource, metric], { tenant: tenantRef(tenant) })
      if (text === null) return null
      const [counters, ...values]: [number, ...(number | null)[]] = JSON.parse(text)
      // The amounts of a row are never null.
      return { counters, slots: values[1] === null ? null : slotsOf(values) }
    },

    async used ({ tenant, id }: LimitedUser): Promise<readonly UsedResource[]> {
      const text = await engine.text(usedStatement, [tenant, userKey(id)], { tenant: tenantRef(tenant) })
      const rows: [string, string, ...(number | null)[]][] = text === null ? [] : JSON.parse(text)
      return rows.map(([resource, metric, ...values]) => ({ resource, metric, slots: slotsOf(values) }))
    },

    /** Replaces the rules, and removes the usage of resources and metrics that no rule names. */
    async write (writer: SystemTransaction, tenant: Owner, rules: readonly Rule[], at: Date): Promise<void> {
      const totals = rules.filter(({ period }) => period === 'total')
      // Locks usage rows before the tenant's row, as every statement does, to avoid deadlocks.
      const gone = await sql`delete from tenantry.resource_usage where tenant_id = ${tenant} and not ${isNamed(rules)}`.execute(writer)
      await sql`update tenantry.resource_usage set total_start = null, total_amount = 0, ends_at = ${new Date(at.getTime() + kept)}
        where tenant_id = ${tenant} and ends_at = 'infinity' and not ${isNamed(totals)}`.execute(writer)
      await sql`insert into tenantry.resource_limits as l (tenant_id, rules, updated_at) values (${tenant}, ${JSON.stringify(rules)}, ${at})
        on conflict (tenant_id) do update set rules = excluded.rules, updated_at = excluded.updated_at, counters = greatest(0, l.counters - ${
        Number(gone.numAffectedRows ?? 0n)
      })`.execute(writer)
    }
  }
}

function isNamed (rules: readonly Rule[]) {
  return sql`(resource, metric) in (select * from unnest(${rules.map(({ resource }) => resource)}::text[], ${rules.map(({ metric }) => metric)}::text[]))`
}

/** The stored id of a user: a digest if the id is long, or contains characters that the database cannot store. */
function userKey (id: string): string {
  return id.length <= maxUserLength && isStorable(id) ? id : `sha256:${hash('sha256', Buffer.from(id, 'utf16le'))}`
}

const key = 'tenant_id = $1 and user_id = $2 and resource = $3 and metric = $4'

/** The beginning, in milliseconds since 1970, and the amount of each period in the row. */
const slotColumns = periods.map((period) => `(extract(epoch from u.${period}_start) * 1000)::bigint, u.${period}_amount`).join(', ')

/** A period in the counting statement: its columns, its two parameters, and whether the slot still holds it. */
const counted = periods.map((period, index) => {
  const [start, cap] = [`$${9 + 2 * index}::timestamptz`, `$${10 + 2 * index}::bigint`]
  return { period, start, cap, isCurrent: `u.${period}_start between ${start} and $6::timestamptz` }
})

/**
 * $1 to $4: the row; $5: the amount; $6: the latest beginning of a slot that still counts; $7: the end of all periods; $8: the
 * maximum of the tenant's rows. Then for each period its beginning (null if it is not counted) and its maximum. A new row has
 * no xmax; an existing row has that of the lock which the conflict took.
 */
const countStatement: Statement = {
  name: 'limits_count',
  text: `with known as (select from tenantry.resource_usage where ${key}), taken as (
  insert into tenantry.resource_usage as u (tenant_id, user_id, resource, metric, ends_at, ${
    counted.map(({ period }) => `${period}_start, ${period}_amount`).join(', ')
  })
  select l.tenant_id, $2, $3, $4, $7::timestamptz, ${counted.map(({ start }) => `${start}, case when ${start} is null then 0 else $5::bigint end`).join(', ')}
  from tenantry.resource_limits l where l.tenant_id = $1 and (l.counters < $8::int or exists (select from known))
  on conflict (tenant_id, user_id, resource, metric) do update set ends_at = greatest(u.ends_at, excluded.ends_at),
    ${
    counted.map(({ period, start, isCurrent }) =>
      `${period}_start = case when ${start} is null or ${isCurrent} then u.${period}_start else excluded.${period}_start end,
    ${period}_amount = case when ${start} is null then u.${period}_amount when ${isCurrent} then u.${period}_amount + $5::bigint else $5::bigint end`
    ).join(',\n    ')
  }
  where ${
    counted.map(({ period, start, cap, isCurrent }) =>
      `(${start} is null or case when ${isCurrent} then u.${period}_amount else 0 end + $5::bigint <= ${cap})`
    ).join(' and ')
  }
  returning u.xmax = 0 as made, json_build_array(${slotColumns})::text as slots
), made as (
  update tenantry.resource_limits set counters = counters + 1 where tenant_id = $1 and exists (select from taken where made)
)
select slots from taken`
}

/** $1 to $4: the row; $5: the amount; then for each period the beginning of the slot, null if it was not counted. */
const uncountStatement: Statement = {
  name: 'limits_uncount',
  text: `update tenantry.resource_usage set ${
    periods.map((period, index) =>
      `${period}_amount = case when ${period}_start = $${6 + index}::timestamptz then greatest(${period}_amount - $5::bigint, 0) else ${period}_amount end`
    ).join(', ')
  }
where ${key}`
}

const lookStatement: Statement = {
  name: 'limits_look',
  isRead: true,
  text: `select json_build_array(l.counters, ${slotColumns})::text from tenantry.resource_limits l
left join tenantry.resource_usage u on u.tenant_id = l.tenant_id and u.user_id = $2 and u.resource = $3 and u.metric = $4
where l.tenant_id = $1`
}

const usedStatement: Statement = {
  name: 'limits_used',
  isRead: true,
  text: `select json_agg(json_build_array(u.resource, u.metric, ${slotColumns}))::text from tenantry.resource_usage u where u.tenant_id = $1 and u.user_id = $2`
}

const clockMargin = dayMs // for which a row stays after its last period, since servers' clocks differ

/** Sweeps once; false if another server is sweeping now. */
export function sweepUsage (db: Kysely<SystemTables>, at: Date): Promise<boolean> {
  return sweep(db, 'tenantry.resource_usage.sweep', [(transaction) => deleteEnded(transaction, new Date(at.getTime() - clockMargin))])
}

/** Resolves with whether there may be more. */
async function deleteEnded (db: Kysely<SystemTables>, before: Date): Promise<boolean> {
  const { rows: [row] } = await sql<{ count: number }>`with ended as (
    select tenant_id, user_id, resource, metric from tenantry.resource_usage where ends_at <= ${before} limit ${maxRows} for update skip locked
  ), gone as (
    delete from tenantry.resource_usage u using ended e
    where u.tenant_id = e.tenant_id and u.user_id = e.user_id and u.resource = e.resource and u.metric = e.metric returning u.tenant_id
  ), counted as (
    update tenantry.resource_limits l set counters = greatest(0, l.counters - g.rows)
    from (select tenant_id, count(*)::int as rows from gone group by tenant_id) g where l.tenant_id = g.tenant_id
  ) select count(*)::int as count from gone`.execute(db)
  return (row?.count ?? 0) >= maxRows
}
