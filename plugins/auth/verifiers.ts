/** Verifies tokens with the server's own keys, through @fastify/jwt. Times are checked elsewhere. */
import type { JWT, VerifyOptions } from '@fastify/jwt'
import { tokenInvalid } from './errors.js'

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
