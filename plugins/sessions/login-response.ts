/** The response of a login, also of other endpoints that begin a session. */
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { OrNull } from '../../lib/http/schemas.js'
import { tenantField, tenantRef } from '../../lib/identity/tenant-ref.js'
import { named } from '../../lib/validation/named-schema.js'
import type { SessionUser } from './refresh-tokens.js'
import type { BegunSession } from './service.js'

export const ExpiresIn = Type.Integer({ description: 'The lifetime of the token in seconds.' })

export const LoginSession = named(
  'LoginSession',
  Type.Object({
    token: Type.String({ description: 'The token. Send it as `Authorization: Bearer <token>`.' }),
    tokenType: Type.String({ enum: ['Bearer'] }),
    expiresIn: ExpiresIn,
    refreshToken: Type.String({ description: 'The refresh token, which can be exchanged once for a new token at `POST /auth/refresh`.' }),
    user: Type.Object({
      id: Type.String({ format: 'uuid', description: 'The id of the user: the `sub` of the token.' }),
      email: Type.String(),
      role: Type.String(),
      tenantId: OrNull(Type.String(), "The id of the user's tenant; null for a user of the platform.")
    })
  })
)

/** A session and its user. */
export interface LoggedIn extends BegunSession {
  readonly user: SessionUser
}

export function sendSession (
  reply: FastifyReply,
  { token, expiresIn, refreshToken, user: { id, email, role, tenant } }: LoggedIn
): FastifyReply {
  return reply.send({
    token,
    tokenType: 'Bearer',
    expiresIn,
    refreshToken,
    user: { id, email, role, tenantId: tenantField(tenantRef(tenant)) }
  })
}
