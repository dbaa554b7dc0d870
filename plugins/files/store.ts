/** The SQL of files, and the keys of their objects. */
import { type Kysely, type RawBuilder, type Selectable, sql } from 'kysely'
import type { FileStatus } from '../../lib/database/files-table.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { hasTenant, lockTenant } from '../../lib/database/tenant-lock.js'
import { failure } from '../../lib/errors.js'
import type { Page } from '../../lib/http/page.js'
import { type Owner, type TenantLife, tenantRef } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { Entity, StoredFile } from './types.js'

type Row = Selectable<SystemTables['tenantry.files']>

/** A file whose bytes are missing or unconfirmed. */
export interface NewFile extends Omit<StoredFile, 'sha256' | 'scan'> {
  /** Default: pending. */
  readonly status?: 'pending' | 'resumable'
  readonly counted: number
  readonly expiresAt: Date
  /** The time until which a signed URL of the store may bring bytes; null without such a URL. Default: null. */
  readonly uploadUntil?: Date | null
}

export type FileKey = Pick<StoredFile, 'tenant' | 'id'>

/** An expired row. */
export interface ExpiredFile extends FileKey {
  readonly status: FileStatus
  /** As text, which keeps all digits. */
  readonly expires: string
}

export type FileStore = ReturnType<typeof createFileStore>

/**
 * @param isScanned  whether files go into quarantine before they are readable
 * @param idOf       the stored text of an entity's id
 */
export function createFileStore (
  db: Kysely<SystemTables>,
  dbFor: (tenant: Owner) => Kysely<SystemTables>,
  isScanned = false,
  idOf: (entity: Entity) => string = ({ id }) => id
) {
  const table = 'tenantry.files'

  /** The columns that both a new and a complete upload set. */
  function columnsOf (file: Omit<StoredFile, 'sha256'>) {
    const { entityType: type, entityId: id } = file
    return {
      bucket: file.bucket,
      name: file.name,
      content_type: file.contentType,
      size: file.size,
      entity_type: type,
      entity_id: type === null || id === null ? id : idOf({ type, id }),
      metadata: stringifyJson(file.metadata),
      created_at: file.createdAt,
      depth: file.depth
    }
  }

  const found = (tenant: Owner, id: string) =>
    dbFor(tenant).selectFrom(table).selectAll().where('tenant_id', '=', tenant).where('id', '=', id).where(notExpired)

  return {
    hasTenant: (tenant: Owner) => hasTenant(db, tenant),

    /** Adds the row of a new upload. Rejects with `tenantUnknown`, also for a later tenant with the id. */
    async insert (writer: SystemTransaction, life: TenantLife, row: NewFile): Promise<void> {
      if (!await lockTenant(writer, row.tenant, 'shared', life)) throw failure('tenantUnknown')
      await writer.insertInto(table).values({
        tenant_id: row.tenant,
        id: row.id,
        status: row.status ?? 'pending',
        ...columnsOf(row),
        counted: row.counted,
        sha256: null,
        created_by: row.createdBy,
        expires_at: row.expiresAt,
        upload_until: row.uploadUntil ?? null
      }).execute()
    },

    /**
     * Makes the file readable, or puts it into quarantine. null if the upload has expired or was ended. Rejects with `conflict` if a
     * file with the same origin exists.
     */
    async complete (
      writer: SystemTransaction,
      file: StoredFile,
      expiresAt: Date | null,
      origin: string | null = null
    ): Promise<StoredFile | null> {
      if (!await lockTenant(writer, file.tenant, 'shared')) throw failure('tenantUnknown')
      const row = await writer.updateTable(table).set({
        ...isScanned ? { status: 'quarantined', scan_at: sql<Date>`now()` } : { status: 'ready' },
        ...columnsOf(file),
        counted: file.size,
        sha256: file.sha256,
        expires_at: expiresAt,
        ...origin !== null && { origin }
      }).where('tenant_id', '=', file.tenant).where('id', '=', file.id).where('status', 'in', ['pending', 'receiving', 'resumable'])
        .where(notExpired).returningAll().executeTakeFirst()
      return fileOrNull(row)
    },

    /** A readable file. */
    async find (tenant: Owner, id: string): Promise<StoredFile | null> {
      return fileOrNull(await found(tenant, id).where('status', '=', 'ready').executeTakeFirst())
    },

    /** A file that is readable or in quarantine. */
    async findStored (tenant: Owner, id: string): Promise<StoredFile | null> {
      return fileOrNull(await found(tenant, id).where('status', 'in', ['ready', 'quarantined']).executeTakeFirst())
    },

    /** The file that a workflow step created. */
    async findMade (tenant: Owner, origin: string): Promise<StoredFile | null> {
      const row = await dbFor(tenant).selectFrom(table).selectAll().where('tenant_id', '=', tenant).where('origin', '=', origin)
        .executeTakeFirst()
      return fileOrNull(row)
    },

    /** A file that has not expired, in any state but `removed`. */
    async findUpload (tenant: Owner, id: string): Promise<{ readonly file: StoredFile, readonly status: FileStatus } | null> {
      const row = await found(tenant, id).where('status', '<>', 'removed').executeTakeFirst()
      return row === undefined ? null : { file: fileOf(row), status: row.status }
    },

    /**
     * Moves an upload from one state to another. Returns false if it was not in the first state, or has expired. Without `expires` it
     * expires as before.
     */
    async move (tenant: Owner, id: string, from: FileStatus, to: FileStatus, expires?: Date | RawBuilder<Date>): Promise<boolean> {
      const row = await dbFor(tenant).updateTable(table).set({ status: to, ...expires !== undefined && { expires_at: expires } })
        .where('tenant_id', '=', tenant).where('id', '=', id).where('status', '=', from).where(notExpired).returning('id')
        .executeTakeFirst()
      return row !== undefined
    },

    /** A page of an entity's files in these buckets, oldest first, and their total number. */
    async list (
      tenant: Owner,
      entity: Entity,
      buckets: readonly string[],
      { limit, offset }: Page,
      withQuarantined = false
    ): Promise<{ data: StoredFile[], total: number }> {
      // An earlier version stored the id as it was sent.
      const ids = [...new Set([idOf(entity), entity.id])]
      const all = dbFor(tenant).selectFrom(table)
        .where('tenant_id', '=', tenant).where('entity_type', '=', entity.type).where('entity_id', 'in', ids)
        .where('status', 'in', withQuarantined ? ['ready', 'quarantined'] : ['ready']).where(notExpired).where('bucket', 'in', [...buckets])
      const { total } = await all.select(sql<number>`count(*)::integer`.as('total')).executeTakeFirstOrThrow()
      const rows = total <= offset ? [] : await all.selectAll().orderBy('created_at').orderBy('id').limit(limit).offset(offset).execute()
      return { data: rows.map(fileOf), total }
    },

    /**
     * Withdraws the file from readers; `status` is its state until now. undefined if it is in none of the states. The sweep deletes the
     * object if the caller does not, and once more if a signed URL of the store may bring it again.
     */
    async remove (writer: SystemTransaction, tenant: Owner, id: string, states: readonly FileStatus[], at: Date) {
      const row = await writer.selectFrom(table).selectAll().where('tenant_id', '=', tenant).where('id', '=', id)
        .where('status', 'in', [...states]).forUpdate().executeTakeFirst()
      if (row === undefined) return undefined
      await writer.updateTable(table).set({
        status: 'removed',
        counted: 0,
        expires_at: sql<Date>`greatest(${at}::timestamptz, upload_until)`,
        scan_at: null,
        origin: null
      }).where('tenant_id', '=', tenant).where('id', '=', id).execute()
      return { file: fileOf(row), counted: Number(row.counted), status: row.status }
    },

    /** Deletes the row of a removed file after its object, unless a signed URL of the store may bring the object again. */
    async forget (tenant: Owner, id: string, at: Date): Promise<void> {
      await dbFor(tenant).deleteFrom(table).where('tenant_id', '=', tenant).where('id', '=', id).where('status', '=', 'removed')
        .where(sql<boolean>`(upload_until is null or upload_until <= ${at})`).execute()
    },

    /**
     * Expired rows after `after`, except removed ones and those of the tenants `without`. Their expiry stays unchanged: a later time would
     * make them readable again. The lease of an upload ends by the database's clock, which its server renews it by.
     */
    async expired (at: Date, after: ExpiredFile | undefined, without: readonly Owner[], limit: number): Promise<ExpiredFile[]> {
      const rest = after === undefined
        ? sql`true`
        : sql`(expires_at, tenant_id, id) > (${after.expires}::timestamptz, ${after.tenant}, ${after.id}::uuid)`
      const { rows } = await sql<ExpiredFile>`select tenant_id as tenant, id, status, expires_at::text as expires from tenantry.files
        where expires_at <= ${at} and status <> 'removed' and (status <> 'receiving' or expires_at <= now())
          and tenant_id <> all(${without}::text[]) and ${rest}
        order by expires_at, tenant_id, id limit ${limit}`.execute(db)
      return rows
    },

    /** Complete uploads after `after` that still have parts, except those of the tenants `without`. */
    async completeWithParts (after: FileKey | undefined, without: readonly Owner[], limit: number): Promise<FileKey[]> {
      const rest = after === undefined ? sql`true` : sql`(tenant_id, file_id) > (${after.tenant}, ${after.id}::uuid)`
      // Jumps from upload to upload in the index, so that uploads of many parts cost no more.
      const { rows } = await sql<FileKey>`with recursive uploads as (
          (select tenant_id, file_id from tenantry.file_parts where ${rest} order by tenant_id, file_id limit 1)
          union all
          select p.* from uploads u, lateral (select tenant_id, file_id from tenantry.file_parts
            where (tenant_id, file_id) > (u.tenant_id, u.file_id) order by tenant_id, file_id limit 1) p)
        select f.tenant_id as tenant, f.id from uploads u join tenantry.files f on f.tenant_id = u.tenant_id and f.id = u.file_id
        where f.status in ('quarantined', 'ready') and f.tenant_id <> all(${without}::text[])
        order by f.tenant_id, f.id limit ${limit}`.execute(db)
      return rows
    },

    /**
     * Claims removed rows, except those of the tenants `without`. This server deletes their objects; other servers see the rows again after
     * `until`.
     */
    async claimRemoved (at: Date, until: Date, without: readonly Owner[], limit: number): Promise<FileKey[]> {
      const { rows } = await sql<FileKey>`update tenantry.files f set expires_at = ${until}
        from (select tenant_id, id from tenantry.files
          where expires_at <= ${at} and status = 'removed' and tenant_id <> all(${without}::text[])
          order by expires_at limit ${limit} for update skip locked) e
        where f.tenant_id = e.tenant_id and f.id = e.id returning f.tenant_id as tenant, f.id`.execute(db)
      return rows
    }
  }
}

/**
 * The next sweep removes expired files. `now()` is the start of the transaction: it would miss the deletion of the file's row since then.
 */
const notExpired = sql<boolean>`(expires_at is null or expires_at > clock_timestamp())`

export const spanOf = (ms: number) => sql`${ms} * interval '1 ms'`

/** Uses the database's clock, because servers' clocks may differ. */
export const dueIn = (ms: number) => sql<Date>`now() + ${spanOf(ms)}`

export function fileOrNull (row: Row | undefined): StoredFile | null {
  return row === undefined ? null : fileOf(row)
}

function fileOf (row: Row): StoredFile {
  return {
    id: row.id,
    tenant: tenantRef(row.tenant_id),
    bucket: row.bucket,
    name: row.name,
    contentType: row.content_type,
    size: Number(row.size),
    sha256: row.sha256 ?? '',
    entityType: row.entity_type,
    entityId: row.entity_id,
    metadata: row.metadata,
    createdBy: row.created_by,
    createdAt: row.created_at,
    depth: row.depth,
    ...row.status === 'quarantined' && { scan: { status: row.scan_result ?? 'waiting', signature: row.scan_signature } }
  }
}

/** The object key of a file. */
export function keyOf (tenant: Owner, id: string): string {
  return `${tenant}/${id}`
}

/** The object key of bytes that a client sent directly to the store, before they are confirmed. */
export function uploadKeyOf (tenant: Owner, id: string): string {
  return `${keyOf(tenant, id)}-upload`
}
