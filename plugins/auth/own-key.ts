/** Tokens of the platform's own key, the section `jwt` (DESIGN 5): made and read; what they claim is judged elsewhere. */
import type { JwtOptions, Keys } from './keys.js'
import { createSigner } from 'fast-jwt'
import { keyIdOf } from './keys.js'
import { verifierOf, verifyWithAny, type Verify } from './verifiers.js'

/**
 * Takes tokens that one of the keys signed with the configured algorithm. One whose header is one of ours is verified with
 * the key that it names. Any other, whatever `kid` it has, is tried with each key: whoever shares the secret may sign tokens
 * as well.
 */
export function createDecoder ({ issuer, audience }: JwtOptions, { algorithm, verifying }: Keys): Verify {
  const verifiers = verifying.map((key) => verifierOf(key, algorithm, {
    // A claim that is absent would pass the check of its value.
    requiredClaims: [...issuer === undefined ? [] : ['iss'], ...audience === undefined ? [] : ['aud']],
    ...(issuer !== undefined && { allowedIss: issuer }),
    ...(audience !== undefined && { allowedAud: typeof audience === 'string' ? audience : [...audience] })
  }))
  const byHeader = new Map(verifying.map((key, index) => [headerOf(algorithm, key), verifiers.slice(index, index + 1)]))
  return (token) => verifyWithAny(byHeader.get(token.slice(0, token.indexOf('.'))) ?? verifiers, token)
}

/** Signs a payload as it is; undefined where there is no key to sign with. */
export function createEncoder ({ algorithm, verifying: [current], signing }: Keys): ((payload: object) => string) | undefined {
  if (signing === undefined || current === undefined) return undefined
  return createSigner({ key: signing, algorithm, kid: keyIdOf(algorithm, current) })
}

/** The first part of every token that is signed with the key. */
function headerOf (algorithm: Keys['algorithm'], key: string): string {
  return Buffer.from(JSON.stringify({ alg: algorithm, typ: 'JWT', kid: keyIdOf(algorithm, key) })).toString('base64url')
}
