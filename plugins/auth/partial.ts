/**
 * Partial tokens: whoever has one has given a password and owes the second factor (DESIGN 5). They are signed with a key
 * that is derived from the signing key, so that nothing else takes them for a token, and nothing takes a token for one.
 */
import type { Claims } from '../../lib/compiler/types.js'
import type { Keys } from './keys.js'
import { createPrivateKey, hkdfSync, randomUUID } from 'node:crypto'
import { createSigner } from 'fast-jwt'
import { heldAt, requireForm } from './claims.js'
import { verifierOf, verifyWithAny } from './verifiers.js'

/** Seconds that a partial token lives. */
export const partialLifetime = 300

const algorithm = 'HS256'
const keyUse = 'tenantry partial tokens' // HKDF's info: no other key is derived with it

/** Whom a partial token names. */
export interface PartialClaims {
  readonly sub: string
  readonly tenant_id?: string | undefined
  /** The user's session sequence when the password was given: see plugins/sessions/sequence.ts. */
  readonly session_seq?: number | undefined
}

export interface PartialTokens {
  sign (claims: PartialClaims): string
  verify (token: string): Claims
}

/** undefined where there is no key to sign with. Tokens of a previous secret hold until they expire. */
export function createPartialTokens ({ algorithm: own, verifying, signing }: Keys, now: () => number): PartialTokens | undefined {
  if (signing === undefined) return undefined
  const sign = createSigner({ key: derive(own, signing), algorithm })
  const verifiers = (own === 'HS256' ? verifying : [signing]).map((key) => verifierOf(derive(own, key), algorithm))

  return {
    sign ({ sub, tenant_id: tenantId, session_seq: sequence }) {
      const iat = Math.floor(now() / 1000)
      const payload = { sub, ...tenantId !== undefined && { tenant_id: tenantId }, ...sequence !== undefined && { session_seq: sequence }, jti: randomUUID(), iat, exp: iat + partialLifetime }
      requireForm(payload)
      return sign(payload)
    },
    verify: (token) => heldAt(now(), verifyWithAny(verifiers, token)).claims
  }
}

/** The text of a private key may be written in several ways; what it holds may not. */
function derive (own: Keys['algorithm'], key: string): Buffer {
  const material = own === 'HS256' ? Buffer.from(key) : createPrivateKey(key).export({ type: 'pkcs8', format: 'der' })
  return Buffer.from(hkdfSync('sha256', material, '', keyUse, 32))
}
