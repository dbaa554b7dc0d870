/** The endpoints for the administration of a tenant's users, and their schemas. */
import { Type } from 'typebox'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { ListOf, pageQuery, readPage } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { IdParams, Success, Time } from '../../lib/http/schemas.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { anonymousActor, authorOf } from '../auth/actor.js'
import { errorResponses } from '../conventions/index.js'
import { reachableLink } from '../mail/links.js'
import { triesPerMinute } from '../rate-limit/check-limit.js'
import { LoginSession, sendSession } from '../sessions/login-response.js'
import { tenantOf } from '../tenancy/required.js'
import type { UserAdministration } from './administration.js'
import { Email, LinkPassword, maxEmailLength, Role } from './user.js'

const bodyLimit = 16_384 // bytes: the longest password, written as `\uXXXX`, and a token
const Status = Type.Enum(['active', 'disabled'], { description: 'The status of the user. `disabled`: the user cannot log in.' })

const Shown = named(
  'User',
  Type.Object({
    id: Type.String({ format: 'uuid', description: "The id of the user: the `sub` of the user's tokens." }),
    email: Type.String(),
    role: Type.String(),
    status: Status,
    emailVerified: Type.Boolean({ description: 'True if the user has verified the e-mail address.' }),
    createdAt: Time()
  })
)
const List = ListOf(Shown)
const ListQuery = ClosedObject({
  ...pageQuery('Users'),
  search: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: maxEmailLength,
      pattern: '^[^\\u0000]*$',
      description: 'Part of the e-mail address to search for, ignoring case.'
    })
  ),
  status: Type.Optional(Status)
})
const Changes = ClosedObject({ role: Type.Optional(Role), status: Type.Optional(Status) }, { minProperties: 1 })
const Invitation = ClosedObject({ email: Email, role: Type.Optional(Role) })
const Invited = Type.Object({
  id: Type.String({ format: 'uuid', description: 'The id of the user that accepting the invitation creates.' }),
  expiresAt: Time('The time at which the link in the mail expires.')
})
const tags = ['Users']
const config = { access: 'tenant-admin', permission: 'users:write' } as const
/** Of the endpoints that end access, and of the lists that they need. */
const revoking = { ...config, callerLimit: true } as const
const rule =
  "A caller without the role `admin` must have all permissions of the user's role. Callers cannot change or delete themselves or the last administrator of the tenant; administrators of the platform can."

export function userRoutes (app: FastifyGroup, service: UserAdministration): void {
  app.get('/users', {
    config: revoking,
    schema: {
      tags,
      summary: 'List users of the tenant',
      querystring: ListQuery,
      response: { 200: List, ...callerErrors() }
    }
  }, (request) => readPage(request, (page) => service.list(tenantOf(request), request.query, page)))

  app.get('/users/:id', {
    config: revoking,
    schema: { tags, summary: 'Retrieve a user', params: IdParams, response: { 200: Shown, ...callerErrors() } }
  }, (request) => service.read(tenantOf(request), request.params.id))

  app.patch('/users/:id', {
    config: revoking,
    schema: {
      tags,
      summary: 'Update a user',
      description:
        `${rule} Changing the role revokes the user's tokens; refresh tokens return new ones. Disabling a user revokes the user's tokens, sessions and API keys.`,
      params: IdParams,
      body: Changes,
      response: { 200: Shown, ...callerErrors(409) }
    }
  }, async (request) => await service.update(tenantOf(request), request.params.id, request.body, await authorOf(request)))

  app.delete('/users/:id', {
    config: revoking,
    schema: {
      tags,
      summary: 'Delete a user',
      description: rule,
      params: IdParams,
      response: { 200: Success, ...callerErrors(409) }
    }
  }, async (request) => {
    await service.delete(tenantOf(request), request.params.id, await authorOf(request))
    return { success: true }
  })

  app.post('/users/invite', {
    config: { ...config, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Invite a user by mail',
      description:
        'A caller without the role `admin` must have all permissions of the invited role. Default role: `user`. A new invitation replaces an earlier one of the same address. An address receives at most three invitations per hour, and a caller can send at most 100 per hour. Responds with 503 without `auth.mail`.',
      body: Invitation,
      response: { 201: Invited, ...callerErrors(409) }
    }
  }, async (request, reply) => reply.code(201).send(await service.invite(tenantOf(request), request.body, await authorOf(request))))

  app.post('/auth/invite/accept', {
    config: { access: 'public', addressLimit: triesPerMinute },
    bodyLimit,
    schema: {
      tags,
      summary: 'Accept an invitation',
      body: LinkPassword,
      response: { 201: LoginSession, ...errorResponses(400, 403, 409, 429, 500, 503) }
    }
  }, async (request, reply) => {
    const { token, password } = request.body
    return sendSession(reply.code(201), await service.accept(await reachableLink(request, token), password, anonymousActor(request)))
  })
}
