/** The tables of files in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType } from 'kysely'

/**
 * - `pending`: its bytes are on their way, or may come by a signed upload
 * - `receiving`: a signed upload has begun, and no other one may
 * - `resumable`: its bytes arrive in several requests, see `FilePartsTable`
 * - `quarantined`: a scanner must find it clean before it can be read
 * - `ready`: it can be read
 * - `removed`: its object is to be deleted, then the row
 */
export type FileStatus = 'pending' | 'receiving' | 'resumable' | 'quarantined' | 'ready' | 'removed'

export interface FilesTable {
  tenant_id: string
  /** Also of the object: `<tenant_id>/<id>`. */
  id: string
  status: FileStatus
  bucket: string
  /** As the uploader called it. */
  name: string
  content_type: string
  /** Bytes; of a signed upload those that are announced. */
  size: ColumnType<string, number, number>
  /** Bytes of it that the usage of the tenant has. */
  counted: ColumnType<string, number, number>
  /** In hexadecimal; null until it is ready. */
  sha256: string | null
  entity_type: string | null
  entity_id: string | null
  metadata: ColumnType<Record<string, unknown>, string, string>
  /** The `sub` of the uploader. */
  created_by: string
  created_at: ColumnType<Date, Date, Date>
  /** When the sweep removes it; null for never. */
  expires_at: ColumnType<Date | null, Date | null, Date | null>
  /** When the next scan is due, or the running one is taken for lost; null if none is. */
  scan_at: ColumnType<Date | null, never, Date | null>
  /** Of a file that stays in quarantine. */
  scan_result: ColumnType<'infected' | 'tooLarge' | null, never, 'infected' | 'tooLarge'>
  /** The name that the scanner has for the malware. */
  scan_signature: ColumnType<string | null, never, string>
  /** The step of a workflow that made it, `<run id>:<step id>`; null for all others. */
  origin: ColumnType<string | null, never, string | null>
}

/** An image that was made of a file. It may lack its object for a while, and then is made again. */
export interface FileTransformsTable {
  tenant_id: string
  file_id: string
  /** Of the parameters; the object is `<tenant_id>/<file_id>-<name>`. */
  name: string
  content_type: string
  size: ColumnType<string, number, never>
  /** In hexadecimal. */
  sha256: string
  created_at: ColumnType<Date, Date, never>
}

/** The bytes that one request of a resumable upload brought. */
export interface FilePartsTable {
  tenant_id: string
  file_id: string
  /** Of the object: `<tenant_id>/<file_id>-<id>`. */
  id: string
  /** Where its bytes begin in the file. */
  start: ColumnType<string, number, number>
  /** null until the object is there. */
  size: ColumnType<string | null, null, number>
}
