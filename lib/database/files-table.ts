/** The tables of files in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, Generated } from 'kysely'
import type { Bigint, Time } from './column-types.js'

/**
 * - `pending`: its bytes are arriving, or may come by a signed upload
 * - `receiving`: a signed upload, or the copy of one, has begun, and excludes others
 * - `resumable`: its bytes arrive in several requests, see `file_parts`
 * - `quarantined`: a scanner must find it clean before it is readable
 * - `ready`: it is readable
 * - `removed`: its object must be deleted, then the row
 */
export type FileStatus = 'pending' | 'receiving' | 'resumable' | 'quarantined' | 'ready' | 'removed'

export interface FileTables {
  'tenantry.files': {
    tenant_id: string
    /** Also a part of the object's key: `<tenant_id>/<id>`. */
    id: string
    status: FileStatus
    bucket: string
    /** The uploader's name of the file. */
    name: string
    content_type: string
    /** Bytes; the announced ones for a signed upload. */
    size: Bigint
    /** The bytes that count towards the tenant's usage. */
    counted: Bigint
    /** In hexadecimal; null until it is ready. */
    sha256: string | null
    entity_type: string | null
    entity_id: string | null
    metadata: ColumnType<Record<string, unknown>, string, string>
    /** The `sub` of the uploader. */
    created_by: string
    created_at: Time
    /** The time at which the sweep removes it; null for never. */
    expires_at: ColumnType<Date | null, Date | null, Date | null>
    /** The time of the next scan, or of the timeout of a running one; null without a scan. */
    scan_at: ColumnType<Date | null, never, Date | null>
    /** Set for a file that stays in quarantine. */
    scan_result: ColumnType<'infected' | 'tooLarge' | null, never, 'infected' | 'tooLarge'>
    /** The scanner's name of the malware. */
    scan_signature: ColumnType<string | null, never, string>
    /** The workflow step that created it, `<run id>:<step id>`; otherwise null. */
    origin: ColumnType<string | null, never, string | null>
    /** The number of webhooks, one after the other, that led to it. */
    depth: Generated<number>
    /** The time until which a signed URL of the store may bring bytes: a removed row stays until then. null without such a URL. */
    upload_until: ColumnType<Date | null, Date | null | undefined, never>
  }

  /** An image derived from a file. Its object may be missing for a while, and is then created again. */
  'tenantry.file_transforms': {
    tenant_id: string
    file_id: string
    /** A hash of the parameters; the object is `<tenant_id>/<file_id>-<name>`. */
    name: string
    content_type: string
    size: ColumnType<string, number, never>
    /** In hexadecimal. */
    sha256: string
    created_at: ColumnType<Date, Date, never>
  }

  /** The bytes that one request of a resumable upload brought. */
  'tenantry.file_parts': {
    tenant_id: string
    file_id: string
    /** Also a part of the object's key: `<tenant_id>/<file_id>-<id>`. */
    id: string
    /** The offset of its bytes in the file. */
    start: Bigint
    /** null until the object exists. */
    size: ColumnType<string | null, null, number>
  }
}
