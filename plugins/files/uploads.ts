/**
 * Uploads. Before the first byte, a row in the state `pending` is inserted and storage is reserved. The object is stored next. Then
 * one transaction makes the row readable, books the storage and writes the events. After a failure in between, the sweep removes
 * the row and its object.
 */
import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { Kysely } from 'kysely'
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { markClaim } from '../../lib/database/idempotency-claim.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { failure, isFailure, retryIn } from '../../lib/errors.js'
import { admitsType } from '../../lib/files/rules.js'
import type { ObjectStore } from '../../lib/files/store.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Plans } from '../../lib/plans/plans.js'
import { dayMs } from '../../lib/time/spans.js'
import { actorOf } from '../auth/actor.js'
import type { Tenant } from '../tenancy/tenant.js'
import type { Usage } from '../usage/index.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import { type Bucket, type PartLimit, sizeLimit } from './buckets.js'
import { essenceOf, storedTypeOf } from './content-type.js'
import { writeCreated } from './events.js'
import { holdStorage, Intake, type StorageHold } from './intake.js'
import type { Quarantine } from './quarantine.js'
import { type FileStore, keyOf, type NewFile } from './store.js'
import type { StoredFile, Uploader } from './types.js'

const maxOfTenant = 100 // uploads at a time, in each process
const maxOfAddress = 10 // uploads at a time of an address without a token
const maxInAll = 1000
const retryAfter = 5 // s
const fieldBytes = 65_536 // maximum bytes of a request besides the file
const longestUpload = dayMs // after which the sweep counts an upload's process as ended

/** As the caller found it: no file is stored for a later tenant with the id. */
export type UploadTenant = Pick<Tenant, 'id' | 'plan' | 'life'>

export interface IncomingFile {
  readonly bytes: Readable
  /** The expected bytes of the file, which may include form fields after it. null if unknown. */
  readonly expected: number | null
  readonly declaredType: string | undefined
  /** null if not known yet. */
  readonly bucket: Bucket | null
  /** The part of a route's form that contains the file. */
  readonly part?: Part | undefined
  /** Set if it is known already. A deletion of the entity ends the upload. */
  readonly entity?: Pick<StoredFile, 'entityType' | 'entityId'> | undefined
  readonly by: Uploader
}

export interface Part extends PartLimit {
  readonly types: readonly string[] | undefined
}

/** An upload whose bytes are stored. Callers cannot read it yet. */
export interface Received extends Pick<StoredFile, 'id' | 'size' | 'sha256' | 'contentType'> {
  readonly hold: StorageHold
}

/** The properties that are stored with the bytes. */
export type FileProperties = Pick<StoredFile, 'name' | 'entityType' | 'entityId' | 'metadata'> & {
  readonly bucket: Bucket,
  /** The workflow step that creates the file. Only one file can have an origin. */
  readonly origin?: string | undefined
}

export interface UploadParts {
  readonly objects: ObjectStore
  readonly store: FileStore
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  readonly plans: Plans
  readonly usage: () => Pick<Usage, 'reserve' | 'free'> | null
  readonly emitter: () => Pick<Webhooks, 'emit' | 'wake'> | null
  /** Scans a tenant's files in quarantine; null without a scanner. */
  readonly quarantine: Pick<Quarantine, 'wake'> | null
  /** The document's own limit of one file; null without one. */
  readonly maxBytes: number | null
  readonly now: () => number
  readonly log: FastifyBaseLogger
}

export type Uploads = ReturnType<typeof createUploads>

export function createUploads ({ objects, store, dbFor, plans, usage, emitter, quarantine, maxBytes, now, log }: UploadParts) {
  const busy = () => failure('uploadsBusy', retryIn(retryAfter))
  const places = createTenantLimiter({ maxOfTenant, maxOfAddress, maxInAll, tooManyOfTenant: busy, tooManyInAll: busy })

  const limitOf = (plan: string, bucket: Bucket | null, part?: PartLimit) => sizeLimit(plans, plan, maxBytes, bucket, part)

  /** Stores the bytes. On failure nothing of them is left. */
  async function receive (
    tenant: UploadTenant,
    { bytes, expected, declaredType, bucket, part, entity, by }: IncomingFile
  ): Promise<Received> {
    const id = randomUUID()
    const limit = limitOf(tenant.plan, bucket, part)
    if (expected !== null && expected - fieldBytes > limit.maxBytes) throw limit.refusal(expected)
    const hold = holdStorage(usage(), tenant.id, { maxBytes: limit.maxBytes, isKnown: expected !== null })
    try {
      if (expected !== null) await hold.need(Math.min(expected, limit.maxBytes))
      const at = now()
      await dbFor(tenant.id).transaction().execute((transaction) =>
        store.insert(transaction, tenant.life, {
          tenant: tenant.id,
          id,
          bucket: bucket?.name ?? '',
          name: '',
          contentType: '',
          size: 0,
          counted: 0,
          entityType: entity?.entityType ?? null,
          entityId: entity?.entityId ?? null,
          metadata: {},
          createdBy: by.sub,
          createdAt: new Date(at),
          depth: 0,
          expiresAt: new Date(at + longestUpload)
        })
      )
      const judge = (contentType: string) => {
        if (bucket !== null) requireType(bucket, contentType)
        if (part !== undefined) refuseOtherTypes(`The part "${part.name}"`, part.types, contentType)
      }
      const intake = new Intake({ limit, hold, expected, declaredType, judge })
      await transfer(bytes, intake, (stream) => objects.put(keyOf(tenant.id, id), stream, storedTypeOf(declaredType), by.sub !== ''))
      return { id, size: intake.size, sha256: intake.sha256, contentType: intake.contentType, hold }
    } catch (error) {
      await discard(tenant.id, { id, hold })
      throw error
    }
  }

  /** Adds a file whose bytes arrive later, and books its storage now. Rejects with `fileTooLarge`, `planLimit` and `fileTypeRefused`. */
  async function announce (
    tenant: UploadTenant,
    { bucket, origin: _origin, ...details }: FileProperties,
    announced: Pick<NewFile, 'id' | 'contentType' | 'size' | 'status' | 'expiresAt' | 'uploadUntil'>,
    by: Uploader
  ): Promise<void> {
    const { contentType, size } = announced
    const limit = limitOf(tenant.plan, bucket)
    if (size > limit.maxBytes) throw limit.refusal(size)
    requireType(bucket, essenceOf(contentType))
    const hold = holdStorage(usage(), tenant.id, { maxBytes: size, isKnown: true })
    try {
      await hold.need(size)
      await dbFor(tenant.id).transaction().execute(async (transaction) => {
        await store.insert(transaction, tenant.life, {
          ...details,
          ...announced,
          tenant: tenant.id,
          bucket: bucket.name,
          counted: usage() === null ? 0 : size,
          createdBy: by.sub,
          createdAt: new Date(now()),
          depth: by.depth ?? 0
        })
        await hold.settle(size, transaction)
        if (by.actor.claim !== undefined) await markClaim<SystemTables>(transaction, by.actor.claim)
      })
    } catch (error) {
      await hold.release()
      throw error
    }
  }

  /** The file of a received upload. Throws `fileTooLarge` and `fileTypeRefused`. */
  function fileOf (
    tenant: UploadTenant,
    { id, size, sha256, contentType }: Received,
    { bucket, origin: _origin, ...details }: FileProperties,
    by: Uploader
  ): StoredFile {
    const limit = limitOf(tenant.plan, bucket)
    if (size > limit.maxBytes) throw limit.refusal(size)
    requireType(bucket, contentType)
    const stored = { id, tenant: tenant.id, contentType, size, sha256, createdBy: by.sub, createdAt: new Date(now()) }
    return { ...details, ...stored, bucket: bucket.name, depth: by.depth ?? 0 }
  }

  /** Makes the file readable when the transaction commits. The caller then wakes webhooks and the quarantine. */
  async function complete (
    transaction: SystemTransaction,
    file: StoredFile,
    { hold }: Received,
    { bucket, origin }: FileProperties,
    by: Uploader
  ): Promise<StoredFile> {
    const complete = await store.complete(transaction, file, expiryOf(bucket, file.createdAt), origin)
    if (complete === null) throw failure('stateConflict', { message: 'The upload took longer than one day, or its entity was deleted' })
    await hold.settle(file.size, transaction)
    await writeCreated(transaction, emitter(), complete, by)
    return complete
  }

  /** Call it when files of the tenant may have been committed. */
  function wake (tenant: Owner): void {
    emitter()?.wake()
    quarantine?.wake(tenant)
  }

  /** Makes an announced file readable. null if it has expired or was ended, also with its tenant. */
  async function completeAnnounced (file: StoredFile, bucket: Bucket, by: Uploader): Promise<StoredFile | null> {
    const done = await dbFor(file.tenant).transaction().execute(async (transaction) => {
      const done = await store.complete(transaction, file, expiryOf(bucket, new Date(now())))
      if (done !== null) await writeCreated(transaction, emitter(), done, by)
      return done
    }).catch((error: unknown) => {
      if (isFailure(error, 'tenantUnknown')) return null
      throw error
    })
    if (done !== null) wake(file.tenant)
    return done
  }

  /** Makes the file readable. On failure nothing of it is left. */
  async function finish (tenant: UploadTenant, received: Received, described: FileProperties, by: Uploader): Promise<StoredFile> {
    try {
      const file = fileOf(tenant, received, described, by)
      const done = await dbFor(tenant.id).transaction().execute((transaction) => complete(transaction, file, received, described, by))
      wake(tenant.id)
      return done
    } catch (error) {
      await discard(tenant.id, received)
      throw error
    }
  }

  /** Removes an upload that is not readable yet. If that fails, the sweep removes it. */
  async function discard (tenant: Owner, { id, hold }: Pick<Received, 'id' | 'hold'>): Promise<void> {
    try {
      await hold.release()
      const at = new Date(now())
      const removed = await dbFor(tenant).transaction().execute((transaction) => store.remove(transaction, tenant, id, ['pending'], at))
      // The file may be complete although the database's response was lost.
      if (removed === undefined && await store.findUpload(tenant, id) !== null) return
      await objects.delete(keyOf(tenant, id))
      await store.forget(tenant, id, at)
    } catch (err) {
      log.warn({ err, tenant, file: id }, 'an upload that failed could not be removed; the sweep removes it')
    }
  }

  return {
    announce,
    receive,
    fileOf,
    complete,
    completeAnnounced,
    finish,
    wake,
    discard,
    /** Runs an upload within the limits of concurrent uploads. `address`: of a caller without a token. */
    inPlace: <T>(tenant: Owner, work: () => Promise<T>, address?: string): Promise<T> => places.run(tenant, work, address),
    close: () => places.close()
  }
}

/** Passes the bytes through the intake to the store. Rejects with the first error: of the intake, of the store or of the source. */
export async function transfer<T> (bytes: Readable, intake: Intake, put: (stream: Readable) => Promise<T>): Promise<T> {
  const storing = put(intake).catch((error: Error) => {
    // A failed store may have read nothing, and the sender would wait.
    intake.destroy(error)
    throw error
  })
  let sourceError: unknown
  bytes.once('error', (error) => {
    // A failed store destroys the intake with its error, and the intake in turn destroys the source.
    if (!intake.destroyed) sourceError = error
  })
  const [, stored] = await Promise.allSettled([pipeline(bytes, intake), storing])
  if (stored.status === 'fulfilled') return stored.value
  throw intake.refusal ?? sourceError ?? stored.reason
}

function expiryOf ({ lifetimeMs }: Bucket, at: Date): Date | null {
  return lifetimeMs === null ? null : new Date(at.getTime() + lifetimeMs)
}

export function requireType ({ name, types }: Bucket, contentType: string): void {
  refuseOtherTypes(`The bucket "${name}"`, types, contentType)
}

function refuseOtherTypes (owner: string, types: readonly string[] | undefined, contentType: string): void {
  if (types === undefined || admitsType(types, contentType)) return
  throw failure('fileTypeRefused', { message: `${owner} does not accept files of the type ${contentType}: expected ${types.join(', ')}` })
}

/** A route may be open to callers without a token. */
export function uploaderOf (request: FastifyRequest): Uploader {
  return { sub: request.auth?.sub ?? '', actor: actorOf(request) }
}
