/** The database's list of tenants' tables whose changes triggers record (lib/database/migrations/system/realtime-triggers.ts). */
import { type Kysely, sql } from 'kysely'
import { writerMark } from '../../lib/database/session.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { positionLock } from './store.js'

export interface TenantTable {
  readonly tenant: Owner
  readonly table: string
}

/** All changes after `start` are recorded. null: a transaction may still write without a record. */
export interface RecordedTable extends TenantTable {
  readonly start: number | null
}

export type RecordedStore = ReturnType<typeof createRecordedStore>

export function createRecordedStore (db: Kysely<SystemTables>) {
  /** Serializes changes of the entries and their filter, which must agree. */
  async function alone<Result> (work: (transaction: SystemTransaction) => Promise<Result>): Promise<Result> {
    return await db.transaction().execute(async (transaction) => {
      await sql`select pg_advisory_xact_lock(hashtextextended('tenantry.realtime_recorded', 0))`.execute(transaction)
      return await work(transaction)
    })
  }

  return {
    /** Records the tables for at least these seconds. When this resolves, new transactions of writers see the entries. */
    async enter (tables: readonly TenantTable[], seconds: number): Promise<RecordedTable[]> {
      const asked = askedFor(tables)
      return await alone(async (transaction) => {
        // An expired entry, or one missing from the filter, may have missed changes.
        const { rows } = await sql<RecordedTable>`
          insert into tenantry.realtime_recorded as r (tenant_id, table_name, until)
          select tenant_id, table_name, clock_timestamp() + make_interval(secs => ${seconds}::int) from ${asked} order by 1, 2
          on conflict (tenant_id, table_name) do update set until = greatest(r.until, excluded.until),
            start = case when r.until > clock_timestamp() and tenantry.is_recorded(r.tenant_id, r.table_name) then r.start end
          returning tenant_id as tenant, table_name as "table", start::float8 as start`.execute(transaction)
        await sql`
          select setval(filter, coalesce(pg_sequence_last_value(filter), 0) | bits) from (
            select tenantry.realtime_filter(tenant_id, table_name) as filter, bit_or(tenantry.realtime_bit(tenant_id, table_name)) as bits from ${asked} group by 1) f
          where coalesce(pg_sequence_last_value(filter), 0) & bits <> bits`.execute(transaction)
        return rows
      })
    },

    /**
     * Transactions that now hold a writer's lock on the tables or their partitions: they have written, or may be about to. Those with the
     * mark of a tenant are returned for its tables only. The others are returned with null, for every tenant: also those that write to a
     * table without tenants, whose foreign keys may cascade to rows of any tenant.
     */
    async writers (schema: string, tables: readonly TenantTable[]) {
      const { rows } = await sql<{ readonly tenant: Owner | null, readonly table: string, readonly writer: string }>`
        with locks as materialized (
          select * from pg_locks
          where database = (select oid from pg_database where datname = current_database())
          and granted and pid is distinct from pg_backend_pid()
        ), asked as materialized (
          select * from ${askedFor(tables)}
        ), writing as (
          select distinct c.relname as table_name, l.virtualtransaction as writer
          from pg_class c, lateral (select c.oid as relid union select relid from pg_partition_tree(c.oid)) t, locks l
          where c.relnamespace = (select oid from pg_namespace where nspname = ${schema}) and c.relname in (select table_name from asked)
          and l.locktype = 'relation' and l.relation = t.relid and l.mode = 'RowExclusiveLock'
        ), wide as (
          select l.virtualtransaction from locks l join pg_class c on c.oid = l.relation
          where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and c.relkind in ('r', 'p')
          and c.relnamespace = (select oid from pg_namespace where nspname = ${schema})
          and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped)
        ), marks as (
          select virtualtransaction as writer, objid from locks
          where virtualtransaction not in (select virtualtransaction from wide) and locktype = 'advisory' and objsubid = 2 and classid::bigint = ${unsigned(writerMark)}
        )
        select null as tenant, table_name as "table", writer from writing where writer not in (select writer from marks)
        union all
        select tenant_id, table_name, writer from writing join marks using (writer) join asked using (table_name)
        where objid::bigint = ${unsigned('hashtext(tenant_id)')}`
        .execute(db)
      return rows
    },

    /** Marks the tables as recorded from now on. The start of an entry is a new position, which no client has. */
    async settle (tables: readonly TenantTable[]): Promise<RecordedTable[]> {
      return await alone(async (transaction) => {
        await sql`select pg_advisory_xact_lock(hashtextextended(${positionLock}, 0))`.execute(transaction)
        const { rows } = await sql<RecordedTable>`
          with asked as (select * from ${askedFor(tables)}), heads as (
            insert into tenantry.realtime_heads as h (tenant_id, position, stamp)
            select tenant_id, 1, nextval('tenantry.realtime_stamps') from (select distinct tenant_id from asked order by 1) t
            on conflict (tenant_id) do update set position = h.position + 1, stamp = excluded.stamp
            returning h.tenant_id, h.position
          )
          update tenantry.realtime_recorded r set start = coalesce(r.start, heads.position) from asked join heads using (tenant_id)
          where r.tenant_id = asked.tenant_id and r.table_name = asked.table_name
          returning r.tenant_id as tenant, r.table_name as "table", r.start::float8 as start`.execute(transaction)
        return rows
      })
    },

    /** Deletes expired entries, and closes the gates of tables without entries. */
    async sweep (): Promise<void> {
      await alone(async (transaction) => {
        await sql`delete from tenantry.realtime_recorded where until < clock_timestamp()`.execute(transaction)
        await sql`
          select setval(filter, bits) from (
            select filter, coalesce(bits, 0) as bits from unnest(tenantry.realtime_filters()) filter left join (
              select tenantry.realtime_filter(tenant_id, table_name) as filter, bit_or(tenantry.realtime_bit(tenant_id, table_name)) as bits
              from tenantry.realtime_recorded group by 1) kept using (filter)) f
          where coalesce(pg_sequence_last_value(filter), 0) <> bits`.execute(transaction)
        await sql`
          select setval(gate, 0) from unnest(tenantry.realtime_gates()) gate
          where pg_sequence_last_value(gate) <> 0
          and not exists (select from tenantry.realtime_recorded where tenantry.realtime_gate(table_name) = gate)`.execute(transaction)
      })
    }
  }
}

function askedFor (tables: readonly TenantTable[]) {
  return sql`unnest(${tables.map(({ tenant }) => tenant)}::text[], ${tables.map(({ table }) => table)}::text[]) as a (tenant_id, table_name)`
}

/** The hash as `pg_locks` shows it. */
function unsigned (hash: string) {
  return sql.raw(`(${hash}::bigint & 4294967295)`)
}
