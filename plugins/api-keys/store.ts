/** The text and the SQL of API keys. */
import { randomBytes } from 'node:crypto'
import { type Kysely, type RawBuilder, type Selectable, sql } from 'kysely'
import type { KeyUse } from '../../lib/concurrency/use-counter.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import type { Claims } from '../../lib/expressions/types.js'
import { apiKeyIdOf, keyTextIdOf, keyTextOf } from '../../lib/identity/api-key-claims.js'
import { type Owner, type TenantId, tenantIdOf } from '../../lib/identity/tenant-ref.js'

const secretBytes = 32
const form = /^tnt_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})_[A-Za-z0-9_-]{43}$/

/** A new key with this id; each call creates another secret. */
export function createKeyText (id: string): string {
  return `tnt_${id}_${randomBytes(secretBytes).toString('base64url')}`
}

/** The id in the text; null for a text that cannot be a tenant's key. */
export function idOf (text: string): string | null {
  return form.exec(text)?.[1] ?? null
}

/** The `sub` of callers with the key. */
export function subOfKey (id: string): string {
  return `api-key:${id}`
}

/** The ids in `made`: the keys that the caller created or rotated, and the keys created or rotated with these. */
function withMade (tenant: Owner, sub: string): RawBuilder<unknown> {
  return sql`with recursive made as (
      select id from tenantry.api_keys where tenant_id = ${tenant} and ${sub} = any (rotated_by || created_by)
      union select k.id from tenantry.api_keys k join made on ${subOfKey('')} || made.id::text = any (k.rotated_by || k.created_by) where k.tenant_id = ${tenant}
    )`
}

/** Whether the caller sent a key that the user created or rotated, directly or with other keys. */
export async function isKeyOf (reader: Kysely<SystemTables>, tenant: Owner, sub: string, claims: Claims): Promise<boolean> {
  const id = apiKeyIdOf(claims)
  if (id === undefined) return false
  const { rows } = await sql`${withMade(tenant, sub)} select from made where id = ${id}`.execute(reader)
  return rows.length > 0
}

/** Removes the keys that the caller created or rotated, and the keys created or rotated with these; returns the ids of all. */
export async function deleteKeysOf (writer: SystemTransaction, tenant: Owner, sub: string): Promise<string[]> {
  await lockKeys(writer, tenant)
  const { rows } = await sql<{ id: string }>`${withMade(tenant, sub)}
    delete from tenantry.api_keys where tenant_id = ${tenant} and id in (select id from made) returning id`.execute(writer)
  return rows.map(({ id }) => id)
}

/** The time at which the key text of the caller ends; null for one without an end, and for other callers. */
export async function endOfCaller (reader: Kysely<SystemTables>, tenant: Owner, claims: Claims): Promise<Date | null> {
  const id = apiKeyIdOf(claims)
  if (id === undefined) return null
  const row = await reader.selectFrom('tenantry.api_keys').select(['hash', 'previous_valid_until', 'expires_at'])
    .where('tenant_id', '=', tenant).where('id', '=', id).executeTakeFirst()
  if (row === undefined) return null
  // A replaced text never outlives its key.
  return keyTextIdOf(row.hash) === keyTextOf(claims) ? row.expires_at : row.previous_valid_until
}

/** In the order of `writeUses`: a deletion of several keys must not wait for it while it waits for the deletion. */
async function lockKeys (writer: SystemTransaction, tenant: Owner): Promise<void> {
  await writer.selectFrom('tenantry.api_keys').select('id').where('tenant_id', '=', tenant).orderBy('id').forUpdate().execute()
}

export type KeyRow = Omit<Selectable<SystemTables['tenantry.api_keys']>, 'tenant_id'>

export type ApiKeyStore = ReturnType<typeof createApiKeyStore>

export function createApiKeyStore (db: Kysely<SystemTables>) {
  return {
    /** The tenant of a key: a key names its tenant by its id alone. */
    async tenantOf (id: string): Promise<TenantId | null> {
      const row = await db.selectFrom('tenantry.api_keys').select('tenant_id').where('id', '=', id).executeTakeFirst()
      return row === undefined ? null : tenantIdOf(row.tenant_id)
    },

    /** All keys of the tenant, the oldest first. */
    async read (tenant: Owner, reader: Kysely<SystemTables> = db): Promise<KeyRow[]> {
      return await reader.selectFrom('tenantry.api_keys').select(columns).where('tenant_id', '=', tenant).orderBy('created_at')
        .orderBy('id').execute()
    },

    /** The number of the tenant's keys, locked until the transaction ends; null if there is no such tenant. */
    async lockedCount (writer: SystemTransaction, tenant: Owner): Promise<number | null> {
      if (!await lockTenant(writer, tenant, 'alone')) return null
      const { count } = await writer.selectFrom('tenantry.api_keys').select(sql<number>`count(*)::integer`.as('count'))
        .where('tenant_id', '=', tenant).executeTakeFirstOrThrow()
      return count
    },

    async insert (
      writer: SystemTransaction,
      tenant: Owner,
      key: Pick<KeyRow, 'id' | 'name' | 'hash' | 'scopes' | 'created_by' | 'created_at' | 'expires_at'>
    ): Promise<void> {
      await writer.insertInto('tenantry.api_keys').values({ ...key, tenant_id: tenant }).execute()
    },

    /** The key, locked until the transaction ends. */
    async locked (writer: SystemTransaction, tenant: Owner, id: string): Promise<KeyRow | undefined> {
      return await writer.selectFrom('tenantry.api_keys').select(columns).where('tenant_id', '=', tenant).where('id', '=', id).forUpdate()
        .executeTakeFirst()
    },

    async replaceHash (
      writer: SystemTransaction,
      tenant: Owner,
      id: string,
      hashes: Pick<KeyRow, 'hash' | 'previous_hash' | 'previous_valid_until' | 'rotated_by'>
    ): Promise<void> {
      await writer.updateTable('tenantry.api_keys').set(hashes).where('tenant_id', '=', tenant).where('id', '=', id).execute()
    },

    /** Returns the id as it was stored; undefined if there was no such key. */
    async delete (writer: SystemTransaction, tenant: Owner, id: string): Promise<string | undefined> {
      await lockKeys(writer, tenant)
      const row = await writer.deleteFrom('tenantry.api_keys').where('tenant_id', '=', tenant).where('id', '=', id).returning('id')
        .executeTakeFirst()
      return row?.id
    },

    /** Other servers need no notice. Rows are locked in one order, so that two servers never wait for each other. */
    async writeUses (uses: readonly KeyUse[]): Promise<void> {
      const column = <Name extends keyof KeyUse>(name: Name) => uses.map((use) => use[name])
      await sql`update tenantry.api_keys k set last_used_at = u.at
from (
  select l.id, l.tenant_id, n.at from tenantry.api_keys l
  join unnest(${column('key')}::uuid[], ${column('tenant')}::text[], ${column('lastAt')}::timestamptz[]) as n (id, tenant_id, at) on n.id = l.id and n.tenant_id = l.tenant_id
  order by l.id for no key update of l
) u
where k.id = u.id and k.tenant_id = u.tenant_id and (k.last_used_at is null or k.last_used_at < u.at)`.execute(db)
    }
  }
}

const columns = [
  'id', 'name', 'hash', 'previous_hash', 'previous_valid_until', 'scopes', 'created_by', 'rotated_by', 'created_at',
  'expires_at', 'last_used_at'
] as const
