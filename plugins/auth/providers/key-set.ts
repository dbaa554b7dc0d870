/** The keys that a provider publishes: a JWK set (RFC 7517). */
import { createPublicKey, type KeyObject } from 'node:crypto'
import { isRecord } from '../../../lib/json/plain-value.js'
import type { SignatureAlgorithm } from '../../../lib/schema/tokens.js'
import { fits } from './signature.js'

const maxKeys = 100 // providers have two or three

export type KeySet = ReturnType<typeof readKeySet>

/**
 * The usable keys of the set for these algorithms, without keys for encryption, of other types, too short or invalid ones; secrets are
 * never keys. Throws if the document is not a set, or has too many keys.
 */
export function readKeySet (document: unknown, algorithms: readonly SignatureAlgorithm[]) {
  const keys: unknown = isRecord(document) ? document.keys : undefined
  if (!Array.isArray(keys)) throw new Error('the response is not a JWK set')
  if (keys.length > maxKeys) throw new Error(`the set has ${keys.length} keys: expected at most ${maxKeys}`)
  const named = new Map<string, KeyObject>()
  /** null if several keys fit. */
  const only = new Map<SignatureAlgorithm, KeyObject | null>()
  const texts: string[] = []
  for (const jwk of keys) {
    const key = keyOf(jwk)
    if (key === null || !isRecord(jwk)) continue
    const { kid, alg } = jwk
    for (const algorithm of algorithms) {
      if ((alg !== undefined && alg !== algorithm) || !fits(key, algorithm)) continue
      only.set(algorithm, only.has(algorithm) ? null : key)
      if (typeof kid === 'string' && !named.has(nameOf(algorithm, kid))) named.set(nameOf(algorithm, kid), key)
      texts.push(JSON.stringify([algorithm, kid, key.export({ type: 'spki', format: 'der' }).toString('base64')]))
    }
  }
  return {
    /**
     * The key of a token; undefined for an unknown one. A token without a key id has the key that fits its algorithm, unless there are
     * several.
     */
    find: (algorithm: SignatureAlgorithm, kid: string | undefined): KeyObject | undefined =>
      kid === undefined ? only.get(algorithm) ?? undefined : named.get(nameOf(algorithm, kid)),
    /** Identifies the set: sets with equal texts verify the same tokens. Empty without a key. */
    text: texts.sort().join('\n')
  }
}

function nameOf (algorithm: SignatureAlgorithm, kid: string): string {
  return `${algorithm} ${kid}`
}

/** null for a key that is not for signatures. For a private key, which a provider should not publish, the public half. */
function keyOf (jwk: unknown): KeyObject | null {
  if (!isRecord(jwk)) return null
  const { kty, use, key_ops: operations, n, e, crv, x, y } = jwk
  if (use !== undefined && use !== 'sig') return null
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return null
  switch (kty) {
    case 'RSA':
      return imported({ kty, n, e })
    case 'EC':
      return imported({ kty, crv, x, y })
    case 'OKP':
      return imported({ kty, crv, x })
    default:
      return null
  }
}

function imported (jwk: Readonly<Record<string, unknown>>): KeyObject | null {
  try {
    return createPublicKey({ key: { ...jwk }, format: 'jwk' })
  } catch {
    return null
  }
}
