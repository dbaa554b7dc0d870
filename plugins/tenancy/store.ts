/** The SQL of tenants. */
import { type Kysely, type Selectable, sql } from 'kysely'
import { containsText } from '../../lib/database/sql.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import type { Page } from '../../lib/http/page.js'
import { lifeOf, type Owner, type TenantId, tenantIdOf } from '../../lib/identity/tenant-ref.js'
import { parseJson } from '../../lib/json/parse.js'
import { deepFreeze, isRecord } from '../../lib/json/plain-value.js'
import { dayMs } from '../../lib/time/spans.js'
import type { Erasure } from './erasure.js'
import type { Tenant, TenantLookup, TenantRecord } from './tenant.js'

type Row = Pick<Selectable<SystemTables['tenantry.tenants']>, 'id' | 'name' | 'plan' | 'status' | 'created_at'>

/** The properties of a tenant that the platform changes. */
export interface TenantChanges {
  readonly name?: string | undefined
  readonly plan?: string | undefined
  readonly status?: 'active' | 'suspended' | undefined
}

/** A page of tenants; omitted filters match all. */
export interface TenantList extends Page {
  readonly status?: TenantRecord['status'] | undefined
  readonly plan?: string | undefined
  /** A text in the id or the name, in any case. */
  readonly search?: string | undefined
}

export type TenantStore = ReturnType<typeof createTenantStore>

const columns = ['id', 'name', 'plan', 'status', 'created_at'] as const

interface FoundRow extends Omit<Row, 'id' | 'name'> {
  readonly name: string | null
  /** JSON. */
  readonly settings: string | null
  readonly deleted_at: Date | null
}

export function createTenantStore (db: Kysely<SystemTables>) {
  /** The last tenant of `longDeleted`; its time as text, which keeps all digits. */
  let last: { readonly id: string, readonly at: string } | undefined

  return {
    async find (id: Owner): Promise<TenantLookup> {
      const { rows: [row] } = await sql<FoundRow>`
        select t.name, t.plan, t.status, t.created_at, d.deleted_at,
          (select c.settings::text from tenantry.tenant_configs c where c.tenant_id = t.id order by c.version desc limit 1) as settings
        from (select ${id}::text as id) asked
        left join tenantry.tenants t on t.id = asked.id left join tenantry.deleted_tenants d on d.id = asked.id`.execute(db)
      const tenant = row === undefined || row.name === null ? null : tenantOf({ ...row, id, name: row.name }, row.settings)
      return Object.freeze({ tenant, deletedAt: row?.deleted_at ?? null, characters: row?.settings?.length ?? 0 })
    },
    async list ({ limit, offset, status, plan, search }: TenantList): Promise<{ data: TenantRecord[], total: number }> {
      let found = db.selectFrom('tenantry.tenants')
      if (status !== undefined) found = found.where('status', '=', status)
      if (plan !== undefined) found = found.where('plan', '=', plan)
      if (search !== undefined) found = found.where(containsText(search, 'id', 'name'))
      const [rows, count] = await Promise.all([
        found.select(columns).orderBy('id').limit(limit).offset(offset).execute(),
        found.select(({ fn }) => fn.countAll<string>().as('total')).executeTakeFirstOrThrow()
      ])
      return { data: rows.map(recordOf), total: Number(count.total) }
    },
    async read (id: TenantId): Promise<TenantRecord | null> {
      const row = await db.selectFrom('tenantry.tenants').select(columns).where('id', '=', id).executeTakeFirst()
      return row === undefined ? null : recordOf(row)
    },
    /** null, without a write, if the id is taken. Waits for a concurrent write or removal of the tenant. */
    async insert (writer: SystemTransaction, tenant: { id: TenantId, name: string, plan: string }): Promise<TenantRecord | null> {
      const row = await writer.insertInto('tenantry.tenants').values(tenant).onConflict((conflict) => conflict.doNothing())
        .returning(columns).executeTakeFirst()
      return row === undefined ? null : recordOf(row)
    },
    /** null if it does not exist or is being deleted. */
    async update (writer: SystemTransaction, id: TenantId, changes: TenantChanges): Promise<TenantRecord | null> {
      const row = await writer.updateTable('tenantry.tenants').set({ ...changes, updated_at: sql`now()` })
        .where('id', '=', id).where('status', '<>', 'deleting').returning(columns).executeTakeFirst()
      return row === undefined ? null : recordOf(row)
    },
    /** Marks it as being deleted. Returns false if the tenant does not exist or is already marked. */
    async close (writer: SystemTransaction, id: TenantId): Promise<boolean> {
      const row = await writer.updateTable('tenantry.tenants').set({ status: 'deleting', updated_at: sql`now()` }).where('id', '=', id)
        .where('status', '<>', 'deleting').returning('id').executeTakeFirst()
      return row !== undefined
    },
    /** Ids of tenants that are being deleted, the longest untried first. The next call begins with others. */
    async deleting (limit: number): Promise<TenantId[]> {
      const { rows } = await sql<{ id: string }>`update tenantry.tenants set updated_at = clock_timestamp() where id = any (array(
        select id from tenantry.tenants where status = 'deleting' order by updated_at, id limit ${limit} for update skip locked)) returning id`
        .execute(db)
      return rows.map(({ id }) => tenantIdOf(id))
    },
    /** Removes a marked tenant, and records its id and the time. Returns false if there is no such tenant. */
    async remove (writer: SystemTransaction, id: TenantId, at: Date): Promise<boolean> {
      const row = await writer.deleteFrom('tenantry.tenants').where('id', '=', id).where('status', '=', 'deleting').returning('id')
        .executeTakeFirst()
      if (row === undefined) return false
      await writer.insertInto('tenantry.deleted_tenants').values({ id, deleted_at: at })
        .onConflict((conflict) =>
          conflict.column('id').doUpdateSet((row) => ({
            deleted_at: sql<Date>`greatest(${row.ref('tenantry.deleted_tenants.deleted_at')}, ${row.ref('excluded.deleted_at')})`
          }))
        ).execute()
      return true
    },
    /** The time of the last deletion of a tenant with the id. */
    async deletedAt (writer: SystemTransaction, id: TenantId): Promise<Date | null> {
      const row = await writer.selectFrom('tenantry.deleted_tenants').select('deleted_at').where('id', '=', id).executeTakeFirst()
      return row?.deleted_at ?? null
    },
    /** Ids of tenants that were deleted before that time and not created again, oldest first. The next call continues behind them. */
    async longDeleted (before: Date, limit: number): Promise<TenantId[]> {
      const rest = last === undefined ? sql`true` : sql`(d.deleted_at, d.id) > (${last.at}::timestamptz, ${last.id})`
      const { rows } = await sql<{ id: string, at: string }>`select d.id, d.deleted_at::text as at from tenantry.deleted_tenants d
        where d.deleted_at < ${before} and ${notCreatedAgain} and ${rest} order by d.deleted_at, d.id limit ${limit}`.execute(db)
      last = rows.length < limit ? undefined : rows.at(-1)
      return rows.map(({ id }) => tenantIdOf(id))
    },
    /** Removes the record of a deletion, unless the tenant was created again or deleted later. */
    async forget (id: TenantId, before: Date): Promise<void> {
      await db.deleteFrom('tenantry.deleted_tenants as d').where('d.id', '=', id).where('d.deleted_at', '<', before).where(notCreatedAgain)
        .execute()
    }
  }
}

/** Whether no tenant has the id of the row `d`. */
const notCreatedAgain = sql<boolean>`not exists (select from tenantry.tenants t where t.id = d.id)`

function recordOf ({ id, name, plan, status, created_at: createdAt }: Row): TenantRecord {
  return { id: tenantIdOf(id), name, plan, status, createdAt }
}

function tenantOf (row: Row, text: string | null): Tenant {
  const settings: unknown = text === null ? null : parseJson(text)
  const record = recordOf(row)
  return Object.freeze({ ...record, life: lifeOf(record), config: isRecord(settings) ? deepFreeze(settings) : noSettings })
}

const noSettings = Object.freeze({})

const maxForgotten = 100 // tenants an hour: each needs a statement for every table
const clockDifference = dayMs // ms of clock difference between servers and issuers, with a large margin

/**
 * Removes the ids of deleted tenants, which prevent older tokens from entering a later tenant with the id. Ids of tenants that exist
 * again stay, because billing compares events with them. Resolves with the number of removed ids.
 *
 * @param maxLifetime of a token, in seconds
 * @param now milliseconds since 1970
 */
export async function forgetDeleted (store: TenantStore, erasure: Erasure, maxLifetime: number, now: number): Promise<number> {
  const before = new Date(now - maxLifetime * 1000 - clockDifference)
  const ids = await store.longDeleted(before, maxForgotten)
  const errors: unknown[] = []
  for (const id of ids) {
    try {
      // Removes rows that a request wrote after the deletion. Without the record, the creation of a tenant would no longer remove them.
      await erasure.sweep(id)
      await store.forget(id, before)
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'some deleted tenants are kept, since rows of them cannot be removed')
  return ids.length
}
