/** Credentials without their secrets. Work that outlives its request stores one, and checks with it whether its caller may still act. */
import type { IncomingHttpHeaders } from 'node:http'
import { isDeepStrictEqual } from 'node:util'
import type { Claims } from '../../lib/expressions/types.js'
import { apiKeyIdOf, keyTextOf } from '../../lib/identity/api-key-claims.js'
import { type TenantId, tenantIdOf } from '../../lib/identity/tenant-ref.js'
import { isOfPlatformKey, platformClaims, platformKeyId } from './callers.js'
import { requireValid } from './claims.js'
import { apiKeyUnknown, tokenInvalid } from './errors.js'
import { bearerToken } from './identification.js'
import type { OwnKeys } from './own-key.js'
import { fromProvider, ownProvider } from './providers/claims.js'
import { noRevocations, type Sources, tokenId } from './sources.js'
import type { TokenStore } from './tokens.js'

/** Plain JSON. */
export type Credential =
  | {
    readonly kind: 'token'
    readonly claims: Claims
    readonly provider: string
    /** The id by which the token is revoked. */
    readonly id: string
    /** The id of the server's own key that signed the token. */
    readonly key: string | null
  }
  | { readonly kind: 'key', readonly tenant: TenantId, readonly id: string, readonly text: string }
  | { readonly kind: 'platform-key', readonly id: string }

export interface Credentials {
  /** The credential of a caller that this plugin identified. null without one, and for a token that must be verified with each request. */
  credentialOf(caller: CredentialCaller): Promise<Credential | null>
  /** The claims of the caller. Rejects with the error that a request with the credential would get now: `tokenExpired`, `tokenInvalid`. */
  recall(credential: Credential): Promise<Claims>
}

export interface CredentialCaller {
  readonly auth: Claims | null
  readonly headers: IncomingHttpHeaders
}

export function createCredentials (
  own: OwnKeys | undefined,
  { inspect, maxLifetime, providers }: TokenStore,
  apiKey: string | undefined,
  sources: Sources,
  now: () => number
): Credentials {
  const platformKey = apiKey === undefined ? undefined : platformKeyId(apiKey)
  const recalled = new WeakMap<Claims, Credential>()

  function isTrusted (provider: string, key: string | null): boolean {
    return provider === ownProvider ? own?.hasKey(key) === true : providers.includes(provider)
  }

  async function claimsOf (credential: Credential): Promise<Claims> {
    switch (credential.kind) {
      case 'platform-key':
        if (credential.id !== platformKey) throw apiKeyUnknown()
        return platformClaims
      case 'key': {
        const { tenant, id, text } = credential
        const claims = await sources.apiKeys()?.recall(tenant, id, text) ?? null
        if (claims === null) throw apiKeyUnknown()
        return claims
      }
      case 'token': {
        const { provider, key, id } = credential
        if (!isTrusted(provider, key)) throw tokenInvalid()
        const stored = provider === ownProvider ? { ...credential.claims } : fromProvider(provider, credential.claims)
        const { claims } = requireValid(now(), stored, maxLifetime)
        if (await (sources.revocations() ?? noRevocations).refuses(claims, () => id)) throw tokenInvalid()
        return claims
      }
      default:
        return credential satisfies never
    }
  }

  return {
    async credentialOf ({ auth, headers }) {
      if (auth === null || auth === undefined) return null
      const known = recalled.get(auth)
      if (known !== undefined) return known
      if (isOfPlatformKey(auth)) return platformKey === undefined ? null : { kind: 'platform-key', id: platformKey }
      const [key, text] = [apiKeyIdOf(auth), keyTextOf(auth)]
      if (key !== undefined && text !== undefined) return { kind: 'key', tenant: tenantIdOf(auth.tenant_id ?? ''), id: key, text }
      const token = bearerToken({ headers })
      if (token === null) return null
      const verified = await inspect(token)
      // An app may have replaced the claims.
      if (!isDeepStrictEqual(verified.claims, auth)) return null
      const { claims, provider } = verified
      if (provider === ownProvider && own?.isAged !== false) return null
      const signed = provider === ownProvider ? own?.idOf(verified.key) ?? null : null
      return { kind: 'token', claims, provider, id: tokenId(token), key: signed }
    },

    async recall (credential) {
      const claims = await claimsOf(credential)
      if (credential.kind === 'token') recalled.set(claims, credential)
      return claims
    }
  }
}
