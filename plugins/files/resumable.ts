/**
 * Uploads by the tus protocol 1.0 (https://tus.io/protocols/resumable-upload), with @tus/server. A request announces a file and its
 * size. Further requests send the bytes to any instance. The last one makes the file readable.
 */
import { type Readable, Readable as ReadableStream } from 'node:stream'
import type { Server } from '@tus/server'
import type { FileStatus } from '../../lib/database/files-table.js'
import { failure, type OtherName, TenantryError } from '../../lib/errors.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { dayMs } from '../../lib/time/spans.js'
import { invalidInput } from '../../lib/validation/detail.js'
import type { Buckets } from './buckets.js'
import { mediaType, storedTypeOf, unknownType } from './content-type.js'
import { exactly, Intake } from './intake.js'
import type { FileParts } from './parts.js'
import type { Removal } from './removal.js'
import { keyOf } from './store.js'
import type { StoredFile, Uploader } from './types.js'
import { createUploadLocks } from './upload-locks.js'
import { type FileProperties, requireType, transfer, type UploadParts, type Uploads, type UploadTenant } from './uploads.js'

/** The caller of a request, and its upload. */
export interface ResumableCall {
  readonly tenant: UploadTenant
  readonly by: Uploader
  /** The id of the upload; a new id for an announcement. */
  readonly id: string
  /** Checks the metadata of the announcement, and that the caller may use the bucket. Rejects like `describe`. */
  readonly describe: (metadata: Readonly<Record<string, string | null>>) => Promise<FileProperties>
  /** Identifies the caller again after a slow body. */
  readonly renew: () => Promise<void>
  /** The path of the upload. */
  readonly path: string
}

interface ResumableParts extends Pick<UploadParts, 'objects' | 'store' | 'now' | 'log'> {
  readonly uploads: Uploads
  readonly removal: Removal
  readonly parts: FileParts
  readonly buckets: Buckets
}

/** The last write of each upload, until its bytes are stored. */
type Writes = Map<string, Promise<unknown>>

/** Answers a tus request. Rejects with an error of the catalogue. */
export type Resumable = (request: Request, call: ResumableCall) => Promise<Response>

const lifeMs = dayMs // from the announcement on
const known: ReadonlySet<FileStatus> = new Set(['resumable', 'quarantined', 'ready'])

export function createResumable (parts: ResumableParts): Resumable {
  const calls = new WeakMap<Request, ResumableCall>()
  const writes: Writes = new Map()
  let server: Promise<Server> | undefined
  return async (request, call) => {
    // The package is loaded on demand: most servers get no such request.
    server ??= createServer(parts, calls, writes)
    calls.set(request, call)
    // For a body that ends early, the package does not wait until its bytes are stored.
    const response = await (await server).handleWeb(request).finally(() => writes.get(keyOfCall(call)))
    if (response.status < 400) return response
    throw refusal(response.status, await response.text())
  }
}

async function createServer (
  { objects, store, now, uploads, removal, parts, buckets, log }: ResumableParts,
  calls: WeakMap<Request, ResumableCall>,
  writes: Writes
): Promise<Server> {
  const { DataStore, Server, Upload } = await import('@tus/server')
  const finishing = new Map<string, Promise<void>>()

  function callOf (request: object): ResumableCall {
    const call = request instanceof Request ? calls.get(request) : undefined
    if (call === undefined) throw new Error('the request has no caller')
    return call
  }

  /** The caller's upload. Uploads of other callers are unknown to the caller. */
  async function find ({ tenant, id, by }: ResumableCall): Promise<{ readonly file: StoredFile, readonly isReady: boolean }> {
    const found = await store.findUpload(tenant.id, id)
    const isKnown = found !== null && found.file.createdBy === by.sub && known.has(found.status)
    if (!isKnown) throw unknown()
    return { file: found.file, isReady: found.status !== 'resumable' }
  }

  /** Requests at the same time share the work. */
  function finish (call: ResumableCall): Promise<void> {
    const key = keyOfCall(call)
    const running = finishing.get(key) ?? makeFile(call).finally(() => finishing.delete(key))
    finishing.set(key, running)
    return running
  }

  /** Joins the parts, and makes the file readable. */
  async function makeFile (call: ResumableCall): Promise<void> {
    const { tenant: { id: tenant }, id, by } = call
    const { file: announced, isReady } = await find(call)
    if (isReady) return
    const { size, contentType: declaredType } = announced
    const bucket = buckets.get(announced.bucket, '/body/bucket')
    const wrongSize = () => failure('stateConflict', { message: 'The upload is not complete' })
    const intake = new Intake({ ...exactly(size, wrongSize), declaredType, judge: (contentType) => requireType(bucket, contentType) })
    try {
      await transfer(
        ReadableStream.from(parts.bytes(tenant, id), { objectMode: false }),
        intake,
        (stream) => objects.put(keyOf(tenant, id), stream, storedTypeOf(declaredType))
      )
    } catch (error) {
      // Another request has made the file, and removed the parts.
      if (await store.findStored(tenant, id) !== null) return
      if (intake.refusal !== undefined) await removal.drop(tenant, id, ['resumable'])
      throw error
    }
    const file = { ...announced, contentType: intake.contentType, sha256: intake.sha256, createdAt: new Date(now()) }
    if (await uploads.completeAnnounced(file, bucket, by) === null && await store.findStored(tenant, id) === null) {
      // The upload was ended meanwhile. The sweep may have removed it before the object was stored.
      await removal.drop(tenant, id, ['resumable'])
      await objects.delete(keyOf(tenant, id))
      throw unknown()
    }
    await parts.remove(tenant, id).catch((err: unknown) => {
      log.warn({ err, tenant, file: id }, 'the parts of a complete upload could not be deleted; the sweep deletes them')
    })
  }

  /** The store for @tus/server, which identifies uploads by id alone: here, `<tenant>/<id>`. */
  class Store extends DataStore {
    override extensions = ['creation', 'creation-with-upload', 'termination', 'expiration']

    override async create (upload: InstanceType<typeof Upload>): Promise<InstanceType<typeof Upload>> {
      upload.creation_date = new Date(now()).toISOString()
      return upload
    }

    override async write (bytes: Readable, key: string, offset: number): Promise<number> {
      const [tenant, id] = splitKey(key)
      const added = parts.add(tenant, id, offset, bytes)
      const ended = added.catch(() => {}).finally(() => {
        if (writes.get(key) === ended) writes.delete(key)
      })
      writes.set(key, ended)
      return offset + await added
    }

    override async getUpload (key: string): Promise<InstanceType<typeof Upload>> {
      const [tenant, id] = splitKey(key)
      const found = await store.findUpload(tenant, id)
      if (found === null) throw unknown()
      const { file: { name, contentType, size, createdAt }, status } = found
      const offset = status !== 'resumable' ? size : await parts.size(tenant, id)
      return new Upload({
        id: key,
        size,
        offset,
        metadata: { filename: name, filetype: contentType },
        creation_date: createdAt.toISOString()
      })
    }

    override async remove (key: string): Promise<void> {
      const [tenant, id] = splitKey(key)
      await removal.drop(tenant, id, ['resumable'])
    }

    override getExpiration (): number {
      return lifeMs
    }
  }

  return new Server({
    path: '/files/resumable',
    datastore: new Store(),
    locker: createUploadLocks(),
    disableTerminationForFinishedUploads: true,
    allowedOrigins: () => false,
    namingFunction: (request) => keyOfCall(callOf(request)),
    getFileIdFromRequest: (request) => keyOfCall(callOf(request)),
    generateUrl: (request) => callOf(request).path,
    async onIncomingRequest (request) {
      if (request.method === 'POST') return
      const call = callOf(request)
      const { file: { size }, isReady } = await find(call)
      // The request with the last bytes may have made no file, as on a full disk. A client that reads the full offset sends no other.
      if (request.method === 'HEAD' && !isReady && await parts.size(call.tenant.id, call.id) === size) {
        await uploads.inPlace(call.tenant.id, () => finish(call))
      }
    },
    async onUploadCreate (request, { size = 0, metadata = {} }) {
      const { tenant, by, id, describe } = callOf(request)
      const contentType = metadata['filetype'] || unknownType
      if (!mediaType.test(contentType)) throw invalidInput('/body/filetype', 'must be a media type, such as `text/plain`', 'pattern')
      await uploads.announce(tenant, await describe(metadata), {
        id,
        contentType,
        size,
        status: 'resumable',
        expiresAt: new Date(now() + lifeMs)
      }, by)
      return {}
    },
    async onUploadFinish (request) {
      const call = callOf(request)
      await call.renew()
      await finish(call)
      return {}
    },
    onResponseError (_request, error) {
      throw error instanceof TenantryError || !('status_code' in error) ? error : refusal(error.status_code, error.body)
    }
  })
}

function unknown (): TenantryError {
  return failure('notFound', { message: 'There is no such upload, or it has expired' })
}

const keyOfCall = ({ tenant, id }: ResumableCall) => keyOf(tenant.id, id)

function splitKey (key: string): [tenant: Owner, id: string] {
  const slash = key.indexOf('/')
  return [tenantRef(key.slice(0, slash)), key.slice(slash + 1)]
}

const names: Readonly<Record<number, OtherName>> = {
  403: 'forbidden',
  404: 'notFound',
  409: 'stateConflict',
  410: 'notFound',
  412: 'preconditionFailed',
  413: 'fileTooLarge',
  415: 'mediaTypeUnsupported',
  501: 'badRequest' // an extension of the protocol that this server lacks
}

/** Converts an error response of the package to an error of the catalogue. */
function refusal (status: number, text: string): TenantryError {
  const name = names[status] ?? (status < 500 ? 'badRequest' : 'internal')
  return name === 'internal' ? failure(name, { cause: new Error(text) }) : failure(name, { message: text.trim() })
}
