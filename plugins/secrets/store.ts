/** The SQL of secrets. Times come from the caller, so that a single clock is used. */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { KeyUse } from '../../lib/concurrency/use-counter.js'
import { type Actor, writeAudit } from '../../lib/database/audit.js'
import { maxSweptRows, partOf, sweep } from '../../lib/database/retention.js'
import { containsText } from '../../lib/database/sql.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { dayMs } from '../../lib/time/spans.js'

export type SecretAction = 'create' | 'update' | 'access' | 'delete' | 'rotate' | 'expire'

export type SecretRow = NonNullable<Awaited<ReturnType<SecretStore['find']>>>

/** A secret without its value. */
export interface ListedRow {
  readonly key: string
  /** JSON text: it is not parsed, since that takes long for many secrets. */
  readonly metadata: string
  readonly expiresAt: Date | null
  readonly lastAccessedAt: Date | null
  readonly accessCount: number
  readonly createdAt: Date
}

/** A secret with its ciphertexts. */
export interface SealedRow {
  readonly key: string
  readonly version: number
  readonly value: Buffer
  readonly previousValue: Buffer | null
  readonly previousVersion: number | null
  readonly previousValidUntil: Date | null
  readonly expiresAt: Date | null
  readonly expiredAt: Date | null
}

/** The value before an earlier rotation, which is still accepted. */
export type EarlierRow = Awaited<ReturnType<SecretStore['earlier']>>[number]

export interface NewValue {
  readonly version: number
  readonly value: Buffer
  readonly metadata: Readonly<Record<string, unknown>>
  readonly expiresAt: Date | null
  /** When the replaced value ends. Default: now. Earlier values keep their own ends. */
  readonly previousValidUntil?: Date | undefined
}

const maxPage = 1000 // rows of ciphertexts

const noPrevious = { previous_value: null, previous_version: null, previous_valid_until: null } as const

/** Notes the expiry of secrets, and writes it to the audit log. `ended` selects and locks their rows. */
function noteExpired (ended: RawBuilder<unknown>, at: Date): RawBuilder<unknown> {
  return sql`with expired as (
    update tenantry.secrets s set expired_at = ${at} from (${ended}) e where s.tenant_id = e.tenant_id and s.key = e.key returning s.tenant_id, s.key
  ) insert into tenantry.audit_log (tenant_id, target, action, created_at) select tenant_id, key, 'secret.expire', ${at}::timestamptz from expired`
}

export type SecretStore = ReturnType<typeof createSecretStore>

/** On the database, or in one of its transactions. */
export function createSecretStore (db: Kysely<SystemTables>) {
  /** The tenant's secrets that are not deleted; with `search`, only those whose key contains the text. */
  function present (tenant: Owner, search?: string) {
    const all = db.selectFrom('tenantry.secrets').where('tenant_id', '=', tenant).where('deleted_at', 'is', null)
    return search === undefined ? all : all.where(containsText(search, 'key'))
  }

  return {
    /**
     * The plan of the tenant. The lock lasts until the transaction ends, so that its secrets do not change; undefined without such a
     * tenant.
     */
    async lockPlan (tenant: Owner): Promise<string | undefined> {
      const row = await db.selectFrom('tenantry.tenants').select('plan').where('id', '=', tenant).where('status', '!=', 'deleting')
        .forNoKeyUpdate().executeTakeFirst()
      return row?.plan
    },

    /** Also a deleted one. */
    find: (tenant: Owner, key: string) =>
      db.selectFrom('tenantry.secrets').select(['version', 'metadata', 'expires_at as expiresAt', 'deleted_at as deletedAt'])
        .where('tenant_id', '=', tenant).where('key', '=', key).executeTakeFirst(),

    /**
     * `others`: the tenant's other live secrets, and the bytes of their values and metadata. For the key itself: the bytes of its
     * value, and of its earlier values.
     */
    async usage (tenant: Owner, key: string): Promise<{ others: number, bytes: number, own: number, earlier: number }> {
      const other = sql`deleted_at is null and key <> ${key}`
      const stored = sql`coalesce(octet_length(value), 0) + coalesce(octet_length(previous_value), 0) + pg_column_size(metadata)`
      const rotated = (condition: ReturnType<typeof sql>) =>
        sql`coalesce((select sum(octet_length(e.value)) from tenantry.secret_earlier_values e where e.tenant_id = ${tenant} and ${condition}), 0)`
      return await db.selectFrom('tenantry.secrets').select([
        sql<number>`(count(*) filter (where ${other}))::float8`.as('others'),
        sql<number>`coalesce(sum(${stored}) filter (where ${other}), 0)::float8 + ${rotated(sql`e.key <> ${key}`)}::float8`.as('bytes'),
        sql<number>`coalesce(max(octet_length(value)) filter (where key = ${key}), 0)::float8`.as('own'),
        sql<number>`coalesce(max(octet_length(previous_value)) filter (where key = ${key}), 0)::float8 + ${rotated(sql`e.key = ${key}`)}::float8`.as('earlier')
      ]).where('tenant_id', '=', tenant).executeTakeFirstOrThrow()
    },

    /** A text that changes when a secret is stored, rotated or deleted, but not with uses. */
    async state (tenant: Owner): Promise<string> {
      const versions = sql<string>`coalesce(string_agg(key || ' ' || version || ' ' || extract(epoch from updated_at), ',' order by key), '')`
      const { state } = await present(tenant).select(versions.as('state')).executeTakeFirstOrThrow()
      return state
    },

    /** The number of secrets that are not deleted; with `search`, only those whose key contains the text. */
    async count (tenant: Owner, search?: string): Promise<number> {
      const { count } = await present(tenant, search).select(sql<number>`count(*)::integer`.as('count')).executeTakeFirstOrThrow()
      return count
    },

    /** A page of secrets that are not deleted, by key; with `search`, only those whose key contains the text. */
    async list (tenant: Owner, { limit, offset, search }: Page & { readonly search?: string | undefined }): Promise<ListedRow[]> {
      return await present(tenant, search)
        .select([
          'key', 'created_at as createdAt', 'last_accessed_at as lastAccessedAt', sql<number>`access_count::float8`.as('accessCount'),
          'expires_at as expiresAt', sql<string>`metadata::text`.as('metadata')
        ])
        .orderBy('key').limit(limit).offset(offset).execute()
    },

    /**
     * A page of live secrets with ciphertexts, by key, after this key: rows up to this number of bytes, but at least one row.
     * `more`: there are further secrets.
     */
    async sealed (tenant: Owner, after: string, maxBytes: number): Promise<{ rows: SealedRow[], more: boolean }> {
      const { rows } = await sql<
        SealedRow & { readonly ahead: number }
      >`select key, version, value, previous_value as "previousValue", previous_version as "previousVersion",
          previous_valid_until as "previousValidUntil", expires_at as "expiresAt", expired_at as "expiredAt", ahead
        from (
          select *, count(*) over ()::int as ahead, row_number() over keys as place,
            sum(octet_length(value) + coalesce(octet_length(previous_value), 0) + earlier_bytes) over keys as bytes
          from (
            select s.*, coalesce((select sum(octet_length(e.value)) from tenantry.secret_earlier_values e where e.tenant_id = s.tenant_id and e.key = s.key), 0) as earlier_bytes
            from tenantry.secrets s where tenant_id = ${tenant} and key > ${after} and deleted_at is null and value is not null order by key limit ${maxPage}
          ) rest window keys as (order by key)
        ) page where place = 1 or bytes <= ${maxBytes} order by key`.execute(db)
      const ahead = rows[0]?.ahead ?? 0
      return { rows, more: rows.length < ahead || ahead === maxPage }
    },

    /** The earlier values, except the latest, of the keys after `after` up to `last`; by key, the newest first. */
    earlier: (tenant: Owner, after: string, last: string) =>
      db.selectFrom('tenantry.secret_earlier_values').select(['key', 'version', 'value', 'valid_until as validUntil'])
        .where('tenant_id', '=', tenant).where('key', '>', after).where('key', '<=', last).orderBy('key').orderBy('version', 'desc')
        .execute(),

    /** The ends of the key's earlier values that are still accepted, the next one first. */
    async ends (tenant: Owner, key: string, at: Date): Promise<Date[]> {
      const { rows } = await sql<
        { readonly until: Date }
      >`select previous_valid_until as until from tenantry.secrets where tenant_id = ${tenant} and key = ${key} and previous_valid_until > ${at}
        union all select valid_until from tenantry.secret_earlier_values where tenant_id = ${tenant} and key = ${key} and valid_until > ${at} order by until`
        .execute(db)
      return rows.map(({ until }) => until)
    },

    async endEarlier (tenant: Owner, key: string): Promise<void> {
      await db.deleteFrom('tenantry.secret_earlier_values').where('tenant_id', '=', tenant).where('key', '=', key).execute()
      await db.updateTable('tenantry.secrets').set(noPrevious).where('tenant_id', '=', tenant).where('key', '=', key).execute()
    },

    /** For a new or deleted key: nothing of an earlier secret remains. */
    async create (tenant: Owner, key: string, { version, value, metadata, expiresAt }: NewValue, at: Date): Promise<void> {
      const fresh = {
        version,
        value,
        ...noPrevious,
        metadata: stringifyJson(metadata),
        expires_at: expiresAt,
        expired_at: null,
        deleted_at: null,
        last_accessed_at: null,
        access_count: 0,
        created_at: at,
        updated_at: at
      }
      await db.insertInto('tenantry.secrets').values({ tenant_id: tenant, key, ...fresh })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'key']).doUpdateSet(fresh)).execute()
    },

    async replace (
      tenant: Owner,
      key: string,
      { version, value, metadata, expiresAt, previousValidUntil }: NewValue,
      at: Date
    ): Promise<void> {
      // Servers of an older version only read the latest earlier value, in the row of the secret.
      if (previousValidUntil !== undefined) {
        await sql`insert into tenantry.secret_earlier_values (tenant_id, key, version, value, valid_until)
          select tenant_id, key, previous_version, previous_value, previous_valid_until from tenantry.secrets
          where tenant_id = ${tenant} and key = ${key} and previous_valid_until > ${at}`.execute(db)
      }
      await db.updateTable('tenantry.secrets')
        .set({ version, value, metadata: stringifyJson(metadata), expires_at: expiresAt, expired_at: null, updated_at: at })
        // The columns before the update: a concurrent rekey must re-encrypt this ciphertext too.
        .$if(
          previousValidUntil !== undefined,
          (query) =>
            query.set({ previous_value: sql`value`, previous_version: sql`version`, previous_valid_until: previousValidUntil ?? null })
        )
        .where('tenant_id', '=', tenant).where('key', '=', key).execute()
    },

    /** Removes the value and keeps the row; false if there was none. */
    async remove (tenant: Owner, key: string, at: Date): Promise<boolean> {
      await db.deleteFrom('tenantry.secret_earlier_values').where('tenant_id', '=', tenant).where('key', '=', key).execute()
      const { numUpdatedRows } = await db.updateTable('tenantry.secrets').set({
        value: null,
        ...noPrevious,
        metadata: '{}',
        deleted_at: at,
        updated_at: at
      })
        .where('tenant_id', '=', tenant).where('key', '=', key).where('deleted_at', 'is', null).executeTakeFirstOrThrow()
      return numUpdatedRows > 0n
    },

    async audit (tenant: Owner, key: string, action: SecretAction, actor: Actor, at: Date): Promise<void> {
      await writeAudit(db, { tenant, action: `secret.${action}`, actor, target: key, at })
    },

    /** Writes audit entries of the tenant's expired secrets, once over all servers. */
    async expire (tenant: Owner, at: Date): Promise<void> {
      const ended = sql`select tenant_id, key from tenantry.secrets
        where tenant_id = ${tenant} and expires_at <= ${at} and expired_at is null and deleted_at is null order by tenant_id, key for no key update`
      await noteExpired(ended, at).execute(db)
    },

    /**
     * Audits uses with one entry for each key and hour, also for secrets that were deleted since. Counts only uses of the current
     * secret, not of an earlier one with the same key. Uses after the expiry do not count.
     */
    async accessed (uses: readonly KeyUse[], at: Date): Promise<void> {
      const column = <Name extends keyof KeyUse>(name: Name) => uses.map((use) => use[name])
      // In one order for all servers, to avoid deadlocks on the same rows.
      await sql`with used as (
        select * from unnest(${column('tenant')}::text[], ${column('key')}::text[], ${column('count')}::int[], ${
        column('lastAt')
      }::timestamptz[]) as used (tenant_id, key, count, last_at)
      ), locked as (
        select s.tenant_id, s.key, used.count, used.last_at, s.deleted_at is null and s.created_at <= used.last_at as present
        from tenantry.secrets s join used using (tenant_id, key)
        where s.expires_at is null or s.expires_at > used.last_at order by s.tenant_id, s.key for no key update of s
      ), counted as (
        update tenantry.secrets s set access_count = s.access_count + locked.count, last_accessed_at = greatest(s.last_accessed_at, locked.last_at)
        from locked where locked.present and s.tenant_id = locked.tenant_id and s.key = locked.key
      ) insert into tenantry.audit_log as a (tenant_id, target, action, count, hour, created_at)
      select tenant_id, key, 'secret.access', count, date_trunc('hour', last_at, 'UTC'), ${at}::timestamptz from locked
      on conflict (tenant_id, target, hour) where action = 'secret.access' do update set count = a.count + excluded.count`.execute(db)
    }
  }
}

const deletedFor = 7 * dayMs // ms that a deleted secret's row stays; a new secret with the same key continues its version numbers

/** Selects and locks rows of secrets, in the same order as every statement, to avoid deadlocks. */
const lockedKeys = (condition: ReturnType<typeof sql>) =>
  sql`select tenant_id, key from tenantry.secrets where ${condition} order by tenant_id, key limit ${maxSweptRows} for no key update skip locked`

/** Notes expiries, ends grace periods and removes deleted secrets; false if another server is doing so now. */
export function sweepSecrets (db: Kysely<SystemTables>, at: Date): Promise<boolean> {
  const parts = [
    noteExpired(lockedKeys(sql`expires_at <= ${at} and expired_at is null and deleted_at is null`), at),
    sql`update tenantry.secrets s set previous_value = null, previous_version = null, previous_valid_until = null
      from (${lockedKeys(sql`previous_valid_until <= ${at}`)}) e where s.tenant_id = e.tenant_id and s.key = e.key`,
    sql`delete from tenantry.secret_earlier_values e using (
      select tenant_id, key, version from tenantry.secret_earlier_values where valid_until <= ${at} order by tenant_id, key, version limit ${maxSweptRows} for update skip locked
    ) ended where e.tenant_id = ended.tenant_id and e.key = ended.key and e.version = ended.version`,
    sql`delete from tenantry.secrets s
      using (${lockedKeys(sql`deleted_at <= ${new Date(at.getTime() - deletedFor)}`)}) e where s.tenant_id = e.tenant_id and s.key = e.key`
  ]
  return sweep(db, 'tenantry.secrets.sweep', parts.map((statement) => partOf(statement)))
}
