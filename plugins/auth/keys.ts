/** The keys of `jwt`: the configuration, never a token, decides the algorithm of each. @fastify/jwt verifies tokens with them. */
import { createHmac, createPublicKey } from 'node:crypto'
import type { JWT, VerifyOptions } from '@fastify/jwt'
import { checkJwt } from '../../lib/document/rules/auth.js'
import { readSection } from '../../lib/plugin/options.js'
import type { Settable } from '../../lib/schema/annotations.js'
import { FaultList } from '../../lib/schema/faults.js'
import { type Jwt, Jwt as JwtSection } from '../../lib/schema/tokens.js'
import { tokenInvalid } from './errors.js'

/** The document's `jwt` section. */
export type JwtOptions = Settable<Jwt>

/** Verifies and signs. */
export interface Keys {
  readonly algorithm: Jwt['algorithm']
  /** The current key first. */
  readonly verifying: readonly string[]
  /** undefined if tokens are issued elsewhere. */
  readonly signing: string | undefined
}

/** Throws a ConfigError for every invalid member of `jwt`; the rules are those of the document. */
export function keysOf (jwt: JwtOptions): Keys {
  const faults = new FaultList()
  const { secret, previousSecrets = [], publicKey, privateKey } = jwt
  readSection(JwtSection, jwt, '/jwt', faults)
  faults.throwIfAny()
  const algorithm = checkJwt(jwt, faults)
  faults.throwIfAny()
  return publicKey === undefined
    ? { algorithm, verifying: secret === undefined ? previousSecrets : [secret, ...previousSecrets], signing: secret }
    : { algorithm, verifying: [publicKey], signing: privateKey }
}

/** Identifies a verifying key in the header `kid` of its tokens, without revealing a secret. */
export function keyIdOf (algorithm: Jwt['algorithm'], key: string): string {
  // The text of a public key may vary; its content may not.
  const material = algorithm === 'HS256' ? key : createPublicKey(key).export({ type: 'spki', format: 'der' })
  return createHmac('sha256', material).update('tenantry key id').digest('base64url').slice(0, 11)
}

export type Algorithm = NonNullable<VerifyOptions['algorithms']>[number]

export interface Decoded {
  readonly payload: unknown
  /** The verifying key, if it is not the one that @fastify/jwt was registered with. */
  readonly key: string | undefined
}

/** Returns the payload of a token. Throws if the token was not signed with the key, or lacks a required claim. */
export type Verify = (token: string) => unknown

/**
 * @param algorithm the only accepted one, independently of the token's header
 * @param options `key`: default the key of the registration
 */
export function verifierOf (jwt: JWT, algorithm: Algorithm, options: Partial<VerifyOptions> = {}): Verify {
  const fixed = { ...options, algorithms: [algorithm], cache: false, complete: false, ignoreExpiration: true, ignoreNotBefore: true }
  return (token) => {
    const payload: unknown = jwt.verify(token, fixed)
    if (!(payload instanceof Promise)) return payload
    // The key of the registration is a function, which is called only with a request.
    payload.catch(() => {})
    throw tokenInvalid()
  }
}

/** Returns the payload, from the first verifier that accepts the token. Throws `tokenInvalid`. */
export function verifyWithAny<Result> (verifiers: ReadonlyArray<(token: string) => Result>, token: string): Result {
  let cause: unknown
  for (const verify of verifiers) {
    try {
      return verify(token)
    } catch (error) {
      cause = error
    }
  }
  throw tokenInvalid(undefined, cause)
}
