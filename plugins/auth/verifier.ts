/** Verifies tokens, and caches valid ones. */
import { LRUCache } from 'lru-cache'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { requireValid, type VerifiedClaims } from './claims.js'
import { tokenInvalid } from './errors.js'
import type { OwnKeys } from './own-key.js'
import { ownProvider } from './providers/claims.js'
import type { Providers } from './providers/index.js'
import { noRevocations, type RevocationList, type Sources, tokenId } from './sources.js'

export const maxTokenLength = 8192 // characters; longer tokens are refused without parsing
const maxCachedTokens = 50_000
const maxCachedCharacters = 33_554_432 // 32 MB of tokens

/** A verified, remembered token. */
export interface Verified extends VerifiedClaims {
  readonly provider: string
  /** The own key that signed it, if @fastify/jwt does not use it by itself: that of a previous secret. */
  readonly key: string | undefined
  /** The version of the list of revocations at the last check. */
  version: number
}

export interface Verifier {
  /** The token, as `verify` of `app.auth`, with further facts about it. */
  inspect(token: string, provider?: string): Verified | Promise<Verified>
  /** Tokens of the provider are verified again at their next use. */
  forget(provider: string): void
}

/** A verified token is cached until it expires, so that the caller's next request costs one look-up. */
export function createVerifier (
  own: OwnKeys | undefined,
  now: () => number,
  providers: Providers | undefined,
  maxLifetime: number,
  listOf: Sources['revocations']
): Verifier {
  const { decode = refuse, isAged = false } = own ?? {}
  let found: RevocationList | null = null
  const verified = new LRUCache<string, Verified>({
    maxSize: maxCachedCharacters,
    sizeCalculation: (_value, token) => token.length
  })

  function verifyAnew (token: string, provider: string | undefined): Verified | Promise<Verified> {
    if (token.length > maxTokenLength) throw tokenInvalid()
    const external = providers?.read(token) ?? null
    const signer = external?.provider ?? ownProvider
    if (provider !== undefined && provider !== signer) throw tokenInvalid()
    if (external === null) {
      const { payload, key } = decode(token)
      const valid = requireValid(now(), payload, maxLifetime)
      return remember(token, isAged ? { ...valid, until: -Infinity } : valid, signer, key)
    }
    return whenKnown(external.verify(), (found) => remember(token, found, signer))
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
    const list = revocations()
    const { version } = list
    const settle = (refused: boolean) => {
      if (refused) throw tokenInvalid()
      entry.version = version
      return entry
    }
    return whenKnown(list.refuses(entry.claims, () => tokenId(token)), settle)
  }

  function inspect (token: string, provider?: string): Verified | Promise<Verified> {
    const known = verified.get(token)
    if (known === undefined || now() >= known.until) return verifyAnew(token, provider)
    if (provider !== undefined && provider !== known.provider) throw tokenInvalid()
    return known.version === revocations().version ? known : unlessRevoked(token, known)
  }

  function revocations (): RevocationList {
    return (found ??= listOf()) ?? noRevocations
  }

  return {
    inspect,
    forget (provider) {
      for (const [token, known] of [...verified.entries()]) if (known.provider === provider) verified.delete(token)
    }
  }
}

/** Without a key no token is valid. */
function refuse (): never {
  throw tokenInvalid()
}
