/** Files as the service and its callers see them. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Readable } from 'node:stream'
import type { ByteRange } from '../../lib/files/store.js'
import type { Page } from '../../lib/http/page.js'
import type { Actor } from '../../lib/database/audit.js'

/** Why a file is in quarantine. */
export interface FileScan {
  /** `waiting` for its scan; `tooLarge` for the scanner. */
  readonly status: 'waiting' | 'infected' | 'tooLarge'
  /** The name that the scanner has for the malware; null for other files. */
  readonly signature: string | null
}

export interface StoredFile {
  readonly id: string
  readonly tenant: Owner
  readonly bucket: string
  /** As the uploader called it. */
  readonly name: string
  readonly contentType: string
  /** Bytes. */
  readonly size: number
  /** In hexadecimal. */
  readonly sha256: string
  readonly entityType: string | null
  readonly entityId: string | null
  readonly metadata: Readonly<Record<string, unknown>>
  /** The `sub` of the uploader. */
  readonly createdBy: string
  readonly createdAt: Date
  /** Only of a file in quarantine. */
  readonly scan?: FileScan
}

/** What an uploader says of a file. */
export interface FileDetails {
  readonly name: string
  /** Default: `private`. */
  readonly bucket?: string | undefined
  /** As the uploader declares it; it counts only for text. */
  readonly contentType?: string | undefined
  readonly entityType?: string | null | undefined
  readonly entityId?: string | null | undefined
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}

/** What files belong to, such as a row of a table. */
export interface Entity {
  readonly type: string
  readonly id: string
}

/** Who uploads or deletes. */
export interface Uploader {
  readonly sub: string
  readonly actor: Actor
}

/** What `app.files` is. The tenant is the first argument of every method, and never empty. */
export interface Files {
  /**
   * Stores a file. Rejects with `fileTooLarge`, `planLimit`, `fileTypeRefused`, `storageFull`, `storageUnavailable`,
   * `uploadsBusy`; nothing is left then. `size` is the number of bytes where it is known.
   */
  put(tenant: string, details: FileDetails, bytes: Readable, by: Uploader, size?: number): Promise<StoredFile>
  /** null if the tenant has no such file. */
  get(tenant: string, id: string): Promise<StoredFile | null>
  /** The bytes of a file, or those of the range; null if the tenant has no such file. */
  open(tenant: string, id: string, range?: ByteRange): Promise<Readable | null>
  /** The files of an entity, the oldest first. */
  list(tenant: string, entity: Entity, page: Page): Promise<{ data: StoredFile[], total: number }>
  /** false if the tenant has no such file. */
  remove(tenant: string, id: string, by: Uploader): Promise<boolean>
  /** Rejects if the scanner of files cannot be reached; null without one. */
  readonly checkScanner: ((timeoutMs: number) => Promise<void>) | null
  /** The permissions that a caller needs for the files of a bucket; null for a bucket that the document does not have. */
  permissions(bucket: string): readonly string[] | null
}
