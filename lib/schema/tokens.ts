/** Tokens of callers: the server's own, and those of external identity providers. */
import { type Static, Type } from 'typebox'
import { ClosedObject, type Filled, Optional } from './annotations.js'

/** Characters. HS256 needs a key at least as long as its 256-bit hash (RFC 7518, 3.2). */
export const minSecretLength = 32

/** An invalid token is checked against each of them. */
export const maxPreviousSecrets = 10

const Secret = (description: string) => Type.String({ minLength: minSecretLength, description })

export const Jwt = ClosedObject({
  secret: Type.Optional(
    Secret('The secret that signs and verifies HS256 tokens. Default: the setting JWT_SECRET if there is no `publicKey`.')
  ),
  previousSecrets: Optional.Array(
    'Previous secrets. Tokens signed with them are accepted until they expire.',
    Secret('A previous secret.'),
    { maxItems: maxPreviousSecrets }
  ),
  expiresIn: Optional.Integer('The lifetime of a token.', { minimum: 1, maximum: 31_536_000, default: 3600, unit: 's' }),
  maxLifetime: Optional.Integer(
    'The maximum time from `iat` to `exp` of a token, including tokens of identity providers. A token with a longer lifetime or without `iat` is rejected. The id of a deleted tenant is reserved for this time. Default: no limit, and ids of deleted tenants are reserved forever.',
    { minimum: 1, maximum: 315_360_000, unit: 's' }
  ),
  issuer: Optional.String('The required `iss` of tokens. Default: any.', { minLength: 1 }),
  audience: Optional.Union(
    'The required `aud` of tokens. One of several values is sufficient. Default: any.',
    [Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })]
  ),
  publicKey: Optional.String('The key that verifies RS256 or ES256 tokens, in PEM format, instead of `secret`.', { minLength: 1 }),
  privateKey: Optional.String(
    'The signing key for `publicKey`, in PEM format. Default: tokens are issued by another service.',
    { minLength: 1 }
  ),
  algorithm: Optional.Enum(
    'The only accepted algorithm. Default: HS256 with `secret`, otherwise the algorithm of `publicKey`.',
    ['HS256', 'RS256', 'ES256']
  )
}, { description: 'The keys of tokens. Without this section and without the setting JWT_SECRET, routes cannot require a token.' })
export type Jwt = Filled<Static<typeof Jwt>, 'expiresIn' | 'algorithm'>

/** Algorithms of external tokens (RFC 7518, RFC 8037): never a shared secret. */
export const signatureAlgorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const
export type SignatureAlgorithm = typeof signatureAlgorithms[number]

export const providerName = /^[A-Za-z0-9_-]{1,32}$/

const Address = (description: string) => Optional.String(description, { minLength: 1, maxLength: 2000 })
const Claim = (description: string, none: string) =>
  Optional.String(
    `${description}, by its name, or by a path such as \`app_metadata.tenant\`. Default: none, ${none}.`,
    { minLength: 1, maxLength: 200 }
  )
const Audience = Type.String({ minLength: 1, maxLength: 500 })

export const AuthProvider = ClosedObject({
  issuer: Address('The issuer, the `iss` of the tokens. Required, except for `firebase` with a `projectId`.'),
  jwksUri: Address(
    'The URL of the keys, a JWK set: `https:`, or `http:` on this machine. Required, except for `firebase` with a `projectId`.'
  ),
  audience: Optional.Union(
    'The audience, the `aud` of the tokens. One of several values is sufficient. Required, except for `firebase` with a `projectId`.',
    [Audience, Type.Array(Audience, { minItems: 1, maxItems: 20 })]
  ),
  projectId: Optional.String(
    'For the provider `firebase`: the project, which sets `issuer`, `jwksUri` and `audience`.',
    { pattern: '^[A-Za-z0-9.:_-]{1,100}$', expected: "the project's id, such as `my-app-1a2b3`" }
  ),
  tenantClaim: Claim('The claim with the tenant', 'users do not belong to a tenant'),
  roleClaim: Claim('The claim with the role', 'users have no role'),
  algorithms: Optional.Array(
    'The accepted signing algorithms.',
    Type.Enum([...signatureAlgorithms]),
    { minItems: 1, uniqueItems: true, default: ['RS256'] }
  )
}, { description: 'An identity provider.' })
export type AuthProvider = Static<typeof AuthProvider>

export const AuthProviders = Type.Record(Type.String({ pattern: providerName.source }), AuthProvider, {
  additionalProperties: false,
  default: {},
  expected: '1 to 32 characters of `A-Z a-z 0-9 _ -`',
  description:
    "External identity providers, at most 20, by the name used in a route's `authProvider`. `firebase` requires only a `projectId`."
})
export type AuthProviders = Static<typeof AuthProviders>
