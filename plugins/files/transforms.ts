/**
 * Images in other sizes and formats. The first request creates an image, which is stored as an object beside the file. The row is
 * inserted before the object. If the process ends in between, a later request creates the image again.
 */
import { hash } from 'node:crypto'
import { type Readable, Readable as Stream } from 'node:stream'
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { failure, isFailure, retryIn } from '../../lib/errors.js'
import { type ImageTransform, imageTypes, maxSeconds, transformImage, transformName } from '../../lib/files/images.js'
import type { ByteRange } from '../../lib/files/store.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { holdStorage } from './intake.js'
import { keyOf } from './store.js'
import type { KeptTransform, Transform, TransformStore } from './transform-store.js'
import type { StoredFile } from './types.js'
import type { UploadParts } from './uploads.js'

const atOnce = 2 // in a process; the limiter leaves one of them to other tenants
const maxOfTenant = 32 // transforms that run or wait
const maxOfAddress = 8 // of an address without a token, or of another tenant
const maxRunningOfAddress = 1 // so that each has one turn, even if it asks for images of many tenants
const maxWait = (maxSeconds + 10) * 1000 // ms, so that a tenant that waits is served after the longest transform
const retryAfter = 5 // s
const putMs = 60_000 // ms after which a row without an object counts as abandoned
const leastKept = 1_048_576 // bytes of transforms that any file may have, even a small one
const keptPerByte = 2

/** An image, with access to its bytes or a range of them. */
export interface MadeImage extends Pick<Transform, 'contentType' | 'size' | 'sha256'> {
  /** A stream of a stored image, and otherwise a buffer, so that the response counts with its size. */
  readonly bytes: (range?: ByteRange) => Promise<Readable | Buffer | null>
}

export type Transforms = ReturnType<typeof createTransforms>

interface TransformsParts extends Pick<UploadParts, 'objects' | 'dbFor' | 'usage' | 'log'> {
  readonly transforms: TransformStore
}

export function createTransforms ({ objects, transforms, dbFor, usage, log }: TransformsParts) {
  const busy = () => failure('transformsBusy', retryIn(retryAfter))
  const places = createTenantLimiter({
    maxOfTenant,
    maxOfAddress,
    maxRunningOfAddress,
    maxInAll: atOnce,
    maxWait,
    tooManyOfTenant: busy,
    tooManyInAll: busy
  })
  /** By object key, those for callers with an `account` apart: they have their own turns. */
  const running = new Map<string, Promise<MadeImage>>()

  async function findOrMake (file: StoredFile, name: string, parameters: ImageTransform, account?: string): Promise<MadeImage> {
    const { tenant, id } = file
    const key = transformKey(tenant, id, name)
    const kept = await transforms.find(tenant, id, name)
    const isThere = kept !== null && await objects.stat(key) !== null
    if (isThere) return { ...kept, bytes: (range) => objects.get(key, range) }
    const { bytes, contentType } = await places.run(tenant, async () => {
      const original = await objects.get(keyOf(tenant, id))
      if (original === null) throw failure('notFound')
      return await transformImage(original, parameters)
    }, account)
    const made: Transform = {
      tenant,
      file: id,
      name,
      contentType,
      size: bytes.length,
      sha256: hash('sha256', bytes)
    }
    // Another server may be about to store the object.
    if (kept === null || kept.ageMs > putMs) {
      await keep(file, made, key, bytes, kept).catch((err: unknown) => {
        log.warn({ err, tenant, file: id }, 'a transformed image could not be stored; the next request transforms it again')
      })
    }
    // A view would keep the whole image in memory.
    const part = ({ start, end }: ByteRange) => Buffer.from(bytes.subarray(start, end + 1))
    return { ...made, bytes: async (range) => range === undefined ? bytes : part(range) }
  }

  /** Stores nothing if there is no room. */
  async function keep (file: StoredFile, made: Transform, key: string, bytes: Buffer, lost: KeptTransform | null): Promise<void> {
    const { tenant, id } = file
    if (lost !== null) await drop(lost)
    const hold = holdStorage(usage(), tenant, { maxBytes: made.size, isKnown: true })
    let createdAt: Date | null
    try {
      await hold.need(made.size)
      createdAt = await dbFor(tenant).transaction().execute(async (transaction) => {
        const added = await transforms.add(transaction, made, Math.max(leastKept, file.size * keptPerByte))
        if (added !== null) await hold.settle(made.size, transaction)
        return added
      })
      if (createdAt === null) return await hold.release()
    } catch (error) {
      await hold.release()
      if (isFailure(error, 'planLimit')) return
      throw error
    }
    try {
      await objects.put(key, Stream.from([bytes]), made.contentType)
    } catch (error) {
      await drop({ ...made, createdAt })
      throw error
    }
    // The file may have been deleted meanwhile, with its earlier objects. The row ends only after them.
    if (await transforms.find(tenant, id, made.name) === null) await objects.delete(key)
  }

  async function drop (transform: Transform & Pick<KeptTransform, 'createdAt'>): Promise<void> {
    await dbFor(transform.tenant).transaction().execute(async (transaction) => {
      if (await transforms.drop(transaction, transform)) await usage()?.free(transform.tenant, 'storage_bytes', transform.size, transaction)
    })
  }

  function begin (key: string, file: StoredFile, name: string, parameters: ImageTransform, account?: string): Promise<MadeImage> {
    const making = findOrMake(file, name, parameters, account).finally(() => running.delete(key))
    running.set(key, making)
    return making
  }

  return {
    /**
     * null without parameters. Rejects with `transformsBusy`, and with `badRequest` for a file that is not an image or is too large.
     * `account`: of a caller without a token, or of another tenant.
     */
    async of (file: StoredFile, parameters: ImageTransform, account?: string): Promise<MadeImage | null> {
      const text = transformName(parameters)
      if (text === null) return null
      if (file.scan !== undefined) throw failure('stateConflict', { message: 'The file is in quarantine: it cannot be transformed' })
      if (!imageTypes.has(file.contentType)) {
        throw failure('badRequest', {
          message: `Files of the type ${file.contentType} cannot be transformed: only JPEG, PNG, WebP, AVIF and GIF images can`
        })
      }
      const name = hash('sha256', text).slice(0, 32)
      const key = `${transformKey(file.tenant, file.id, name)}${account === undefined ? '' : ' of strangers'}`
      const making = running.get(key)
      if (making === undefined) return await begin(key, file, name, parameters, account)
      try {
        return await making
      } catch (error) {
        // The limit of another account, or an earlier wait, does not count for this caller.
        if (!isFailure(error, 'transformsBusy')) throw error
        return await (running.get(key) ?? begin(key, file, name, parameters, account))
      }
    },

    /** Deletes the objects of all transforms of a file. */
    async deleteObjects (tenant: Owner, id: string): Promise<void> {
      for (const name of await transforms.names(tenant, id)) await objects.delete(transformKey(tenant, id, name))
    },
    close: () => places.close()
  }
}

function transformKey (tenant: Owner, id: string, name: string): string {
  return `${keyOf(tenant, id)}-${name}`
}
