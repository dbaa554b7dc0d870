/** The endpoints that end sessions, and their schemas. */
import type { FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { callerErrors } from '../../lib/http/error-schemas.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { Success } from '../../lib/http/schemas.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { callerOf, tokenMissing } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { bearerToken } from '../auth/identification.js'
import type { Sessions } from './service.js'

const Nothing = named('OptionalBody', ClosedObject({}, { description: 'An empty object, which can be omitted.' }))

/** An API key has no session to end. */
const shared = { tags: ['Sessions'], security: [{ bearer: [] }], body: Nothing, bodyOptional: true }
const config = { access: 'user', callerLimit: true } as const

export function sessionRoutes (app: FastifyGroup, sessions: Sessions): void {
  app.post('/auth/logout', {
    config,
    schema: {
      ...shared,
      summary: 'Log out',
      description: 'Revokes the token. All servers reject it within one second.',
      response: { 200: Success, ...callerErrors() }
    }
  }, async (request) => {
    const { claims, token } = sessionOf(request)
    await sessions.close(claims, token, actorOf(request))
    return { success: true }
  })

  app.post('/auth/logout-all', {
    config,
    schema: {
      ...shared,
      summary: 'Log out of all sessions',
      description:
        'Revokes all tokens issued to the caller so far. All servers reject them within one second. Tokens issued afterwards are valid.',
      response: { 200: Success, ...callerErrors() }
    }
  }, async (request) => {
    const { claims } = sessionOf(request)
    await sessions.closeAll(claims.tenant_id ?? '', claims.sub, actorOf(request), claims)
    return { success: true }
  })
}

/** The token of the request, which the plugin auth has accepted, with its claims. */
function sessionOf (request: FastifyRequest): { claims: Claims, token: string } {
  if (request.headers['x-api-key'] !== undefined) {
    throw failure('badRequest', {
      message: 'An API key has no session: send the token of the session. Revoke a key at the endpoint that created it'
    })
  }
  const token = bearerToken(request)
  if (token === null) throw tokenMissing()
  return { claims: callerOf(request), token }
}
