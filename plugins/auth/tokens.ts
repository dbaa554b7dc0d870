/** Signs and verifies tokens (JWT, RFC 7519). */
import type { Claims } from '../../lib/compiler/types.js'
import type { Providers } from './providers/index.js'
import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { heldAt, requireForm, type Held } from './claims.js'
import { tokenInvalid } from './errors.js'
import { keysOf, type JwtOptions } from './keys.js'
import { createDecoder, createEncoder } from './own-key.js'
import { createPartialTokens, type PartialClaims } from './partial.js'
import { ownProvider } from './providers/claims.js'
import { noRevocations, tokenId, type RevocationList } from './revocations.js'

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
  /**
   * A token with these claims, `jti` where they have none, `iat`, `exp`, and the configured `iss` and `aud`. Throws where
   * there is no key to sign with, or a claim has a wrong form.
   */
  sign (claims: Claims, options?: SignOptions): string
  /**
   * The claims of a valid token, frozen, at once where nothing has to be asked for; throws, or rejects with, `tokenInvalid`,
   * `tokenExpired` or `identityProviderUnavailable`.
   *
   * @param provider `jwt`: only a token of the own key; a name: only one of that provider. Default: any of them, told apart by `iss`
   */
  verify (token: string, provider?: string): Claims | Promise<Claims>
  /** A token that is good for the second factor alone, and lives 5 minutes. Throws where there is no key to sign with. */
  signPartial (claims: PartialClaims): string
  /** The claims of a partial token, frozen: those that it was signed with. Whether it was revoked is not looked at. Throws `tokenInvalid` or `tokenExpired`. */
  verifyPartial (token: string): Claims
  /** Registers who knows of tokens that were revoked. Throws for a second one. */
  useRevocations (list: RevocationList): void
  /** The id by which a token is revoked. */
  tokenId (token: string): string
  /** Seconds that a token lives which `sign` makes: `jwt.expiresIn`. */
  readonly lifetime: number
  /** There is a key to sign with. */
  readonly canSign: boolean
  /** The names of the external providers. */
  readonly providers: readonly string[]
}

/** What the plugin keeps for itself. */
export interface TokenStore extends Tokens {
  /** Tokens of the provider that were verified are verified again. */
  forget (provider: string): void
}

/** A token that was verified, and is remembered. */
interface Verified {
  readonly claims: Claims
  /** Milliseconds since 1970. */
  readonly until: number
  readonly provider: string
  /** That of the list of revocations when it was last looked at. */
  version: number
}

/**
 * Tokens of one `jwt` section, without which none is signed, and of external providers. A verified token is remembered
 * until it expires, so that a caller's next request costs one look-up.
 *
 * @param now the clock, in milliseconds since 1970
 */
export function createTokens (jwt: JwtOptions | undefined, now: () => number = Date.now, providers?: Providers): TokenStore {
  const keys = jwt === undefined ? undefined : keysOf(jwt)
  const decode = jwt && keys ? createDecoder(jwt, keys) : refuse
  const encode = keys && createEncoder(keys)
  const partial = keys && createPartialTokens(keys, now)
  const { issuer, audience, expiresIn: lifetime = defaultExpiresIn } = jwt ?? {}
  const verified = new LRUCache<string, Verified>({
    maxSize: maxCachedCharacters,
    sizeCalculation: (_value, token) => token.length
  })
  let revocations = noRevocations

  function verifyAnew (token: string, provider: string | undefined): Claims | Promise<Claims> {
    if (token.length > maxTokenLength) throw tokenInvalid()
    const external = providers?.read(token) ?? null
    const whose = external?.provider ?? ownProvider
    if (provider !== undefined && provider !== whose) throw tokenInvalid()
    const held = external === null ? heldAt(now(), decode(token)) : external.verify()
    return held instanceof Promise ? held.then((found) => remember(token, found, whose)) : remember(token, held, whose)
  }

  function remember (token: string, { claims, until }: Held, provider: string): Claims | Promise<Claims> {
    // No list has this version: it has not been asked yet.
    const entry = { claims, until, provider, version: NaN }
    verified.set(token, entry)
    if (verified.size > maxCachedTokens) verified.pop()
    return unlessRevoked(token, entry)
  }

  function unlessRevoked (token: string, entry: Verified): Claims | Promise<Claims> {
    // What changes while the list is asked is asked for again.
    const { version } = revocations
    const settle = (refused: boolean) => {
      if (refused) throw tokenInvalid()
      entry.version = version
      return entry.claims
    }
    const refused = revocations.refuses(entry.claims, () => tokenId(token))
    return refused instanceof Promise ? refused.then(settle) : settle(refused)
  }

  return {
    sign (claims, { expiresIn = lifetime } = {}) {
      if (encode === undefined) throw cannotSign()
      const iat = Math.floor(now() / 1000)
      const payload = {
        ...claims,
        jti: claims.jti ?? randomUUID(),
        ...(issuer !== undefined && { iss: issuer }),
        ...(audience !== undefined && { aud: audience }),
        iat,
        exp: iat + Math.ceil(expiresIn)
      }
      requireForm(payload)
      return encode(payload)
    },
    verify (token, provider) {
      const known = verified.get(token)
      if (known === undefined || now() >= known.until) return verifyAnew(token, provider)
      if (provider !== undefined && provider !== known.provider) throw tokenInvalid()
      return known.version === revocations.version ? known.claims : unlessRevoked(token, known)
    },
    signPartial (claims) {
      if (partial === undefined) throw cannotSign()
      return partial.sign(claims)
    },
    verifyPartial (token) {
      if (partial === undefined || token.length > maxTokenLength) throw tokenInvalid()
      return partial.verify(token)
    },
    useRevocations (list) {
      if (revocations !== noRevocations) throw new Error('revoked tokens are known in one place: a plugin has registered itself already')
      revocations = list
    },
    tokenId,
    lifetime,
    canSign: encode !== undefined,
    providers: providers?.names ?? [],
    forget (provider) {
      for (const [token, known] of [...verified.entries()]) if (known.provider === provider) verified.delete(token)
    }
  }

  function cannotSign (): Error {
    return new Error(jwt === undefined ? 'no token can be signed without a `jwt` section' : 'no token can be signed without `jwt.privateKey`')
  }
}

/** Without a key nobody has signed anything. */
function refuse (): never {
  throw tokenInvalid()
}
