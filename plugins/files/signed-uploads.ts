/**
 * Uploads without a token: a caller announces a file, sends its bytes to a signed URL, and confirms. Storage is booked from the
 * announcement on, and released if the bytes do not arrive.
 */
import { createHmac, hkdfSync, randomUUID, timingSafeEqual } from 'node:crypto'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Static } from 'typebox'
import { failure, type TenantryError } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { MasterKey, MasterKeys } from '../../lib/secrets/master-key.js'
import { dayMs } from '../../lib/time/spans.js'
import type { Tenants } from '../tenancy/index.js'
import { requireActive } from '../tenancy/tenant.js'
import type { Bucket, Buckets } from './buckets.js'
import { exactly, Intake } from './intake.js'
import type { Removal } from './removal.js'
import type { ContentQuery } from './schemas.js'
import { dueIn, keyOf, uploadKeyOf } from './store.js'
import type { FileScan, StoredFile, Uploader } from './types.js'
import { type FileProperties, requireType, transfer, type UploadParts, type Uploads, type UploadTenant } from './uploads.js'

const leaseMs = 600_000 // ms without a renewal, after which the process of an upload counts as ended
const renewMs = 60_000
const longestUpload = dayMs // of a request to a URL of the store
const waiting: FileScan = { status: 'waiting', signature: null }

interface SignedUploadParts extends Pick<UploadParts, 'objects' | 'store' | 'now' | 'log'> {
  readonly tenants: Pick<Tenants, 'get'>
  readonly uploads: Uploads
  readonly removal: Removal
  readonly buckets: Buckets
  readonly signer: Signer | null
  /** The prefix of the endpoints' paths. */
  readonly prefix: string
  /** How long a URL is valid. */
  readonly seconds: number
}

export function createSignedUploads (parts: SignedUploadParts) {
  const { objects, store, tenants, uploads, removal, buckets, signer, prefix, seconds, now, log } = parts

  /**
   * Renews the lease of an upload while its bytes arrive. Without renewals the sweep removes it. No other request may take it over, since
   * a process that only hung would replace the bytes later.
   */
  function keepReceiving (tenant: Owner, id: string): () => Promise<void> {
    let renewed: Promise<unknown> = Promise.resolve()
    const timer = setInterval(() => {
      renewed = renewed.then(() => store.move(tenant, id, 'receiving', 'receiving', dueIn(leaseMs))).catch((err: unknown) => {
        log.warn({ err, tenant, file: id }, 'the lease of an upload could not be renewed')
      })
    }, renewMs)
    return async () => {
      clearInterval(timer)
      // A late renewal would replace the expiry that is set next.
      await renewed
    }
  }

  return {
    /**
     * Announces a file. `url` is a path of this server, or a URL of the store. Rejects with `fileTooLarge`, `planLimit`,
     * `fileTypeRefused` and `signingNotConfigured`.
     */
    async announce (tenant: UploadTenant, described: FileProperties, bytes: Pick<StoredFile, 'contentType' | 'size'>, by: Uploader) {
      const { contentType, size } = bytes
      const id = randomUUID()
      const expires = Math.floor(now() / 1000) + seconds
      const remote = await objects.sign(uploadKeyOf(tenant.id, id), { method: 'PUT', seconds, contentType, size })
      if (remote === null && signer === null) throw failure('signingNotConfigured')
      const expiresAt = new Date(expires * 1000)
      // A request of the last moment may still bring bytes long afterwards.
      const uploadUntil = remote === null ? null : new Date(expiresAt.getTime() + longestUpload)
      await uploads.announce(tenant, described, { id, contentType, size, expiresAt, uploadUntil }, by)
      const announced = { id, method: 'PUT' as const, expiresAt }
      if (remote !== null) return { ...announced, url: remote.url, headers: { ...remote.headers } }
      const signature = signer?.sign({ method: 'PUT', tenant: tenant.id, bucket: '', id, size, expires })
      const url = `${prefix}/files/${id}/content?tenant=${tenant.id}&size=${size}&expires=${expires}&signature=${signature}`
      return { ...announced, url, headers: { 'content-type': contentType } }
    },

    /**
     * Receives the bytes of an announced file. Rejects with `urlSignatureInvalid`, `tenantSuspended` and `stateConflict`, and with
     * `badRequest` for a wrong number of bytes. `length`: of the request; null if unknown.
     */
    async receive (
      tenant: Owner,
      id: string,
      { size, expires, signature }: Omit<Static<typeof ContentQuery>, 'tenant'>,
      bytes: () => Readable,
      length: number | null
    ): Promise<void> {
      // Checked before any database access, since the endpoint needs no token.
      const isSigned = expires * 1000 > now() &&
        signer?.verify({ method: 'PUT', tenant, bucket: '', id, size, expires }, signature) === true
      if (!isSigned) throw failure('urlSignatureInvalid')
      const owner = await tenants.get(tenant)
      if (owner === null) throw failure('urlSignatureInvalid')
      requireActive(owner)
      const wrongSize = () => sizeRefused(size)
      if (length !== null && length !== size) throw wrongSize()
      const found = await store.findUpload(tenant, id)
      if (found === null) throw failure('urlSignatureInvalid')
      await uploads.inPlace(tenant, async () => {
        if (!await store.move(tenant, id, 'pending', 'receiving', dueIn(leaseMs))) {
          throw failure('stateConflict', { message: 'The content of this file has already been uploaded, or is being uploaded' })
        }
        const intake = new Intake({ ...exactly(size, wrongSize), declaredType: undefined, judge: () => {} })
        const endLease = keepReceiving(tenant, id)
        try {
          await transfer(bytes(), intake, (stream) => objects.put(keyOf(tenant, id), stream, found.file.contentType)).finally(endLease)
        } catch (error) {
          await store.move(tenant, id, 'receiving', 'pending', new Date(expires * 1000)).catch(() => {})
          throw error
        }
        if (expires * 1000 > now() && await store.move(tenant, id, 'receiving', 'receiving', new Date(expires * 1000))) return
        await removal.drop(tenant, id, ['receiving'])
        // It may have been confirmed since its object appeared.
        if (await store.findStored(tenant, id) !== null) return
        // The sweep may have removed the row before the object was stored.
        await objects.delete(keyOf(tenant, id))
        throw failure('stateConflict', { message: 'The time for the upload has expired, or the entity of the file was deleted' })
      })
    },

    /** Makes the file readable once its bytes have arrived. Rejects with `notFound`, `stateConflict` and `fileTypeRefused`. */
    async confirm (tenant: Owner, given: string, by: Uploader, permit: (bucket: Bucket) => void | Promise<void>): Promise<StoredFile> {
      const found = await store.findUpload(tenant, given)
      if (found === null) throw failure('notFound')
      const { id } = found.file
      const bucket = buckets.find(found.file.bucket)
      if (bucket === undefined) throw failure('notFound')
      await permit(bucket)
      if (found.status === 'ready') return found.file
      if (found.status === 'quarantined') {
        if (found.file.createdBy !== by.sub) throw failure('notFound')
        return { ...found.file, scan: waiting }
      }
      const key = keyOf(tenant, id)
      const { size, contentType: declaredType } = found.file
      const uploadKey = uploadKeyOf(tenant, id)
      const isThere = async (at: string) => (await objects.stat(at))?.size === size
      if (!await isThere(key) && !await isThere(uploadKey)) {
        throw failure('stateConflict', { message: 'The content of the file has not been uploaded' })
      }
      return await uploads.inPlace(tenant, async () => {
        // The client can repeat the signed request until it expires. The file is a copy, which that request cannot change. It is made
        // once, even after a failure: a second copy could replace bytes that another confirmation has checked.
        if (await isThere(uploadKey) && await store.move(tenant, id, 'pending', 'receiving')) await objects.copy(uploadKey, key)
        const stored = await objects.get(key)
        if (stored === null) {
          if (!await isThere(uploadKey)) throw failure('notFound')
          throw failure('stateConflict', {
            message: 'Another confirmation copies the content, or has failed to: try again, then announce the file again'
          })
        }
        const intake = new Intake({
          ...exactly(size, () => sizeRefused(size)),
          declaredType,
          judge: (contentType) => requireType(bucket, contentType)
        })
        try {
          await pipeline(stored, intake.resume())
        } catch (error) {
          if (intake.refusal === undefined) throw error
          await removal.drop(tenant, id, ['pending', 'receiving'])
          throw error
        }
        const file = { ...found.file, contentType: intake.contentType, sha256: intake.sha256 }
        const complete = await uploads.completeAnnounced(file, bucket, by)
        if (complete !== null) {
          await objects.delete(uploadKey).catch((err: unknown) => {
            log.warn({ err, tenant, file: id }, 'the upload of a confirmed file could not be deleted; it is deleted with the file')
          })
          return complete
        }
        const other = await store.findStored(tenant, id)
        if (other !== null) return other
        // The upload had expired. The sweep may have removed it before the copy was stored.
        await removal.drop(tenant, id, ['pending', 'receiving'])
        for (const at of [uploadKey, key]) await objects.delete(at)
        throw failure('notFound')
      })
    }
  }
}

function sizeRefused (size: number): TenantryError {
  return failure('badRequest', { message: `The body must have the announced size of ${size} bytes` })
}

const info = 'service-file-urls'
const keyLength = 32 // bytes

/** The request that a URL permits. */
export interface Grant {
  readonly method: 'GET' | 'PUT'
  readonly tenant: Owner
  readonly bucket: string
  /** The id of the file. */
  readonly id: string
  /** Bytes of an upload. */
  readonly size?: number
  /** Seconds since 1970. */
  readonly expires: number
}

export type Signer = ReturnType<typeof createSigner>

export function createSigner ({ current, known }: MasterKeys) {
  const own = derive(current)
  const all = Array.from(known.values(), derive)
  return {
    sign: (grant: Grant): string => signatureOf(own, grant),
    /** Whether the signature is valid. The caller checks the expiry. */
    verify (grant: Grant, signature: string): boolean {
      // Compares the texts, not the bytes: several base64url texts can encode the same bytes.
      const given = Buffer.from(signature)
      return all.some((key) => {
        const right = Buffer.from(signatureOf(key, grant))
        return given.length === right.length && timingSafeEqual(given, right)
      })
    }
  }
}

function derive ({ key }: MasterKey): Buffer {
  return Buffer.from(hkdfSync('sha256', key, '', info, keyLength))
}

/** No part contains a line break. */
function signatureOf (key: Buffer, { method, tenant, bucket, id, size, expires }: Grant): string {
  return createHmac('sha256', key).update([method, tenant, bucket, id, size ?? '', expires].join('\n')).digest('base64url')
}
