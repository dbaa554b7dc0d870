/** The SQL of files. */
import type { Kysely, Selectable, Transaction } from 'kysely'
import type { FilesTable, FileStatus } from '../../lib/database/files-table.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Page } from '../../lib/http/page.js'
import type { Entity, StoredFile } from './types.js'
import { sql } from 'kysely'
import { holdTenant } from '../../lib/database/tenant-hold.js'
import { failure } from '../../lib/errors.js'

export type Writer = Transaction<SystemTables>
type Row = Selectable<FilesTable>

/** A file whose bytes are not there, or not known to be. */
export interface NewRow {
  readonly tenant: string
  readonly id: string
  /** Default: pending. */
  readonly status?: 'pending' | 'resumable'
  readonly bucket: string
  readonly name: string
  readonly contentType: string
  readonly size: number
  readonly counted: number
  readonly entityType: string | null
  readonly entityId: string | null
  readonly metadata: Readonly<Record<string, unknown>>
  readonly createdBy: string
  readonly createdAt: Date
  readonly expiresAt: Date
}

/** A row that is not read by callers: an upload that runs, or a file that is going. */
export interface Claimed {
  readonly tenant: string
  readonly id: string
  readonly status: FileStatus
}

/** A removed row. */
export interface Removed {
  readonly file: StoredFile
  readonly counted: number
  /** It could be read until now. */
  readonly wasReady: boolean
}

export type FileStore = ReturnType<typeof createFileStore>

export function createFileStore (db: Kysely<SystemTables>, dbFor: (tenant: string) => Kysely<SystemTables>) {
  const table = 'tenantry.files'

  const found = (tenant: string, id: string) => dbFor(tenant).selectFrom(table).selectAll().where('tenant_id', '=', tenant).where('id', '=', id)

  return {
    /** Adds a row of an upload that begins. Rejects with `tenantUnknown`. */
    async insert (writer: Writer, row: NewRow): Promise<void> {
      if (!await holdTenant(writer, row.tenant, 'shared')) throw failure('tenantUnknown')
      await writer.insertInto(table).values({
        tenant_id: row.tenant,
        id: row.id,
        status: row.status ?? 'pending',
        bucket: row.bucket,
        name: row.name,
        content_type: row.contentType,
        size: row.size,
        counted: row.counted,
        sha256: null,
        entity_type: row.entityType,
        entity_id: row.entityId,
        metadata: JSON.stringify(row.metadata),
        created_by: row.createdBy,
        created_at: row.createdAt,
        expires_at: row.expiresAt
      }).execute()
    },

    /** Makes the file readable; false if its upload has ended otherwise. */
    async complete (writer: Writer, file: StoredFile, expiresAt: Date | null): Promise<boolean> {
      if (!await holdTenant(writer, file.tenant, 'shared')) throw failure('tenantUnknown')
      const row = await writer.updateTable(table).set({
        status: 'ready',
        bucket: file.bucket,
        name: file.name,
        content_type: file.contentType,
        size: file.size,
        counted: file.size,
        sha256: file.sha256,
        entity_type: file.entityType,
        entity_id: file.entityId,
        metadata: JSON.stringify(file.metadata),
        created_at: file.createdAt,
        expires_at: expiresAt
      }).where('tenant_id', '=', file.tenant).where('id', '=', file.id).where('status', 'in', ['pending', 'receiving', 'resumable'])
        .returning('id').executeTakeFirst()
      return row !== undefined
    },

    /** A file that can be read. */
    async find (tenant: string, id: string): Promise<StoredFile | null> {
      const row = await found(tenant, id).where('status', '=', 'ready').executeTakeFirst()
      return row === undefined ? null : fileOf(row)
    },

    /** A file in any state but `removed`. */
    async findUpload (tenant: string, id: string): Promise<{ readonly file: StoredFile, readonly status: FileStatus } | null> {
      const row = await found(tenant, id).where('status', '<>', 'removed').executeTakeFirst()
      return row === undefined ? null : { file: fileOf(row), status: row.status }
    },

    /** Moves an upload from one state to another; false if it was not in the first. */
    async move (tenant: string, id: string, from: FileStatus, to: FileStatus, expiresAt: Date): Promise<boolean> {
      const row = await dbFor(tenant).updateTable(table).set({ status: to, expires_at: expiresAt })
        .where('tenant_id', '=', tenant).where('id', '=', id).where('status', '=', from).returning('id').executeTakeFirst()
      return row !== undefined
    },

    /** A page of the files of an entity in these buckets, the oldest first, and how many there are. */
    async list (tenant: string, entity: Entity, buckets: readonly string[], { limit, offset }: Page): Promise<{ data: StoredFile[], total: number }> {
      const all = dbFor(tenant).selectFrom(table)
        .where('tenant_id', '=', tenant).where('entity_type', '=', entity.type).where('entity_id', '=', entity.id)
        .where('status', '=', 'ready').where('bucket', 'in', [...buckets])
      const { total } = await all.select(sql<number>`count(*)::integer`.as('total')).executeTakeFirstOrThrow()
      const rows = total <= offset ? [] : await all.selectAll().orderBy('created_at').orderBy('id').limit(limit).offset(offset).execute()
      return { data: rows.map(fileOf), total }
    },

    /**
     * Takes the file from its readers; undefined if it is not in one of the states. The sweep deletes the object, if the
     * caller does not.
     */
    async remove (writer: Writer, tenant: string, id: string, states: readonly FileStatus[], at: Date): Promise<Removed | undefined> {
      const row = await writer.selectFrom(table).selectAll().where('tenant_id', '=', tenant).where('id', '=', id)
        .where('status', 'in', [...states]).forUpdate().executeTakeFirst()
      if (row === undefined) return undefined
      await writer.updateTable(table).set({ status: 'removed', counted: 0, expires_at: at })
        .where('tenant_id', '=', tenant).where('id', '=', id).execute()
      return { file: fileOf(row), counted: Number(row.counted), wasReady: row.status === 'ready' }
    },

    /** Deletes a removed row, whose object is gone. */
    async forget (tenant: string, id: string): Promise<void> {
      await dbFor(tenant).deleteFrom(table).where('tenant_id', '=', tenant).where('id', '=', id).where('status', '=', 'removed').execute()
    },

    /** Rows whose time is over, for this server to end; others see them as over again after `until`. */
    async claimExpired (at: Date, until: Date, limit: number): Promise<Claimed[]> {
      const { rows } = await sql<Claimed>`update tenantry.files f set expires_at = ${until}
        from (select tenant_id, id from tenantry.files where expires_at <= ${at} order by expires_at limit ${limit} for update skip locked) e
        where f.tenant_id = e.tenant_id and f.id = e.id returning f.tenant_id as tenant, f.id, f.status`.execute(db)
      return rows
    }
  }
}

function fileOf (row: Row): StoredFile {
  return {
    id: row.id,
    tenant: row.tenant_id,
    bucket: row.bucket,
    name: row.name,
    contentType: row.content_type,
    size: Number(row.size),
    sha256: row.sha256 ?? '',
    entityType: row.entity_type,
    entityId: row.entity_id,
    metadata: row.metadata,
    createdBy: row.created_by,
    createdAt: row.created_at
  }
}
