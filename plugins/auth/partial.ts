/**
 * Partial tokens: the caller has given a password, and the second factor is missing. They are signed with a key derived from the signing
 * key, so that a partial token is never accepted as a full one, nor the reverse.
 */
import { createPrivateKey, hkdfSync, randomUUID } from 'node:crypto'
import type { JWT } from '@fastify/jwt'
import type { Claims } from '../../lib/expressions/types.js'
import { requireForm, requireValid } from './claims.js'
import { type Keys, verifierOf, verifyWithAny } from './keys.js'

/** The life of a partial token in seconds. */
export const partialLifetime = 300

const algorithm = 'HS256'
const keyUse = 'tenantry partial tokens' // HKDF's info, unique to this key

/** The user of a partial token. */
export interface PartialClaims {
  readonly sub: string
  readonly tenant_id?: string | undefined
  /** The user's session sequence at the time of the password: see plugins/sessions/sequence.ts. */
  readonly session_seq?: number | undefined
}

export interface PartialTokens {
  sign(claims: PartialClaims): string
  verify(token: string): Claims
}

/** Returns undefined without a signing key. Tokens of a previous secret are valid until they expire. */
export function createPartialTokens ({ algorithm: own, verifying, signing }: Keys, jwt: JWT, now: () => number): PartialTokens | undefined {
  if (signing === undefined) return undefined
  const options = { key: derive(own, signing), algorithm, expiresIn: partialLifetime } as const
  const verifiers = (own === 'HS256' ? verifying : [signing]).map((key) => verifierOf(jwt, algorithm, { key: derive(own, key) }))

  return {
    sign ({ sub, tenant_id: tenantId, session_seq: sequence }) {
      const iat = Math.floor(now() / 1000)
      const payload = {
        sub,
        ...tenantId !== undefined && { tenant_id: tenantId },
        ...sequence !== undefined && { session_seq: sequence },
        jti: randomUUID(),
        iat,
        exp: iat + partialLifetime
      }
      requireForm(payload)
      return jwt.sign(payload, options)
    },
    verify: (token) => requireValid(now(), verifyWithAny(verifiers, token), partialLifetime).claims
  }
}

/** One private key can have several texts, but one DER form. */
function derive (own: Keys['algorithm'], key: string): Buffer {
  const material = own === 'HS256' ? Buffer.from(key) : createPrivateKey(key).export({ type: 'pkcs8', format: 'der' })
  return Buffer.from(hkdfSync('sha256', material, '', keyUse, 32))
}
