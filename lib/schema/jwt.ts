/** Tokens of callers. */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'

/** Characters. HS256 needs a key at least as long as its 256-bit hash (RFC 7518, 3.2). */
export const minSecretLength = 32

/** An invalid token is checked against each of them. */
export const maxPreviousSecrets = 10

const Secret = (description: string) => Type.String({ minLength: minSecretLength, description })

export const Jwt = Section({
  secret: Type.Optional(
    Secret('The secret that signs and verifies HS256 tokens. Default: the setting JWT_SECRET if there is no `publicKey`.')
  ),
  previousSecrets: Type.Optional(
    Type.Array(Secret('A previous secret.'), {
      maxItems: maxPreviousSecrets,
      description: 'Previous secrets. Tokens signed with them are accepted until they expire.'
    })
  ),
  expiresIn: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 31_536_000, default: 3600, unit: 's', description: 'The lifetime of a token.' })
  ),
  maxLifetime: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 315_360_000,
      unit: 's',
      description:
        'The maximum time from `iat` to `exp` of a token, including tokens of identity providers. A token with a longer lifetime or without `iat` is rejected. The id of a deleted tenant is reserved for this time. Default: no limit, and ids of deleted tenants are reserved forever.'
    })
  ),
  issuer: Type.Optional(Type.String({ minLength: 1, description: 'The required `iss` of tokens. Default: any.' })),
  audience: Type.Optional(
    Type.Union([Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })], {
      description: 'The required `aud` of tokens. One of several values is sufficient. Default: any.'
    })
  ),
  publicKey: Type.Optional(
    Type.String({ minLength: 1, description: 'The key that verifies RS256 or ES256 tokens, in PEM format, instead of `secret`.' })
  ),
  privateKey: Type.Optional(
    Type.String(
      { minLength: 1, description: 'The signing key for `publicKey`, in PEM format. Default: tokens are issued by another service.' }
    )
  ),
  algorithm: Type.Optional(
    Type.Enum(['HS256', 'RS256', 'ES256'], {
      description: 'The only accepted algorithm. Default: HS256 with `secret`, otherwise the algorithm of `publicKey`.'
    })
  )
}, { description: 'The keys of tokens. Without this section, routes cannot require a token.' })
export type Jwt = Filled<Static<typeof Jwt>, 'expiresIn' | 'algorithm'>
