/** Signs tokens (JWT, RFC 7519), and offers their verification. */
import { randomUUID } from 'node:crypto'
import type { SignOptions as PackageOptions } from '@fastify/jwt'
import { whenKnown } from '../../lib/cache/async-cache.js'
import type { Claims } from '../../lib/expressions/types.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { requireForm, requireLifetime } from './claims.js'
import { tokenInvalid } from './errors.js'
import type { OwnKeys } from './own-key.js'
import type { PartialClaims } from './partial.js'
import type { Providers } from './providers/index.js'
import { readToken } from './providers/signature.js'
import { type Sources, tokenId } from './sources.js'
import { createVerifier, maxTokenLength, type Verifier } from './verifier.js'

const defaultExpiresIn = 3600 // s

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
export interface TokenStore extends Tokens, Verifier {
  /**
   * Signs like `app.jwt.sign` of @fastify/jwt, and completes the claims: `jti`, `iat`, `exp`, and the configured `iss` and `aud`. Throws if
   * `access` would refuse the token.
   */
  issue(payload: unknown, options?: Partial<PackageOptions>): string
  /** Whether a plugin has added a list of revoked tokens. */
  readonly hasRevocations: boolean
}

/**
 * Tokens of the server's own keys and of external providers. Without own keys no token can be signed.
 *
 * @param now the clock, in milliseconds since 1970
 */
export function createTokens (
  own: OwnKeys | undefined,
  now: () => number,
  providers: Providers | undefined,
  maxLifetime: number,
  listOf: Sources['revocations']
): TokenStore {
  const { encode, partial, claims: fixed, lifetime = defaultExpiresIn } = own ?? {}
  const verifier = createVerifier(own, now, providers, maxLifetime, listOf)

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
    inspect: verifier.inspect,
    verify: (token, provider) => whenKnown(verifier.inspect(token, provider), ({ claims }) => claims),
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
    forget: verifier.forget
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
