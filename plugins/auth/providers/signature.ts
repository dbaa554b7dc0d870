/** Signatures of external tokens (RFC 7518, 3; RFC 8037): the fitting key of an algorithm, and the verification. */
import { constants, type KeyObject, verify } from 'node:crypto'
import { isRecord, jsonIn } from '../../../lib/json/plain-value.js'
import type { SignatureAlgorithm } from '../../../lib/schema/tokens.js'

const minModulusLength = 2048 // bits (RFC 7518, 3.3)
const maxModulusLength = 8192 // bits; a signature of a longer key takes a millisecond to verify
const minExponent = 3n // with 1 anyone could sign

interface Scheme {
  /** null for algorithms with their own hash. */
  readonly hash: 'sha256' | 'sha384' | 'sha512' | null
  readonly key: 'rsa' | 'prime256v1' | 'secp384r1' | 'secp521r1' | 'ed25519'
  readonly options: { readonly padding?: number, readonly saltLength?: number, readonly dsaEncoding?: 'ieee-p1363' }
}

const pkcs1 = { padding: constants.RSA_PKCS1_PADDING }
const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }
const ecdsa = { dsaEncoding: 'ieee-p1363' } as const

const schemes = {
  RS256: { hash: 'sha256', key: 'rsa', options: pkcs1 },
  RS384: { hash: 'sha384', key: 'rsa', options: pkcs1 },
  RS512: { hash: 'sha512', key: 'rsa', options: pkcs1 },
  PS256: { hash: 'sha256', key: 'rsa', options: pss },
  PS384: { hash: 'sha384', key: 'rsa', options: pss },
  PS512: { hash: 'sha512', key: 'rsa', options: pss },
  ES256: { hash: 'sha256', key: 'prime256v1', options: ecdsa },
  ES384: { hash: 'sha384', key: 'secp384r1', options: ecdsa },
  ES512: { hash: 'sha512', key: 'secp521r1', options: ecdsa },
  EdDSA: { hash: null, key: 'ed25519', options: {} }
} as const satisfies Record<SignatureAlgorithm, Scheme>

/** Whether the key has the algorithm's type and size. */
export function fits (key: KeyObject, algorithm: SignatureAlgorithm): boolean {
  const { key: asked } = schemes[algorithm]
  const { asymmetricKeyType: type, asymmetricKeyDetails: { modulusLength = 0, publicExponent = 0n, namedCurve } = {} } = key
  if (type === 'rsa') {
    return asked === 'rsa' && modulusLength >= minModulusLength && modulusLength <= maxModulusLength && publicExponent >= minExponent
  }
  return type === 'ec' ? namedCurve === asked : type === asked
}

/** Whether the key's owner has signed the text. */
export function isSigned (text: string, signature: Buffer, key: KeyObject, algorithm: SignatureAlgorithm): boolean {
  const { hash, options } = schemes[algorithm]
  try {
    return verify(hash, Buffer.from(text), { key, ...options }, signature)
  } catch {
    return false
  }
}

const parts = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/

export interface ReadToken {
  readonly header: Readonly<Record<string, unknown>>
  readonly payload: Readonly<Record<string, unknown>>
  /** The signed part. */
  readonly input: string
  readonly signature: Buffer
}

/** null for an invalid token. */
export function readToken (token: string): ReadToken | null {
  const [, header = '', payload = '', signature = ''] = parts.exec(token) ?? []
  const read = { header: decoded(header), payload: decoded(payload) }
  if (!isRecord(read.header) || !isRecord(read.payload)) return null
  return { header: read.header, payload: read.payload, input: `${header}.${payload}`, signature: Buffer.from(signature, 'base64url') }
}

function decoded (part: string): unknown {
  return jsonIn(Buffer.from(part, 'base64url').toString())
}
