/** Verifies tokens with keys of the platform's own. Times are judged elsewhere. */
import { createVerifier, type Algorithm, type VerifierOptions } from 'fast-jwt'
import { tokenInvalid } from './errors.js'

/** The payload of a token; throws where it was not signed with the key, or does not claim what it must. */
export type Verify = (token: string) => unknown

/** What a token must claim: nothing, where nothing is said. */
export type Demands = Partial<Pick<VerifierOptions, 'requiredClaims' | 'allowedIss' | 'allowedAud'>>

/** @param algorithm the only one that is accepted, whatever a token says */
export function verifierOf (key: string | Buffer, algorithm: Algorithm, demands: Demands = {}): Verify {
  return createVerifier({ key, algorithms: [algorithm], cache: false, ignoreExpiration: true, ignoreNotBefore: true, ...demands })
}

/** The payload of a token that one of them takes; throws `tokenInvalid`. */
export function verifyWithAny (verifiers: readonly Verify[], token: string): unknown {
  let cause: unknown
  for (const verify of verifiers) {
    try {
      return verify(token)
    } catch (error) {
      cause = error
    }
  }
  throw tokenInvalid(cause)
}
