/** Tokens of callers. */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'

/** Characters. HS256 needs a key at least as long as its 256-bit hash (RFC 7518, 3.2). */
export const minSecretLength = 32

/** An invalid token is checked against each of them. */
export const maxPreviousSecrets = 10

const Secret = (description: string) => Type.String({ minLength: minSecretLength, description })

export const Jwt = Section({
  secret: Type.Optional(Secret('Signs and verifies HS256 tokens. Default: the setting JWT_SECRET, where there is no `publicKey`.')),
  previousSecrets: Type.Optional(
    Type.Array(Secret('An earlier secret.'), {
      maxItems: maxPreviousSecrets,
      description: 'Former secrets. Tokens that they signed are accepted until they expire.'
    })
  ),
  expiresIn: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 31_536_000, default: 3600, unit: 's', description: 'The life of a token.' })
  ),
  maxLifetime: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 315_360_000,
      unit: 's',
      description:
        'The longest time from `iat` to `exp` of a token, also of identity providers. A token with a longer life, or without `iat`, is refused. The id of a deleted tenant is kept for this time. Default: no bound, and ids of deleted tenants are kept.'
    })
  ),
  issuer: Type.Optional(Type.String({ minLength: 1, description: 'The required `iss` of tokens. Default: any.' })),
  audience: Type.Optional(
    Type.Union([Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })], {
      description: 'The required `aud` of tokens; one of several is enough. Default: any.'
    })
  ),
  publicKey: Type.Optional(
    Type.String({ minLength: 1, description: 'Verifies RS256 or ES256 tokens: a key in PEM, in place of `secret`.' })
  ),
  privateKey: Type.Optional(
    Type.String({ minLength: 1, description: 'The signing key for `publicKey`, in PEM. Default: tokens are issued elsewhere.' })
  ),
  algorithm: Type.Optional(
    Type.Enum(['HS256', 'RS256', 'ES256'], {
      description: 'The only accepted algorithm. Default: HS256 with `secret`, else that of `publicKey`.'
    })
  )
}, { description: 'The keys of tokens. Without it, routes cannot require a token.' })
export type Jwt = Filled<Static<typeof Jwt>, 'expiresIn' | 'algorithm'>
