/** Tokens of external identity providers: `iss` names the provider, and the document has its rules. */
import type { KeyObject } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import { whenKnown } from '../../../lib/cache/async-cache.js'
import type { CompleteAuthProvider } from '../../../lib/document/rules/auth.js'
import { deepFreeze } from '../../../lib/json/plain-value.js'
import type { SignatureAlgorithm } from '../../../lib/schema/tokens.js'
import { requireValid, type VerifiedClaims } from '../claims.js'
import { tokenInvalid } from '../errors.js'
import { mapClaims } from './claims.js'
import { createJwks, type Jwks } from './jwks.js'
import { isSigned, type ReadToken, readToken } from './signature.js'

const renewEvery = 60_000 // ms between checks of the keys' age, since cached tokens do not trigger any

export type Providers = ReturnType<typeof createProviders>

interface Provider extends CompleteAuthProvider {
  readonly name: string
  readonly jwks: Jwks
}

/**
 * @param maxLifetime the longest life of a token in seconds; Infinity: no bound
 * @param onChange called when a provider's keys have changed: tokens that they verified are verified again
 */
export function createProviders (
  providers: Readonly<Record<string, CompleteAuthProvider>>,
  now: () => number,
  maxLifetime: number,
  log: FastifyBaseLogger,
  onChange: (provider: string) => void
) {
  const byIssuer = new Map<string, Provider>()
  for (const [name, provider] of Object.entries(providers)) {
    const jwks = createJwks(provider, now, () => onChange(name), (err) =>
      log.warn({ err, provider: name }, 'the keys of an identity provider could not be read'))
    byIssuer.set(provider.issuer, { name, jwks, ...provider })
  }
  const timer = setInterval(() => {
    for (const { jwks } of byIssuer.values()) jwks.renew()
  }, renewEvery).unref()

  function verify (token: ReadToken, provider: Provider): VerifiedClaims | Promise<VerifiedClaims> {
    const { algorithm, kid } = requireFit(token, provider)
    const { jwks } = provider
    const isSignedBy = (key: KeyObject) => isSigned(token.input, token.signature, key, algorithm)
    const claims = () => ({
      ...requireValid(now(), mapClaims(provider.name, provider, token.payload), maxLifetime),
      payload: deepFreeze(token.payload)
    })
    const settle = (key: KeyObject) => {
      if (!isSignedBy(key)) throw tokenInvalid()
      return claims()
    }
    const key = jwks.find(algorithm, kid)
    if (key instanceof Promise) return key.then(settle)
    if (isSignedBy(key)) return claims()
    // Without a key id, only the signature shows that the provider has replaced its key.
    if (kid !== undefined) throw tokenInvalid()
    return whenKnown(jwks.find(algorithm, kid, key), settle)
  }

  return {
    names: Object.keys(providers),
    /**
     * A token whose `iss` names a provider; null for a token of another issuer, and for an invalid one. `verify` returns its claims, at
     * once if its key is known; it throws, or rejects with, `tokenInvalid`, `tokenExpired` or `identityProviderUnavailable`.
     */
    read (text: string) {
      const token = readToken(text)
      const issuer = token?.payload.iss
      const provider = typeof issuer === 'string' ? byIssuer.get(issuer) : undefined
      if (token === null || provider === undefined) return null
      return { provider: provider.name, verify: () => verify(token, provider) }
    },
    close (): void {
      clearInterval(timer)
      for (const { jwks } of byIssuer.values()) jwks.close()
    }
  }
}

/** Runs the checks of a token that need no key. Throws `tokenInvalid`. */
function requireFit (
  { header: { alg, kid, crit }, payload: { aud } }: ReadToken,
  { algorithms, audience }: Provider
): { algorithm: SignatureAlgorithm, kid: string | undefined } {
  const algorithm = algorithms.find((name) => name === alg)
  const named: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  const isForUs = named.some((one) => typeof one === 'string' && audience.includes(one))
  // Critical extensions (RFC 7515, 4.1.11) are not supported.
  if (algorithm === undefined || crit !== undefined || !isForUs) throw tokenInvalid()
  if (kid !== undefined && typeof kid !== 'string') throw tokenInvalid()
  return { algorithm, kid }
}
