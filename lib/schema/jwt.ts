/** Tokens of callers. */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'

/** Characters: HS256 wants a key no shorter than its 256-bit hash (RFC 7518, 3.2). */
export const minSecretLength = 32

/** A token that no key has signed is tried with each of them. */
export const maxPreviousSecrets = 10

const Secret = (description: string) => Type.String({ minLength: minSecretLength, description })

export const Jwt = Section({
  secret: Type.Optional(Secret('Signs and verifies HS256 tokens. Default: the setting JWT_SECRET, where there is no `publicKey`.')),
  previousSecrets: Type.Optional(
    Type.Array(Secret('An earlier secret.'), {
      maxItems: maxPreviousSecrets,
      description: 'Earlier secrets: what they signed is accepted until it expires.'
    })
  ),
  expiresIn: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 31_536_000, default: 3600, unit: 's', description: 'How long a token lives.' })
  ),
  maxLifetime: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 315_360_000,
      unit: 's',
      description:
        'The longest time from `iat` to `exp` of a token, also of identity providers. A token that lives longer is refused, as is one without `iat`. The id of a deleted tenant is kept for this time. Default: no bound, and ids of deleted tenants are kept.'
    })
  ),
  issuer: Type.Optional(Type.String({ minLength: 1, description: 'The `iss` that tokens must carry. Default: any.' })),
  audience: Type.Optional(
    Type.Union([Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })], {
      description: 'The `aud` that tokens must carry, one of them where there are several. Default: any.'
    })
  ),
  publicKey: Type.Optional(
    Type.String({ minLength: 1, description: 'Verifies RS256 or ES256 tokens: a key in PEM, in place of `secret`.' })
  ),
  privateKey: Type.Optional(
    Type.String({ minLength: 1, description: 'Signs what `publicKey` verifies: a key in PEM. Default: tokens are issued elsewhere.' })
  ),
  algorithm: Type.Optional(
    Type.Enum(['HS256', 'RS256', 'ES256'], {
      description: 'The one algorithm that is accepted. Default: HS256 with `secret`, else the one of `publicKey`.'
    })
  )
}, { description: 'The keys of tokens. Without it no route can ask for a token.' })
export type Jwt = Filled<Static<typeof Jwt>, 'expiresIn' | 'algorithm'>
