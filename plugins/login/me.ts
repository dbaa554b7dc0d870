/** `GET /auth/me`: the caller's user. */
import { Type } from 'typebox'
import { callerErrors } from '../../lib/http/error-schemas.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { OrNull } from '../../lib/http/schemas.js'
import { tenantField } from '../../lib/identity/tenant-ref.js'
import { named } from '../../lib/validation/named-schema.js'
import { callerOf, holdings, refuseApiKeys, tenantOfCaller } from '../auth/access.js'
import type { Mfa } from '../mfa/index.js'
import type { Users } from '../users/index.js'

const Me = named(
  'Me',
  Type.Object({
    id: Type.String({ description: 'The id of the user: the `sub` of the token.' }),
    email: OrNull(Type.String(), 'The e-mail address of the user; null for a token of another issuer without an address.'),
    role: OrNull(Type.String(), 'The role in the token; null if the token has none.'),
    permissions: Type.Array(Type.String(), {
      description: 'The permissions of the role and the token in this tenant, sorted. `*` grants everything.'
    }),
    tenantId: OrNull(Type.String(), "The id of the user's tenant; null for a user of the platform."),
    mfaEnabled: Type.Boolean({ description: 'True if the user has enabled a second factor.' }),
    emailVerified: OrNull(
      Type.Boolean(),
      'True if the user has verified the e-mail address; null if an identity provider or another issuer manages the user.'
    )
  })
)

/** @param mfa null: second factors are off */
export function meRoute (app: FastifyGroup, users: Users, mfa: Mfa | null): void {
  app.get('/auth/me', {
    config: { access: 'user' },
    onRequest: refuseApiKeys('An API key is not a user'),
    schema: {
      tags: ['Login'],
      security: [{ bearer: [] }],
      summary: 'Retrieve the user of the token',
      response: { 200: Me, ...callerErrors() }
    }
  }, async (request) => {
    const auth = callerOf(request)
    const tenant = tenantOfCaller(request)
    const user = await users.find(tenant, auth.sub)
    const held = await holdings(request)
    return {
      id: auth.sub,
      email: user?.email ?? auth.email ?? null,
      role: auth.role ?? null,
      permissions: [...new Set(held.values())].sort(),
      tenantId: tenantField(tenant),
      mfaEnabled: mfa !== null && await mfa.isEnabled(tenant, auth.sub),
      emailVerified: user?.emailVerified ?? null
    }
  })
}
