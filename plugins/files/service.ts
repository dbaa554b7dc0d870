/** `app.files`, and the methods for its endpoints. */
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'
import type { ByteRange } from '../../lib/files/store.js'
import { accountOf, addressWithoutToken } from '../../lib/http/account.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { Stopping } from '../../lib/plugin/lifecycle.js'
import type { Tenants } from '../tenancy/index.js'
import { reading } from './body.js'
import type { Buckets } from './buckets.js'
import { disposition, headerOf } from './content-type.js'
import { shownFile } from './events.js'
import { describe } from './input.js'
import { createOpenDownloads } from './open-downloads.js'
import { createFileParts } from './parts.js'
import type { Quarantine } from './quarantine.js'
import { createRemoval } from './removal.js'
import { createResumable } from './resumable.js'
import { createSignedUploads, type Signer } from './signed-uploads.js'
import { keyOf } from './store.js'
import { createTransformStore } from './transform-store.js'
import { createTransforms } from './transforms.js'
import type { Files, StoredFile } from './types.js'
import { createUploads, type UploadParts } from './uploads.js'

export interface FilesParts extends UploadParts {
  readonly quarantine: Pick<Quarantine, 'wake' | 'check'> | null
  readonly tenants: Pick<Tenants, 'get'>
  readonly buckets: Buckets
  /** null without a master key. */
  readonly signer: Signer | null
  /** The prefix of the endpoints' paths. */
  readonly prefix: string
  /** Milliseconds over which an upload must bring 1 KB a second. */
  readonly slowMs: number
  readonly stopping: () => Stopping | null
  readonly trustsHeader: boolean
  /** How long signed URLs are valid, if the request does not set it. */
  readonly signedUrlSeconds: number
}

/** The service, and the methods for its plugin. */
export type FilesService = ReturnType<typeof createFiles>

export function createFiles ({ tenants, buckets, signer, signedUrlSeconds, slowMs, stopping, prefix, trustsHeader, ...parts }: FilesParts) {
  const { objects, store, quarantine, now } = parts
  const uploads = createUploads(parts)
  const transforms = createTransforms({ ...parts, transforms: createTransformStore(parts.dbFor) })
  const fileParts = createFileParts(objects, parts.dbFor)
  const removal = createRemoval({ ...parts, transforms, parts: fileParts })
  const signed = createSignedUploads({ ...parts, tenants, uploads, removal, buckets, signer, prefix, seconds: signedUrlSeconds })

  const files: Files = {
    async put (tenant: Owner, { name, bucket, contentType, entityType, entityId, metadata }, bytes, by, size) {
      const found = await tenants.get(tenant)
      if (found === null) throw failure('tenantUnknown')
      const fields = { name, bucket, entityType, entityId, metadata: metadata === undefined ? undefined : stringifyJson(metadata) }
      const described = describe(fields, buckets)
      return await uploads.inPlace(tenant, async () => {
        const { bucket } = described
        const incoming = { bytes, expected: size ?? null, declaredType: contentType, bucket, entity: described, by }
        const received = await uploads.receive(found, incoming)
        return await uploads.finish(found, received, described, by)
      })
    },
    get: (tenant: Owner, id) => store.find(tenant, id),
    async open (tenant: Owner, id, range) {
      const file = await store.find(tenant, id)
      return file === null ? null : await objects.get(keyOf(tenant, file.id), range)
    },
    list: (tenant: Owner, entity, page) => store.list(tenant, entity, buckets.all.map(({ name }) => name), page),
    remove: removal.delete,
    checkScanner: quarantine === null ? null : (timeoutMs) => quarantine.check(timeoutMs),
    permissions: (bucket) => buckets.find(bucket)?.permissions ?? null
  }

  return {
    files,
    tenants,
    buckets,
    log: parts.log,
    store,
    /** See `reading` in body.ts. */
    reading: <T>(raw: IncomingMessage, work: (slow: Promise<never>) => Promise<T>) =>
      reading(raw, slowMs, stopping()?.ending, work),
    openDownloads: createOpenDownloads(),
    /** See account.ts. */
    accountOf: (request: FastifyRequest) => accountOf(request, trustsHeader),
    addressWithoutToken: (request: Pick<FastifyRequest, 'auth' | 'ip'>) => addressWithoutToken(request, trustsHeader),
    /** A file as the endpoints return it. */
    shown (file: StoredFile) {
      const shown = shownFile(file)
      return { ...shown, public: buckets.find(file.bucket)?.isPublic === true, url: `${prefix}/files/download/${file.bucket}/${shown.key}` }
    },
    uploads,
    removal,
    transforms,
    signed,
    resumable: createResumable({ ...parts, uploads, removal, buckets, parts: fileParts }),
    /** The bytes of a file that was found. */
    bytesOf: ({ tenant, id }: StoredFile, range?: ByteRange): Promise<Readable | null> => objects.get(keyOf(tenant, id), range),
    /** A signed URL for a download, from this server or from the store. */
    async signDownload ({ tenant, id, bucket, name, contentType, scan }: StoredFile, seconds = signedUrlSeconds) {
      if (scan !== undefined) throw failure('stateConflict', { message: 'The file is in quarantine: download it with a token' })
      const expires = Math.floor(now() / 1000) + seconds
      const expiresAt = new Date(expires * 1000)
      const remote = await objects.sign(keyOf(tenant, id), {
        method: 'GET',
        seconds,
        contentType: headerOf(contentType),
        contentDisposition: disposition(name, false)
      })
      if (remote !== null) return { url: remote.url, expiresAt }
      if (signer === null) throw failure('signingNotConfigured')
      const signature = signer.sign({ method: 'GET', tenant, bucket, id, expires })
      return { url: `${prefix}/files/download/${bucket}/${keyOf(tenant, id)}?expires=${expires}&signature=${signature}`, expiresAt }
    },
    /** Whether a download's signature is valid and has not expired. */
    admitsDownload: (file: Pick<StoredFile, 'tenant' | 'bucket' | 'id'>, expires: number, signature: string): boolean =>
      signer !== null && expires * 1000 > now() && signer.verify({ method: 'GET', ...file, expires }, signature),
    close () {
      uploads.close()
      transforms.close()
    }
  }
}
