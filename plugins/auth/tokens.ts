/** Reads, signs and verifies tokens (JWT, RFC 7519). */
import { randomUUID } from 'node:crypto'
import type { SignOptions as PackageOptions } from '@fastify/jwt'
import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { whenKnown } from '../../lib/cache/async-cache.js'
import type { Claims } from '../../lib/expressions/types.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { tokenMissing } from './access.js'
import { heldAt, requireForm, requireLifetime, type VerifiedClaims } from './claims.js'
import { tokenInvalid } from './errors.js'
import type { OwnKeys } from './own-key.js'
import type { PartialClaims } from './partial.js'
import { ownProvider } from './providers/claims.js'
import type { Providers } from './providers/index.js'
import { readToken } from './providers/signature.js'
import { noRevocations, noSources, type Sources, tokenId } from './sources.js'

const defaultExpiresIn = 3600 // s
const maxTokenLength = 8192 // characters; longer tokens are refused without parsing
const maxCachedTokens = 50_000
const maxCachedCharacters = 33_554_432 // 32 MB of tokens, whatever their number

export interface SignOptions {
  /** Seconds until the token expires. Default: `jwt.expiresIn`, 3600 without it. */
  readonly expiresIn?: number
}

/** The token functions of `app.auth`. */
export interface Tokens {
  /**
   * A token with these claims, `jti` if they have none, `iat`, `exp`, and the configured `iss` and `aud`. Throws without a signing key, or
   * for a claim with a wrong form.
   */
  sign(claims: Claims, options?: SignOptions): string
  /**
   * The claims of a valid token, frozen, at once if nothing has to be read; throws, or rejects with, `tokenInvalid`, `tokenExpired` or
   * `identityProviderUnavailable`.
   *
   * @param provider `jwt`: only a token of the own key; a name: only one of that provider. Default: any of them, which `iss` names
   */
  verify(token: string, provider?: string): Claims | Promise<Claims>
  /** Signs a token that is valid only for the second factor, for 5 minutes. Throws without a signing key. */
  signPartial(claims: PartialClaims): string
  /** The signed claims of a partial token, frozen. Does not check revocation. Throws `tokenInvalid` or `tokenExpired`. */
  verifyPartial(token: string): Claims
  /** The id by which a token is revoked. */
  tokenId(token: string): string
  /** The life of a token from `sign` in seconds: `jwt.expiresIn`. */
  readonly lifetime: number
  /** The longest life of a token of any issuer, in seconds: `jwt.maxLifetime`, Infinity without it. */
  readonly maxLifetime: number
  /** Whether there is a signing key. */
  readonly canSign: boolean
  /** Whether there is a signing key for partial tokens: that of the option `jwt`. */
  readonly canSignPartial: boolean
  /** The names of the external providers. */
  readonly providers: readonly string[]
}

/** The internal part of the service. */
export interface TokenStore extends Tokens {
  /** Tokens of the provider are verified again at their next use. */
  forget(provider: string): void
  /** Like `verify`, with further facts about the token. */
  inspect(token: string, provider?: string): Verified | Promise<Verified>
  /**
   * Signs like `app.jwt.sign` of @fastify/jwt, and completes the claims: `jti`, `iat`, `exp`, and the configured `iss` and `aud`. Throws if
   * `access` would refuse the token.
   */
  issue(payload: unknown, options?: Partial<PackageOptions>): string
  /** Call it when a plugin has added a list of revoked tokens. */
  readonly hasRevocations: boolean
}

/** A verified, remembered token. */
export interface Verified extends VerifiedClaims {
  readonly provider: string
  /** The own key that signed it, if @fastify/jwt does not use it by itself: that of a previous secret. */
  readonly key: string | undefined
  /** The version of the list of revocations at the last check. */
  version: number
}

/**
 * Tokens of the server's own keys and of external providers. A verified token is cached until it expires, so that the caller's next
 * request costs one look-up. Without own keys no token can be signed.
 *
 * @param now the clock, in milliseconds since 1970
 */
export function createTokens (
  own: OwnKeys | undefined,
  now: () => number = Date.now,
  providers?: Providers,
  maxLifetime = Infinity,
  listOf: Sources['revocations'] = noSources.revocations
): TokenStore {
  const { decode = refuse, encode, partial, claims: fixed, lifetime = defaultExpiresIn, isAged = false } = own ?? {}
  const verified = new LRUCache<string, Verified>({
    maxSize: maxCachedCharacters,
    sizeCalculation: (_value, token) => token.length
  })

  function verifyAnew (token: string, provider: string | undefined): Verified | Promise<Verified> {
    if (token.length > maxTokenLength) throw tokenInvalid()
    const external = providers?.read(token) ?? null
    const whose = external?.provider ?? ownProvider
    if (provider !== undefined && provider !== whose) throw tokenInvalid()
    if (external === null) {
      const { payload, key } = decode(token)
      const held = heldAt(now(), payload, maxLifetime)
      return remember(token, isAged ? { ...held, until: -Infinity } : held, whose, key)
    }
    const held = external.verify()
    return whenKnown(held, (found) => remember(token, found, whose))
  }

  function remember (token: string, found: VerifiedClaims, provider: string, key?: string): Verified | Promise<Verified> {
    const { claims, payload, until } = found
    // NaN equals no version: the token is not checked yet.
    const entry = { claims, payload, until, provider, key, version: NaN }
    verified.set(token, entry)
    if (verified.size > maxCachedTokens) verified.pop()
    return unlessRevoked(token, entry)
  }

  function unlessRevoked (token: string, entry: Verified): Verified | Promise<Verified> {
    // If the list changes during the call, the token is checked again.
    const revocations = listOf() ?? noRevocations
    const { version } = revocations
    const settle = (refused: boolean) => {
      if (refused) throw tokenInvalid()
      entry.version = version
      return entry
    }
    const refused = revocations.refuses(entry.claims, () => tokenId(token))
    return whenKnown(refused, settle)
  }

  function inspect (token: string, provider?: string): Verified | Promise<Verified> {
    const known = verified.get(token)
    if (known === undefined || now() >= known.until) return verifyAnew(token, provider)
    if (provider !== undefined && provider !== known.provider) throw tokenInvalid()
    return known.version === (listOf() ?? noRevocations).version ? known : unlessRevoked(token, known)
  }

  return {
    sign (claims, { expiresIn = lifetime } = {}) {
      if (encode === undefined) throw cannotSign()
      const iat = Math.floor(now() / 1000)
      const exp = iat + Math.ceil(expiresIn)
      const payload = { ...claims, jti: claims.jti ?? randomUUID(), ...fixed, iat, exp }
      requireForm(payload)
      requireLifetime(payload, maxLifetime)
      return encode(payload, { expiresIn: exp - iat })
    },
    issue (given, options = {}) {
      if (own === undefined || encode === undefined) throw cannotSign()
      if (!isRecord(given)) throw new Error('the payload is not an object: expected claims with a `sub`')
      requireOwnKey(own, options)
      const { iat = Math.floor(now() / 1000), exp, jti = options.jti ?? randomUUID() } = given
      const payload = { ...given, ...options.sub !== undefined && { sub: options.sub }, jti, ...fixed, iat }
      requireForm(payload)
      const left = typeof exp === 'number' && typeof iat === 'number' ? exp - iat : undefined
      const token = encode(payload, { ...options, expiresIn: options.expiresIn ?? left ?? lifetime })
      requireLifetime(readToken(token)?.payload ?? {}, maxLifetime)
      return token
    },
    inspect,
    verify (token, provider) {
      const found = inspect(token, provider)
      return whenKnown(found, ({ claims }) => claims)
    },
    signPartial (claims) {
      if (partial === undefined) {
        throw encode === undefined
          ? cannotSign()
          : new Error('partial tokens are signed with the key of the option `jwt`, which the plugin "tenantry/plugins/auth" does not have')
      }
      return partial.sign(claims)
    },
    verifyPartial (token) {
      if (partial === undefined || token.length > maxTokenLength) throw tokenInvalid()
      return partial.verify(token)
    },
    tokenId,
    lifetime,
    maxLifetime,
    get hasRevocations () {
      return listOf() !== null
    },
    canSign: encode !== undefined,
    canSignPartial: partial !== undefined,
    providers: providers?.names ?? [],
    forget (provider) {
      for (const [token, known] of [...verified.entries()]) if (known.provider === provider) verified.delete(token)
    }
  }

  function cannotSign (): Error {
    return new Error(
      own === undefined ? 'a `jwt` section is required to sign tokens' : '`jwt.privateKey` is required to sign tokens'
    )
  }
}

/** Throws for options with another key or algorithm. */
function requireOwnKey ({ algorithm }: OwnKeys, options: Partial<PackageOptions>): void {
  if (options.key !== undefined) {
    throw new Error('app.jwt.sign does not accept a `key`: register @fastify/jwt with a `namespace` for tokens of another key')
  }
  if (options.algorithm !== undefined && options.algorithm !== algorithm) {
    throw new Error(
      `app.jwt.sign does not accept an \`algorithm\` other than ${algorithm}: register @fastify/jwt with a \`namespace\` for other tokens`
    )
  }
}

/** Without a key no token is valid. */
function refuse (): never {
  throw tokenInvalid()
}

/**
 * The token of the Authorization header; null without the header. Refuses other schemes than Bearer, so that a caller with
 * credentials is not served as one without.
 */
export function bearerToken ({ headers: { authorization } }: Pick<FastifyRequest, 'headers'>): string | null {
  if (authorization === undefined) return null
  if (authorization.startsWith('Bearer ') && !authorization.includes(' ', 7)) return authorization.slice(7)
  const [scheme = '', token, ...rest] = authorization.trim().split(/ +/)
  if (scheme !== '' && scheme.toLowerCase() !== 'bearer') {
    throw tokenMissing('The Authorization header has an unsupported scheme: expected Bearer')
  }
  if (token === undefined) throw tokenMissing()
  if (rest.length > 0) throw tokenInvalid()
  return token
}
