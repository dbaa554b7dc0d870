/** The endpoints that end sessions, and their schemas. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Claims } from '../../lib/expressions/types.js'
import type { Sessions } from './service.js'
import { Type } from 'typebox'
import { failure } from '../../lib/errors.js'
import { actorOf } from '../auth/actor.js'
import { callerOf, tokenMissing } from '../auth/access.js'
import { errorResponses } from '../conventions/index.js'
import { named } from '../../lib/validation/named-schema.js'
import { Success } from '../../lib/http/schemas.js'

const Nothing = named(
  'OptionalBody',
  Type.Object({}, { additionalProperties: false, description: 'There is nothing to say: it may be left out.' })
)

/** An API key has no session to end. */
const shared = { tags: ['Sessions'], security: [{ bearer: [] }], body: Nothing, bodyOptional: true }
const config = { access: 'user' } as const
const refusals = [400, 401, 403, 404, 429, 500, 503] as const

export function sessionRoutes (app: FastifyInstance, sessions: Sessions): void {
  app.post('/auth/logout', {
    config,
    schema: {
      ...shared,
      summary: 'Log out',
      description: 'The token is refused from now on, within a second by every server.',
      response: { 200: Success, ...errorResponses(...refusals) }
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
        'Every token that was issued to the caller before is refused from now on, within a second by every server. Those that are issued afterwards are not.',
      response: { 200: Success, ...errorResponses(...refusals) }
    }
  }, async (request) => {
    const { claims } = sessionOf(request)
    await sessions.closeAll(claims.tenant_id ?? '', claims.sub, actorOf(request), claims)
    return { success: true }
  })
}

/** The token of the request, which the plugin auth has accepted, with its claims. */
function sessionOf (request: FastifyRequest): { claims: Claims, token: string } {
  const { headers } = request
  if (headers['x-api-key'] !== undefined) {
    throw failure('badRequest', {
      message: 'An API key has no session: send the token whose session is to end. A key is ended where it was made'
    })
  }
  const [, token] = headers.authorization?.trim().split(/ +/) ?? []
  if (token === undefined) throw tokenMissing()
  return { claims: callerOf(request), token }
}
