/** Signs and verifies tokens (JWT, RFC 7519). */
import type { Claims } from '../../lib/compiler/types.js'
import { createSigner, createVerifier } from 'fast-jwt'
import { LRUCache } from 'lru-cache'
import { failure, type TenantryError } from '../../lib/errors.js'
import { claimsOf, validityOf } from './claims.js'
import { keysOf, type JwtOptions } from './keys.js'

const defaultExpiresIn = 3600 // s (SPEC "jwt")
const maxTokenLength = 8192 // characters; longer ones are not looked at
const maxCachedTokens = 50_000
const maxCachedCharacters = 33_554_432 // 32 MB of tokens, whatever their number

export interface SignOptions {
  /** Seconds until the token expires. Default: `jwt.expiresIn`, 3600 without it. */
  readonly expiresIn?: number
}

/** What `app.auth` does with tokens. */
export interface Tokens {
  /** A token with these claims, `iat`, `exp`, and the configured `iss` and `aud`. Throws where there is no key to sign with, or a claim has a wrong form. */
  sign (claims: Claims, options?: SignOptions): string
  /** The claims of a valid token, frozen; throws `tokenInvalid` or `tokenExpired`. */
  verify (token: string): Claims
}

interface Verified {
  readonly claims: Claims
  readonly until: number
}

/**
 * Tokens of one `jwt` section; without one every token is refused and none is signed. A verified token is remembered
 * until it expires, so that a caller's next request costs one look-up.
 *
 * @param now the clock, in milliseconds since 1970
 */
export function createTokens (jwt: JwtOptions | undefined, now: () => number = Date.now): Tokens {
  if (jwt === undefined) {
    return {
      sign () { throw new Error('no token can be signed without a `jwt` section') },
      verify () { throw tokenInvalid() }
    }
  }
  const keys = keysOf(jwt)
  const decode = createDecoder(jwt, keys)
  const sign = createTokenSigner(jwt, keys, now)
  const verified = new LRUCache<string, Verified>({
    max: maxCachedTokens,
    maxSize: maxCachedCharacters,
    sizeCalculation: (_value, token) => token.length
  })

  function verifyAnew (token: string): Claims {
    if (token.length > maxTokenLength) throw tokenInvalid()
    const claims = claimsOf(decode(token))
    const validity = claims === null ? null : validityOf(claims)
    if (claims === null || validity === null) throw tokenInvalid()
    const time = now()
    if (time >= validity.until) throw tokenExpired()
    if (time < validity.from) throw tokenInvalid()
    verified.set(token, { claims, until: validity.until })
    return claims
  }

  return {
    sign,
    verify (token) {
      const known = verified.get(token)
      return known !== undefined && now() < known.until ? known.claims : verifyAnew(token)
    }
  }
}

/** The payload of a token that one of the keys signed with the configured algorithm; times are judged by the caller. */
function createDecoder ({ issuer, audience }: JwtOptions, { algorithm, verifying }: ReturnType<typeof keysOf>): (token: string) => unknown {
  const verifiers = verifying.map((key) => createVerifier({
    key,
    algorithms: [algorithm],
    cache: false,
    ignoreExpiration: true,
    ignoreNotBefore: true,
    // A claim that is absent would pass the check of its value.
    requiredClaims: [...issuer === undefined ? [] : ['iss'], ...audience === undefined ? [] : ['aud']],
    ...(issuer !== undefined && { allowedIss: issuer }),
    ...(audience !== undefined && { allowedAud: typeof audience === 'string' ? audience : [...audience] })
  }))
  return (token) => {
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
}

function createTokenSigner (jwt: JwtOptions, { algorithm, signing }: ReturnType<typeof keysOf>, now: () => number): Tokens['sign'] {
  if (signing === undefined) return () => { throw new Error('no token can be signed without `jwt.privateKey`') }
  const sign = createSigner({ key: signing, algorithm })
  const { issuer, audience } = jwt
  return (claims, { expiresIn = jwt.expiresIn ?? defaultExpiresIn } = {}) => {
    const iat = Math.floor(now() / 1000)
    const payload = {
      ...claims,
      ...(issuer !== undefined && { iss: issuer }),
      ...(audience !== undefined && { aud: audience }),
      iat,
      exp: iat + Math.ceil(expiresIn)
    }
    if (claimsOf({ ...payload }) === null) throw new Error('a claim has a wrong form: see `Claims`')
    return sign(payload)
  }
}

/** RFC 6750, 3.1. */
const invalidToken = { 'www-authenticate': 'Bearer error="invalid_token"' }

export function tokenInvalid (cause?: unknown): TenantryError {
  return failure('tokenInvalid', { headers: invalidToken, cause })
}

function tokenExpired (): TenantryError {
  return failure('tokenExpired', { headers: invalidToken })
}
