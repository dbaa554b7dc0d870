/** Stores files in a bucket of S3, or of an S3-compatible service: R2, Supabase Storage, MinIO, Swift. */
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { Readable, type Readable as Stream } from 'node:stream'
import { lookupForSocket } from '../concurrency/shared-lookup.js'
import { failure } from '../errors.js'
import { tenantRef } from '../identity/tenant-ref.js'
import type { S3 } from '../schema/files.js'
import { checkKey, type IncompleteUpload, type ObjectStore, type StoredObject } from './store.js'
import { storedBytes } from './stored-bytes.js'
import { createUploadPlaces, inBlocks, takePlace } from './upload-memory.js'

const partSize = 5_242_880 // bytes per part of an upload, the minimum of S3. An upload has at most 10,000
const largestRequest = 5 * 1024 ** 3 // bytes that one request can upload or copy
const smallSize = 262_144 // bytes of an upload that needs no place
const connectionTimeout = 5_000 // ms
const silentMs = 30_000 // without a byte
const maxSockets = 1_000
const connecting = { keepAlive: true, maxSockets, lookup: lookupForSocket }

/** The position after a page of incomplete uploads. */
interface UploadMarkers {
  readonly KeyMarker?: string | undefined
  readonly UploadIdMarker?: string | undefined
}

export interface S3Store extends ObjectStore {
  /** The incomplete uploads of the whole bucket, in pages. Some services list none. */
  readonly incompleteUploads: () => AsyncIterable<readonly IncompleteUpload[]>
}

/** Rejects if the packages are missing. */
export async function createS3Store (
  { endpoint, region, bucket, accessKeyId, secretAccessKey, forcePathStyle = endpoint !== undefined }: S3,
  socketTimeout = silentMs
): Promise<S3Store> {
  const { s3, Upload, getSignedUrl } = await loadPackages()
  let isClosed = false

  function createClient () {
    const client = new s3.S3Client({
      region,
      ...endpoint !== undefined && { endpoint },
      forcePathStyle,
      credentials: { accessKeyId, secretAccessKey },
      // Services other than Amazon's would store the checksums of streams as part of the bytes.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      requestHandler: {
        connectionTimeout,
        socketTimeout,
        httpAgent: new HttpAgent(connecting),
        httpsAgent: new HttpsAgent(connecting)
      }
    })
    // The client would try twice more, also if `cause` were the time-out. Callers would wait for a minute and a half.
    client.middlewareStack.add((next) => async (args) => {
      try {
        if (!isClosed) return await next(args)
      } catch (error) {
        if (!isClosed) throw nameOf(error) === 'TimeoutError' ? new Error(`the store has been silent for ${socketTimeout} ms`) : error
      }
      throw new Error('the connection to the store is closed')
    }, { step: 'deserialize', priority: 'low' })
    return client
  }

  const client = createClient()
  // A download holds its connection for as long as its caller reads. Other operations must not wait for it.
  const downloads = createClient()
  const places = createUploadPlaces()
  const at = (key: string) => ({ Bucket: bucket, Key: checkKey(key) })

  return {
    async put (key, bytes, contentType, hasToken = true) {
      const [tenant = ''] = checkKey(key).split('/', 1)
      let place: ReturnType<typeof takePlace> | undefined
      let size = 0
      let sourceError: unknown
      async function * counted () {
        try {
          for await (const chunk of bytes) {
            if (!(chunk instanceof Uint8Array)) throw new TypeError('the stream of a file must contain bytes')
            size += chunk.length
            if (size > smallSize) await (place ??= takePlace(places, tenantRef(tenant), hasToken, bytes)).ready
            yield chunk
          }
        } catch (error) {
          sourceError = error
          throw error
        }
      }
      const params = { ...at(key), Body: Readable.from(inBlocks(counted()), { objectMode: false }), ContentType: contentType }
      // The iteration reports errors of the source. A failed upload also ends the source, with an error that does not come from it.
      bytes.on('error', () => {})
      try {
        await new Upload({ client, params, partSize, queueSize: 1, leavePartsOnError: false }).done()
      } catch (error) {
        bytes.destroy()
        throw sourceError ?? translate(error)
      } finally {
        place?.release()
      }
      return size
    },

    async get (key, range) {
      const found = await orNull(
        downloads.send(new s3.GetObjectCommand({ ...at(key), ...range && { Range: `bytes=${range.start}-${range.end}` } }))
      )
      return found === null ? null : readable(found.Body)
    },

    async stat (key) {
      const found = await orNull(client.send(new s3.HeadObjectCommand(at(key))))
      return found === null ? null : stored(key, found.ContentLength, found.LastModified)
    },

    async copy (from, to) {
      return await orNull(client.send(new s3.CopyObjectCommand({ ...at(to), CopySource: `${bucket}/${checkKey(from)}` }))) !== null
    },

    async delete (key) {
      await orNull(client.send(new s3.DeleteObjectCommand(at(key))))
    },

    async * list (prefix) {
      try {
        for await (const page of s3.paginateListObjectsV2({ client }, { Bucket: bucket, Prefix: prefix })) {
          yield (page.Contents ?? []).flatMap(({ Key, Size, LastModified }) => Key === undefined ? [] : [stored(Key, Size, LastModified)])
        }
      } catch (error) {
        throw translate(error)
      }
    },

    async * incompleteUploads () {
      const abort = (Key: string, UploadId: string) => async () => {
        await orNull(client.send(new s3.AbortMultipartUploadCommand({ Bucket: bucket, Key, UploadId })))
      }
      let markers: UploadMarkers = {}
      try {
        for (let isMore = true; isMore;) {
          const page = await client.send(new s3.ListMultipartUploadsCommand({ Bucket: bucket, ...markers }))
          yield (page.Uploads ?? []).flatMap(({ Key, UploadId, Initiated }) =>
            Key === undefined || UploadId === undefined || Initiated === undefined
              ? []
              : [{ key: Key, startedAt: Initiated, abort: abort(Key, UploadId) }]
          )
          markers = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
          isMore = page.IsTruncated === true && page.NextKeyMarker !== undefined
        }
      } catch (error) {
        throw translate(error)
      }
    },

    async sign (key, signing) {
      const { method, seconds, contentType } = signing
      if (method === 'GET') {
        const command = new s3.GetObjectCommand({
          ...at(key),
          ResponseContentType: contentType,
          ResponseContentDisposition: signing.contentDisposition
        })
        return { method, url: await getSignedUrl(client, command, { expiresIn: seconds }), headers: {} }
      }
      // The server sends a larger object in parts.
      if (signing.size > largestRequest) return null
      const headers = { 'content-type': contentType, 'content-length': String(signing.size) }
      const command = new s3.PutObjectCommand({ ...at(key), ContentType: contentType, ContentLength: signing.size })
      return {
        method,
        url: await getSignedUrl(client, command, { expiresIn: seconds, signableHeaders: new Set(['host', ...Object.keys(headers)]) }),
        headers
      }
    },

    async check () {
      await client.send(new s3.HeadBucketCommand({ Bucket: bucket })).catch((error: unknown) => {
        throw translate(error)
      })
    },

    async close () {
      isClosed = true
      places.close()
      client.destroy()
      downloads.destroy()
    }
  }
}

function stored (key: string, size = 0, modifiedAt = new Date(0)): StoredObject {
  return { key, size, modifiedAt }
}

function readable (body: unknown): Stream {
  if (body instanceof Readable) return storedBytes(body, translate)
  throw failure('storageUnavailable', { cause: new Error('the response has no body') })
}

async function orNull<T> (response: Promise<T>): Promise<T | null> {
  try {
    return await response
  } catch (error) {
    if (absent.has(nameOf(error))) return null
    throw translate(error)
  }
}

// The response to HEAD has no body that could name the error.
const absent = new Set(['NotFound', 'NoSuchKey', 'NoSuchUpload'])
const full = new Set(['InsufficientStorage', 'QuotaExceeded', 'XMinioStorageFull'])

function nameOf (error: unknown): string {
  return error instanceof Error ? error.name : ''
}

function translate (error: unknown): unknown {
  return failure(full.has(nameOf(error)) ? 'storageFull' : 'storageUnavailable', { cause: error })
}

async function loadPackages () {
  try {
    const [s3, { Upload }, { getSignedUrl }] = await Promise.all([
      import('@aws-sdk/client-s3'),
      import('@aws-sdk/lib-storage'),
      import('@aws-sdk/s3-request-presigner')
    ])
    return { s3, Upload, getSignedUrl }
  } catch (error) {
    throw new Error('S3 needs three packages: npm i @aws-sdk/client-s3@3 @aws-sdk/lib-storage@3 @aws-sdk/s3-request-presigner@3', {
      cause: error
    })
  }
}
