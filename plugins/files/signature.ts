/** Signed URLs of this server, which need no token. All servers with the same master key accept them. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { MasterKey, MasterKeys } from '../../lib/secrets/master-key.js'
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'

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

export interface Signer {
  sign(grant: Grant): string
  /** Whether the signature is valid. The caller checks the expiry. */
  verify(grant: Grant, signature: string): boolean
}

export function createSigner ({ current, known }: MasterKeys): Signer {
  const own = derive(current)
  const all = Array.from(known.values(), derive)
  return {
    sign: (grant) => signatureOf(own, grant),
    verify (grant, signature) {
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
