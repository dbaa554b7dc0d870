/** The server's own keys: @fastify/jwt signs and verifies their tokens. The claims are checked elsewhere. */
import type { JWT, SignOptions } from '@fastify/jwt'
import { type Algorithm, type Decoded, type JwtOptions, keyIdOf, type Keys, verifierOf, verifyWithAny } from './keys.js'
import { createPartialTokens, type PartialTokens } from './partial.js'

export interface OwnKeys {
  readonly algorithm: Algorithm
  /** Throws `tokenInvalid` unless one of the keys signed the token with the fixed algorithm. */
  readonly decode: (token: string) => Decoded
  /** Signs with the current key; undefined without one. */
  readonly encode: ((payload: object, options: Partial<SignOptions>) => string) | undefined
  /** undefined without the text of a signing key. */
  readonly partial: PartialTokens | undefined
  /** Claims of every signed token. */
  readonly claims: { readonly iss?: string, readonly aud?: string | readonly string[] }
  /** The configured lifetime of a token in seconds. */
  readonly lifetime: number | undefined
  /** Whether a token can become invalid before it expires, by `maxAge`. Then it is verified with each request. */
  readonly isAged: boolean
  /** The id of the current key, or of the previous one that `decode` returns; null if its text is unknown. */
  readonly idOf: (key: string | undefined) => string | null
  /** Whether tokens of the key with this id are accepted. */
  readonly hasKey: (id: string | null) => boolean
}

/** The algorithm and lifetime of tokens of an app's own registration of @fastify/jwt. */
export interface Registered {
  readonly algorithm: Algorithm
  readonly lifetime: number | undefined
  readonly canSign: boolean
}

/** The keys of the section `jwt`. */
export function ownKeys (options: JwtOptions, keys: Keys, jwt: JWT, now: () => number, registered?: Registered): OwnKeys {
  const { issuer, audience, expiresIn: lifetime = registered?.lifetime } = options
  const canSign = registered?.canSign ?? true
  const ids = new Map(keys.verifying.map((key) => [key, keyIdOf(keys.algorithm, key)]))
  const [current = ''] = keys.verifying
  return {
    algorithm: keys.algorithm,
    decode: createDecoder(options, keys, jwt),
    encode: canSign ? createEncoder(keys, jwt) : undefined,
    partial: canSign ? createPartialTokens(keys, jwt, now) : undefined,
    claims: { ...issuer !== undefined && { iss: issuer }, ...audience !== undefined && { aud: audience } },
    lifetime,
    isAged: isAged(jwt),
    idOf: (key = current) => ids.get(key) ?? null,
    hasKey: (id) => [...ids.values()].some((known) => known === id)
  }
}

/** The key of an app's own registration of @fastify/jwt, whose text this package does not know. */
export function registeredKey (jwt: JWT, { algorithm, lifetime, canSign }: Registered): OwnKeys {
  const verify = verifierOf(jwt, algorithm)
  return {
    algorithm,
    decode: (token) => ({ payload: verifyWithAny([verify], token), key: undefined }),
    encode: canSign ? (payload, options) => jwt.sign(payload, { ...options, algorithm }) : undefined,
    partial: undefined,
    claims: {},
    lifetime,
    isAged: isAged(jwt),
    idOf: () => null,
    hasKey: (id) => id === null
  }
}

function isAged ({ options: { verify } }: JWT): boolean {
  return verify.maxAge !== undefined
}

/**
 * Accepts tokens signed with one of the keys. A known header names the key. Other tokens are tried with each key, since other
 * programs with the same secret may sign tokens too.
 */
function createDecoder ({ issuer, audience }: JwtOptions, { algorithm, verifying }: Keys, jwt: JWT): (token: string) => Decoded {
  const decoders = verifying.map((key, index) => {
    const verify = verifierOf(jwt, algorithm, {
      key,
      // A missing claim would pass the check of its value.
      requiredClaims: [...issuer === undefined ? [] : ['iss'], ...audience === undefined ? [] : ['aud']],
      ...(issuer !== undefined && { allowedIss: issuer }),
      ...(audience !== undefined && { allowedAud: typeof audience === 'string' ? audience : [...audience] })
    })
    return (token: string): Decoded => ({ payload: verify(token), key: index === 0 ? undefined : key })
  })
  const byHeader = new Map(verifying.map((key, index) => [headerOf(algorithm, key), decoders.slice(index, index + 1)]))
  return (token) => verifyWithAny(byHeader.get(token.slice(0, token.indexOf('.'))) ?? decoders, token)
}

function createEncoder ({ algorithm, verifying: [current], signing }: Keys, jwt: JWT): OwnKeys['encode'] {
  if (signing === undefined || current === undefined) return undefined
  const fixed = { key: signing, algorithm, kid: keyIdOf(algorithm, current) }
  return (payload, options) => jwt.sign(payload, { ...options, ...fixed })
}

/** The first part of every token signed with the key. */
function headerOf (algorithm: Keys['algorithm'], key: string): string {
  return Buffer.from(JSON.stringify({ alg: algorithm, typ: 'JWT', kid: keyIdOf(algorithm, key) })).toString('base64url')
}
