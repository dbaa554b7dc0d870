/** The endpoints of logins and their schemas (SPEC "Multi-factor authentication", DESIGN 5 "Login"). */
import type {} from '../rate-limit/index.js'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { LoggedIn, Login } from './service.js'
import { Type, type Static } from 'typebox'
import { failure } from '../../lib/errors.js'
import { actorOf } from '../audit/actor.js'
import { callerOf } from '../auth/access.js'
import { errorResponses } from '../conventions/index.js'
import { Email, Password } from '../users/user.js'
import { named } from '../../lib/named-schema.js'
import { existingTenant, namedTenant, type NamedTenant } from './tenant.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The tenant that a login or a registration names; null on other routes. */
    loginTenant: NamedTenant | null
  }
}

export interface LoginRouteOptions {
  /** Whether whoever names a tenant may become a user of it. */
  readonly isOpen: boolean
  /** Whether there are second factors. */
  readonly hasMfa: boolean
}

const bodyLimit = 16_384 // bytes: the longest password as `\uXXXX`, and an address

const Credentials = named('Credentials', Type.Object({ email: Email, password: Password }, { additionalProperties: false }))
const Code = Type.Object({
  partialToken: Type.Optional(Type.String({ description: 'That of the login, unless it is sent as `Authorization: Bearer <partialToken>`.' })),
  code: Type.String({ minLength: 6, maxLength: 64, description: 'A code of 6 digits of the authenticator app, or a backup code.' })
}, { additionalProperties: false })

const ExpiresIn = Type.Integer({ description: 'Seconds.' })
const Session = named('LoginSession', Type.Object({
  token: Type.String({ description: 'Send it as `Authorization: Bearer <token>`.' }),
  tokenType: Type.String({ enum: ['Bearer'] }),
  expiresIn: ExpiresIn,
  user: Type.Object({
    id: Type.String({ format: 'uuid', description: 'The `sub` of the token.' }),
    email: Type.String(),
    role: Type.String(),
    tenantId: Type.Union([Type.String(), Type.Null()], { description: 'null: a user of the platform.' })
  })
}))
const Partial = named('PartialLogin', Type.Object({
  mfaRequired: Type.Boolean({ description: 'The user has a second factor.' }),
  partialToken: Type.String({ description: 'Opens `POST /auth/mfa/verify`, as a token would or in the body, and nothing else.' }),
  expiresIn: ExpiresIn
}))

/** For `/doc`: it is judged before anything else. */
const TenantHeader = Type.Object({ 'X-Tenant-ID': Type.Optional(Type.String({ description: 'The tenant; without it the platform, which nobody registers at.' })) })

const tags = ['Login']
const refusals = [400, 403, 429, 500, 503] as const
const minute = 60_000 // ms
/** For each address, whatever becomes of them: what is asked for takes a core some 20 ms. */
const tryLimit = { max: 60, windowMs: minute }
const registrationLimit = { max: 60, windowMs: 60 * minute }

export function loginRoutes (app: FastifyInstance, login: Login, { isOpen, hasMfa }: LoginRouteOptions): void {
  app.decorateRequest('loginTenant', null)

  app.post<{ Body: Static<typeof Credentials> }>('/auth/login', {
    config: { access: 'public', addressLimit: tryLimit },
    bodyLimit,
    schema: {
      tags,
      summary: 'A token for an e-mail address and a password',
      description: 'Of a user of the tenant that `X-Tenant-ID` names; without the header of the platform. Whether there is such a tenant and user is not told.',
      headers: TenantHeader,
      body: Credentials,
      response: { 200: Type.Union([Session, Partial]), ...errorResponses(...refusals, 401) }
    },
    async onRequest (request) { request.loginTenant = await namedTenant(request) }
  }, async (request, reply) => {
    const answer = await login.logIn(tenantOf(request), request.body, request.ip)
    if ('token' in answer) return sendSession(reply, answer)
    return uncached(reply).send({ mfaRequired: true, ...answer })
  })

  app.post<{ Body: Static<typeof Credentials> }>('/auth/register', {
    config: { access: 'public', addressLimit: registrationLimit },
    bodyLimit,
    schema: {
      tags,
      summary: 'Become a user of the tenant that `X-Tenant-ID` names',
      description: 'Where the document has `"auth": { "registration": "open" }`. The role is `user`.',
      headers: TenantHeader,
      body: Credentials,
      response: { 201: Session, ...errorResponses(...refusals, 404, 409) }
    },
    async onRequest (request) {
      if (!isOpen) throw registrationClosed()
      const tenant = await existingTenant(request)
      if (tenant === undefined) throw failure('tenantRequired', { message: 'Whoever registers becomes a user of a tenant: send the X-Tenant-ID header' })
      if (tenant.config['registration'] === 'closed') throw registrationClosed()
      request.loginTenant = { id: tenant.id, exists: true }
    }
  }, async (request, reply) => sendSession(reply.code(201), await login.register(tenantOf(request).id, request.body, request.ip)))

  if (!hasMfa) return
  app.post<{ Body: Static<typeof Code> }>('/auth/mfa/verify', {
    config: { access: 'partial', addressLimit: tryLimit },
    bodyLimit,
    schema: {
      tags,
      summary: 'A token for a partial token and the second factor',
      body: Code,
      response: { 200: Session, ...errorResponses(...refusals, 401, 404) }
    }
  }, async (request, reply) => {
    return sendSession(reply, await login.verifyCode(callerOf(request), request.body.code, actorOf(request)))
  })
}

function tenantOf ({ loginTenant }: FastifyRequest): NamedTenant {
  if (loginTenant === null) throw new Error('the request was not asked for its tenant')
  return loginTenant
}

function sendSession (reply: FastifyReply, { token, expiresIn, user: { id, email, role, tenant } }: LoggedIn): FastifyReply {
  return uncached(reply).send({ token, tokenType: 'Bearer', expiresIn, user: { id, email, role, tenantId: tenant === '' ? null : tenant } })
}

function uncached (reply: FastifyReply): FastifyReply {
  return reply.header('cache-control', 'no-store')
}

function registrationClosed (): Error {
  return failure('forbidden', { message: 'Registration is closed' })
}
