/** Files as the service and its callers see them. */
import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Actor } from '../../lib/database/audit.js'
import type { FileRules } from '../../lib/files/rules.js'
import type { ByteRange } from '../../lib/files/store.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { ReceivedForm } from '../../lib/runtime/route-call.js'
import type { Forms } from '../../lib/runtime/services.js'
import type { StepRunner } from '../../lib/workflows/service-steps.js'

/** The reason why a file is in quarantine. */
export interface FileScan {
  /** `waiting`: not scanned yet. `tooLarge`: beyond the scanner's limit. */
  readonly status: 'waiting' | 'infected' | 'tooLarge'
  /** The scanner's name for the malware; null for other files. */
  readonly signature: string | null
}

export interface StoredFile {
  readonly id: string
  readonly tenant: Owner
  readonly bucket: string
  /** The name that the uploader gave. */
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
  /** The number of webhooks, one after the other, that led to it. */
  readonly depth: number
  /** Set only for a file in quarantine. */
  readonly scan?: FileScan
}

/** The properties of a file that an uploader sets. */
export interface FileDetails {
  readonly name: string
  /** Default: `private`. */
  readonly bucket?: string | undefined
  /** The type that the uploader declares. It counts only for text. */
  readonly contentType?: string | undefined
  readonly entityType?: string | null | undefined
  readonly entityId?: string | null | undefined
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}

/** The owner of files, such as a row of a table. */
export interface Entity {
  readonly type: string
  readonly id: string
}

/** The user who uploads or deletes. */
export interface Uploader {
  readonly sub: string
  readonly actor: Actor
  /** The number of webhooks, one after the other, that led to the change. Default: 0. */
  readonly depth?: number | undefined
}

/** The type of `app.files`. The tenant is the first argument of every method, and never empty. */
export interface Files {
  /**
   * Stores a file. Rejects with `fileTooLarge`, `planLimit`, `fileTypeRefused`, `storageFull`, `storageUnavailable` and `uploadsBusy`;
   * nothing is left then. `size`: the number of bytes, if known.
   */
  put(tenant: string, details: FileDetails, bytes: Readable, by: Uploader, size?: number): Promise<StoredFile>
  /** null if the tenant has no such file. */
  get(tenant: string, id: string): Promise<StoredFile | null>
  /** The bytes of a file, or a range of them. null if the tenant has no such file. */
  open(tenant: string, id: string, range?: ByteRange): Promise<Readable | null>
  /** The files of an entity, oldest first. */
  list(tenant: string, entity: Entity, page: Page): Promise<{ data: StoredFile[], total: number }>
  /** Returns false if the tenant has no such file. */
  remove(tenant: string, id: string, by: Uploader): Promise<boolean>
  /** Rejects if the scanner cannot be reached; null without a scanner. */
  readonly checkScanner: ((timeoutMs: number) => Promise<void>) | null
  /** The permissions that a caller needs for a bucket's files. null if the document does not have the bucket. */
  permissions(bucket: string): readonly string[] | null
}

declare module 'fastify' {
  interface FastifyInstance {
    routeFiles: RouteFiles
  }
  interface FastifyRequest {
    /** The form of a route with `multipart`, once it is read; null on all other routes. */
    receivedForm: ReceivedForm | null
  }
}

interface RouteFiles {
  readonly rules: FileRules
  /** Runs workflow steps of the type `storage`. */
  readonly step: StepRunner
  /**
   * Reads the form of the request. Its files are not readable before `complete`. Rejects with `mediaTypeUnsupported`, `badRequest`,
   * `validationFailed`, `fileTooLarge`, `fileTypeRefused`, `planLimit`, `uploadTooSlow` and `tenantRequired`; nothing is left then.
   */
  receive: Forms<FastifyRequest, FastifyReply>['receive']
}
