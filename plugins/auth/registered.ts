/** Finds the key of an app's own registration of @fastify/jwt, by signing and verifying tokens. */
import type { JWT } from '@fastify/jwt'
import type { Keys, Algorithm } from './keys.js'
import type { Registered } from './own-key.js'
import { isRecord } from '../../lib/json/plain-value.js'

const probe = { sub: 'probe' }
/** The errors of a token that another key or algorithm signed. The package checks claims after the signature. */
const otherKey: ReadonlySet<unknown> = new Set(['FAST_JWT_INVALID_SIGNATURE', 'FAST_JWT_INVALID_KEY', 'FAST_JWT_INVALID_ALGORITHM'])

/**
 * @param keys those of the option `jwt`
 * @throws if the keys are not those of the registration, or if the registration does not fix one algorithm
 */
export function readRegistered (jwt: JWT, keys: Keys | undefined): Registered {
  const signed = signProbe(jwt)
  if (keys !== undefined) {
    if (hasOtherKey(jwt, keys, signed)) {
      throw new Error(
        '@fastify/jwt is registered with another secret or algorithm than the option `jwt` of the plugin "tenantry/plugins/auth": give both the same, or leave out the option `jwt`'
      )
    }
    return { algorithm: keys.algorithm, lifetime: lifetimeOf(jwt, signed), canSign: signed !== null }
  }
  return {
    algorithm: signed === null ? onlyAlgorithm(jwt) : algorithmOf(jwt, signed),
    lifetime: lifetimeOf(jwt, signed),
    canSign: signed !== null
  }
}

/** Returns null if the registration has no signing key. */
function signProbe (jwt: JWT): string | null {
  let signed: unknown
  try {
    signed = jwt.sign({ ...probe })
  } catch (cause) {
    if (cause instanceof Error && cause.message.includes('verify mode')) return null
    throw new Error('the registration of @fastify/jwt cannot sign a token', { cause })
  }
  if (typeof signed === 'string') return signed
  ignoreRejection(signed)
  throw new Error(
    'the secret of @fastify/jwt is a function, which the plugin "tenantry/plugins/auth" cannot call: register @fastify/jwt with a string, and list previous secrets in the option `jwt.previousSecrets` of the plugin'
  )
}

function hasOtherKey (jwt: JWT, { algorithm, verifying: [current], signing }: Keys, signed: string | null): boolean {
  // If neither side can sign, there is nothing to compare.
  if (signed === null) return false
  try {
    if (signing !== undefined) ignoreRejection(jwt.verify(jwt.sign({ ...probe }, { key: signing, algorithm })))
    else if (current !== undefined) ignoreRejection(jwt.verify(signed, { key: current, algorithms: [algorithm] }))
    return false
  } catch (error) {
    return isRecord(error) && otherKey.has(error['code'])
  }
}

/** The public key may be a function, which is called only with a request. */
function ignoreRejection (result: unknown): void {
  if (result instanceof Promise) result.catch(() => {})
}

function algorithmOf (jwt: JWT, signed: string): Algorithm {
  const decoded: { readonly header?: { readonly alg?: Algorithm } } | null = jwt.decode(signed, { complete: true })
  const algorithm = decoded?.header?.alg
  if (algorithm === undefined || algorithm === 'none') {
    throw new Error('@fastify/jwt is registered with the algorithm "none": expected a signing algorithm')
  }
  return algorithm
}

function onlyAlgorithm ({ options: { verify } }: JWT): Algorithm {
  const [algorithm, ...others] = verify.algorithms ?? []
  if (algorithm !== undefined && algorithm !== 'none' && others.length === 0) return algorithm
  throw new Error(
    '@fastify/jwt is registered without a fixed algorithm: give it `verify: { algorithms: ["RS256"] }`, or the algorithm of your key'
  )
}

/** Seconds. */
function lifetimeOf (jwt: JWT, signed: string | null): number | undefined {
  const claims: { readonly iat?: unknown, readonly exp?: unknown } | null = signed === null ? null : jwt.decode(signed, { complete: false })
  return typeof claims?.exp === 'number' && typeof claims.iat === 'number' ? claims.exp - claims.iat : undefined
}
