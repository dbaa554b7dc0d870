/** External identity providers, whose tokens are accepted beside the server's own. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

/** Algorithms of external tokens (RFC 7518, RFC 8037): never a shared secret. */
export const signatureAlgorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const
export type SignatureAlgorithm = typeof signatureAlgorithms[number]

export const providerName = /^[A-Za-z0-9_-]{1,32}$/

const Address = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: 2000, description }))
const Claim = (description: string, none: string) =>
  Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: `${description}, by its name, or by a path such as \`app_metadata.tenant\`. Default: none, ${none}.`
    })
  )
const Audience = Type.String({ minLength: 1, maxLength: 500 })

export const AuthProvider = Section({
  issuer: Address('The issuer, the `iss` of the tokens. Required, except for `firebase` with a `projectId`.'),
  jwksUri: Address(
    'The URL of the keys, a JWK set: `https:`, or `http:` on this machine. Required, except for `firebase` with a `projectId`.'
  ),
  audience: Type.Optional(
    Type.Union([Audience, Type.Array(Audience, { minItems: 1, maxItems: 20 })], {
      description:
        'The audience, the `aud` of the tokens. One of several values is sufficient. Required, except for `firebase` with a `projectId`.'
    })
  ),
  projectId: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9.:_-]{1,100}$',
      expected: "the project's id, such as `my-app-1a2b3`",
      description: 'For the provider `firebase`: the project, which sets `issuer`, `jwksUri` and `audience`.'
    })
  ),
  tenantClaim: Claim('The claim with the tenant', 'users do not belong to a tenant'),
  roleClaim: Claim('The claim with the role', 'users have no role'),
  algorithms: Type.Optional(
    Type.Array(Type.Enum([...signatureAlgorithms]), {
      minItems: 1,
      uniqueItems: true,
      default: ['RS256'],
      description: 'The accepted signing algorithms.'
    })
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
