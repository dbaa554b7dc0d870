/** The SQL of figures of requests. */
import { randomUUID } from 'node:crypto'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { isCreatedAt } from '../../lib/database/tenant-life.js'
import { type Owner, platformRef, startOfLife, type TenantLife, tenantOfLife } from '../../lib/identity/tenant-ref.js'
import { maxRetentionDays } from '../../lib/schema/analytics.js'
import { dayMs } from '../../lib/time/spans.js'
import type { Batch, CountedTenant } from './buffer.js'
import { durationOf, otherRoutes } from './lines.js'

/** The most rows of an hour that name a route. Further routes share rows of `otherRoutes`. */
const maxRows = { tenant: 200, platform: 2000 }
export const maxRoutes = 1000 // of a summary
const writersKept = dayMs // ms since the last batch: retries never take that long

interface RouteFigures {
  readonly method: string
  readonly route: string
  readonly count: number
  /** The share of failures: 0 to 1. */
  readonly errorRate: number
  /** Milliseconds. */
  readonly p50: number
  readonly p95: number
  readonly p99: number
}

export interface Figures {
  readonly total: number
  readonly errors: number
  readonly errorRate: number
  /** By their count, at most a thousand. */
  readonly routes: readonly RouteFigures[]
}

export interface Range {
  readonly from: Date
  /** Exclusive. */
  readonly until: Date
}

export type StatsStore = ReturnType<typeof createStatsStore>

interface ReadRow extends Omit<RouteFigures, 'errorRate'> {
  readonly errors: number
  readonly total: number
  readonly failed: number
}

/** `service` is the name of this server's figures. */
export function createStatsStore (db: Kysely<SystemTables>, service: string) {
  const writer = randomUUID()
  const stats = sql.raw('tenantry.request_stats')
  // A later tenant of the same id does not get the figures.
  const isOfLife = sql`live.id = g.tenant_id and ${isCreatedAt(sql`live.created_at`, sql`g.since`)}`

  /** Lines, whether they have a row for the hour, and their rank among their tenant's new ones. */
  function ranked (lines: RawBuilder<unknown>, start: Date) {
    return sql`select l.*, s.there is not null as stored, dense_rank() over (partition by l.tenant_id, s.there is not null order by l.method, l.route, l.status) as place
        from (${lines}) l left join lateral (
          select true as there from ${stats} s where s.tenant_id = l.tenant_id and s.hour = ${start} and s.service = ${service}
            and s.method = l.method and s.route = l.route and s.status = l.status limit 1
        ) s on true`
  }

  /** Lines with their stored route: their own if that is certain, or there is room for another row. */
  function placed (lines: RawBuilder<unknown>, isCertain: RawBuilder<unknown>, max: number, start: Date) {
    return sql`select r.*, case
          when ${isCertain} then route
          when place + (select count(*) from (select from ${stats} s where s.tenant_id = r.tenant_id and s.hour = ${start} and s.route <> ${otherRoutes} limit ${max}::int) had) <= ${max}::int then route
          else ${otherRoutes}::text end as kept
        from ${lines} r`
  }

  return {
    /** Adds a batch to the figures of its tenants and of the platform, unless it was added already. */
    async write ({ number, hour, sums }: Batch, at: Date): Promise<void> {
      const given = JSON.stringify(sums.map(({ tenant, line, buckets }) => ({
        ...keysOf(tenant),
        method: line.method,
        route: line.route,
        status: line.status,
        own: line.own,
        buckets: [...buckets.keys()],
        counts: [...buckets.values()]
      })))
      const start = new Date(hour)
      // Rows are written in the order of their key, so that servers do not deadlock. The lock on the tenants' rows excludes their deletion:
      // a tenant that is being deleted gets no row that nothing would remove. The platform's figures name a route of a tenant only if
      // the tenant's own figures name it: no tenant can fill them alone. Each `limit` keeps the planner on the index, since it has no
      // statistics of an hour that has just begun.
      await sql`with batch as (
        insert into tenantry.request_stats_writers as w (id, batch, written_at) values (${writer}, ${number}, ${at})
        on conflict (id) do update set batch = excluded.batch, written_at = excluded.written_at where w.batch < excluded.batch returning 1
      ), given as materialized (
        select g.* from jsonb_to_recordset(${given}::jsonb) as g (tenant_id text, since bigint, method text, route text, status smallint, own boolean, buckets smallint[], counts bigint[])
        where exists (select from batch)
      ), live as materialized (
        select id, created_at from tenantry.tenants where id in (select tenant_id from given) and status <> 'deleting'
        order by id for key share
      ), tenants_ranked as (
        ${ranked(sql`select g.* from given g join live on ${isOfLife}`, start)}
      ), tenants_placed as (
        ${placed(sql`tenants_ranked`, sql`stored`, maxRows.tenant, start)}
      ), platform_ranked as (
        ${
        ranked(
          sql`
          select '' as tenant_id, method, case when own then kept else route end as route, status, own and kept <> ${otherRoutes} as own, buckets, counts from tenants_placed
          union all select '', method, case when own and tenant_id <> '' then ${otherRoutes} else route end, status, own and tenant_id = '', buckets, counts from given g
          where not exists (select from live where ${isOfLife})`,
          start
        )
      }
      ), platform_placed as (
        ${placed(sql`platform_ranked`, sql`stored or not own`, maxRows.platform, start)}
      ), merged as (
        select tenant_id, method, kept as route, status, bucket, sum(n)::bigint as n
        from (select tenant_id, method, kept, status, buckets, counts from tenants_placed union all select tenant_id, method, kept, status, buckets, counts from platform_placed) p, unnest(buckets, counts) as h (bucket, n) group by 1, 2, 3, 4, 5
      )
      insert into ${stats} as s (tenant_id, hour, service, method, route, status, count, buckets, counts)
      select tenant_id, ${start}::timestamptz, ${service}::text, method, route, status, sum(n), array_agg(bucket order by bucket), array_agg(n order by bucket)
      from merged group by tenant_id, method, route, status order by tenant_id, method, route, status
      on conflict (tenant_id, hour, service, method, route, status) do update set count = s.count + excluded.count, (buckets, counts) = (
        select array_agg(bucket order by bucket), array_agg(n order by bucket) from (
          select bucket, sum(n)::bigint as n from (
            select * from unnest(s.buckets, s.counts) union all select * from unnest(excluded.buckets, excluded.counts)
          ) both_of (bucket, n) group by bucket
        ) added
      )`.execute(db)
    },
    /** For the hours that begin in the period. The platform's figures are those of all requests, including those without a tenant. */
    async read ({ tenant, from, until }: Range & { readonly tenant: Owner }): Promise<Figures> {
      // A percentile is the first bucket up to which there are as many requests.
      const { rows } = await sql<ReadRow>`with asked as not materialized (
        select method, route, status, count, buckets, counts from ${stats}
        where tenant_id = ${tenant} and hour >= ${time(from)} and hour < ${time(until)} and service = ${service}
      ), routes as materialized (
        select method, route, sum(count) as count, coalesce(sum(count) filter (where status >= 500), 0) as errors,
          sum(sum(count)) over () as total, sum(coalesce(sum(count) filter (where status >= 500), 0)) over () as failed
        from asked group by method, route order by sum(count) desc, route, method limit ${maxRoutes}
      ), reached as (
        select method, route, bucket, sum(sum(n)) over (partition by method, route order by bucket) as upto
        from asked join routes using (method, route), unnest(buckets, counts) as h (bucket, n) group by method, route, bucket
      )
      select method, route, r.count::float8, r.errors::float8, r.total::float8, r.failed::float8,
        min(bucket) filter (where upto >= r.count * 0.5) as p50, min(bucket) filter (where upto >= r.count * 0.95) as p95, min(bucket) filter (where upto >= r.count * 0.99) as p99
      from routes r join reached using (method, route) group by method, route, r.count, r.errors, r.total, r.failed order by r.count desc, route, method`
        .execute(db)
      const { total = 0, failed = 0 } = rows[0] ?? {}
      return {
        total,
        errors: failed,
        errorRate: rate(failed, total),
        routes: rows.map(({ method, route, count, errors, p50, p95, p99 }) => ({
          method,
          route,
          count,
          errorRate: rate(errors, count),
          p50: durationOf(p50),
          p95: durationOf(p95),
          p99: durationOf(p99)
        }))
      }
    },
    /** Removes the hours that begin before the date; false if another server does so now. */
    async sweep (before: Date, at: Date): Promise<boolean> {
      const ended = new Date(at.getTime() - writersKept)
      return await sweep(db, `tenantry.request_stats.sweep ${service}`, [
        removal('tenantry.request_stats', sql`hour < ${before} and service = ${service}`),
        // Figures of a former name, which no service maintains.
        removal('tenantry.request_stats', sql`hour < ${new Date(at.getTime() - maxRetentionDays * dayMs)}`),
        removal('tenantry.request_stats_writers', sql`written_at < ${ended}`)
      ])
    }
  }
}

/** The columns of a tenant in a batch. */
function keysOf (tenant: CountedTenant) {
  return isLife(tenant) ? { tenant_id: tenantOfLife(tenant), since: startOfLife(tenant) } : { tenant_id: platformRef, since: null }
}

function isLife (tenant: CountedTenant): tenant is TenantLife {
  return tenant !== platformRef
}

/** As a number: the database cannot parse the text of a date past the year 9999. */
function time (date: Date) {
  return sql`to_timestamp(${date.getTime() / 1000}::float8)`
}

function rate (part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole
}
