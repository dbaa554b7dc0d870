/** JSON Web Tokens for tests. The signer is independent of the code that verifies them. */
import { generateKeyPairSync } from 'node:crypto'
import type { Algorithm } from 'fast-jwt'
import { createSigner } from 'fast-jwt'
import { secretText, secretToken } from './log-scan.js'

/** A `jwt.secret` for test documents. */
export const testSecret = secretText('a secret of the tests, longer than 32 characters', 'jwt.secret')

export interface TokenClaims {
  sub?: string
  role?: string
  tenant_id?: string
  email?: string
  permissions?: readonly string[]
  [claim: string]: unknown
}

export interface TokenOptions {
  /** The secret or private key (PEM); default `testSecret`. */
  key?: string
  /** Default HS256 for a secret; `none` makes an unsigned token. */
  algorithm?: Algorithm
  /** Seconds from now, 3600 by default; negative makes an expired token. */
  expiresIn?: number
  /** JOSE header members, such as `kid`. */
  header?: Record<string, string>
}

/** Signs a token, and marks it as forbidden in logs. The default of `sub` is `user-1`. */
export function signToken (
  claims: TokenClaims = {},
  { key = testSecret, algorithm = 'HS256', expiresIn = 3600, header }: TokenOptions = {}
): string {
  const now = Math.floor(Date.now() / 1000)
  const payload = { sub: 'user-1', iat: Math.min(now, now + expiresIn), exp: now + expiresIn, ...claims }
  if (algorithm === 'none') return `${encode({ alg: 'none', typ: 'JWT' })}.${encode(payload)}.`
  // Without `noTimestamp`, the signer would add the `iat` that a test left out; with it, the signer drops an existing one.
  const sign = createSigner({
    algorithm,
    key,
    noTimestamp: payload.iat === undefined,
    ...(header === undefined ? {} : { header: { alg: algorithm, ...header } })
  })
  return secretToken(sign(payload))
}

/** The request headers of a caller with such a token. */
export function bearer (claims?: TokenClaims, options?: TokenOptions): { authorization: string } {
  return { authorization: `Bearer ${signToken(claims, options)}` }
}

/** A new key pair in PEM, for documents with `jwt.publicKey` and as an untrusted key. */
export function keyPair (algorithm: 'RS256' | 'ES256'): { publicKey: string, privateKey: string } {
  const publicKeyEncoding = { type: 'spki', format: 'pem' } as const
  const privateKeyEncoding = { type: 'pkcs8', format: 'pem' } as const
  return algorithm === 'RS256'
    ? generateKeyPairSync('rsa', { modulusLength: 2048, publicKeyEncoding, privateKeyEncoding })
    : generateKeyPairSync('ec', { namedCurve: 'P-256', publicKeyEncoding, privateKeyEncoding })
}

function encode (value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
