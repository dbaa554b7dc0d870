/** The endpoints of logins and their schemas. */
import type {} from '../rate-limit/index.js'
import type { FastifyInstance } from 'fastify'
import type { Login } from './service.js'
import { Type, type Static } from 'typebox'
import { failure } from '../../lib/errors.js'
import { actorOf, strangerOf } from '../auth/actor.js'
import { callerOf } from '../auth/access.js'
import { errorResponses } from '../conventions/index.js'
import { triesPerHour, triesPerMinute } from '../rate-limit/stranger-limits.js'
import { Email, Password } from '../users/user.js'
import { named } from '../../lib/validation/named-schema.js'
import { maxRefreshTokenLength, readRefreshToken } from '../sessions/refresh-token.js'
import { tokenInvalid } from '../auth/errors.js'
import { ExpiresIn, LoginSession, sendSession } from '../sessions/login-response.js'
import {
  decorateNamedTenant,
  existingTenant,
  findNamedTenant,
  isReachable,
  NamedTenantHeader,
  requireNamedTenant
} from '../tenancy/named-tenant.js'

export interface LoginRouteOptions {
  /** Whether callers who name a tenant can become its users. */
  readonly isOpen: boolean
  /** Whether second factors are on. */
  readonly hasMfa: boolean
}

const bodyLimit = 16_384 // bytes: the longest password as `\uXXXX`, and an address

const Credentials = named('Credentials', Type.Object({ email: Email, password: Password }, { additionalProperties: false }))
const Code = Type.Object({
  partialToken: Type.Optional(
    Type.String({ description: 'That of the login, unless it is sent as `Authorization: Bearer <partialToken>`.' })
  ),
  code: Type.String({ minLength: 6, maxLength: 64, description: 'A code of 6 digits of the authenticator app, or a backup code.' })
}, { additionalProperties: false })

const Partial = named(
  'PartialLogin',
  Type.Object({
    mfaRequired: Type.Boolean({ description: 'The user has a second factor.' }),
    partialToken: Type.String({ description: 'Opens `POST /auth/mfa/verify`, as a token would or in the body, and nothing else.' }),
    expiresIn: ExpiresIn
  })
)

const TenantHeader = NamedTenantHeader('The tenant. Without it the platform, where users cannot register.')

const RefreshBody = Type.Object({
  refreshToken: Type.String({ maxLength: maxRefreshTokenLength, description: 'That of the last login or refresh.' })
}, { additionalProperties: false })

const tags = ['Login']
const refusals = [400, 403, 429, 500, 503] as const

export function loginRoutes (app: FastifyInstance, login: Login, { isOpen, hasMfa }: LoginRouteOptions): void {
  decorateNamedTenant(app)

  app.post<{ Body: Static<typeof Credentials> }>('/auth/login', {
    config: { access: 'public', addressLimit: triesPerMinute },
    bodyLimit,
    schema: {
      tags,
      summary: 'Log in with an e-mail address and a password',
      description:
        'Of a user of the tenant that `X-Tenant-ID` names; without the header of the platform. The answer does not say whether the tenant or the user exists.',
      headers: TenantHeader,
      body: Credentials,
      response: { 200: Type.Union([LoginSession, Partial]), ...errorResponses(...refusals, 401) }
    },
    onRequest: findNamedTenant
  }, async (request, reply) => {
    const answer = await login.logIn(requireNamedTenant(request), request.body, request.ip)
    if ('token' in answer) return sendSession(reply, answer)
    return { mfaRequired: true, ...answer }
  })

  app.post<{ Body: Static<typeof Credentials> }>('/auth/register', {
    config: { access: 'public', addressLimit: triesPerHour },
    bodyLimit,
    schema: {
      tags,
      summary: 'Sign up as a user of the tenant',
      description: 'Where the document has `"auth": { "registration": "open" }`. The role is `user`.',
      headers: TenantHeader,
      body: Credentials,
      response: { 201: LoginSession, ...errorResponses(...refusals, 404, 409) }
    },
    async onRequest (request) {
      if (!isOpen) throw registrationClosed()
      const tenant = await existingTenant(request)
      if (tenant === undefined) {
        throw failure('tenantRequired', { message: 'A registration makes a user of a tenant: send the X-Tenant-ID header' })
      }
      if (tenant.config['registration'] === 'closed') throw registrationClosed()
      request.namedTenant = { id: tenant.id, exists: true }
    }
  }, async (request, reply) => sendSession(reply.code(201), await login.register(requireNamedTenant(request).id, request.body, request.ip)))

  app.post<{ Body: Static<typeof RefreshBody> }>('/auth/refresh', {
    config: { access: 'public', addressLimit: triesPerMinute },
    bodyLimit,
    schema: {
      tags,
      summary: 'Refresh the tokens of a session',
      description:
        'With the next refresh token and the present role of the user. A refresh token is used once: one that was used before ends its session, with all of its tokens.',
      body: RefreshBody,
      response: { 200: LoginSession, ...errorResponses(...refusals, 401) }
    }
  }, async (request, reply) => {
    const { refreshToken } = request.body
    const tenant = readRefreshToken(refreshToken)?.tenant
    if (tenant === undefined || !await isReachable(request, tenant)) throw tokenInvalid()
    return sendSession(reply, await login.refresh(refreshToken, strangerOf(request)))
  })

  if (!hasMfa) return
  app.post<{ Body: Static<typeof Code> }>('/auth/mfa/verify', {
    config: { access: 'partial', addressLimit: triesPerMinute },
    bodyLimit,
    schema: {
      tags,
      summary: 'Exchange a partial token and a second factor for a token',
      body: Code,
      response: { 200: LoginSession, ...errorResponses(...refusals, 401, 404) }
    }
  }, async (request, reply) => {
    return sendSession(reply, await login.verifyCode(callerOf(request), request.body.code, actorOf(request)))
  })
}

function registrationClosed (): Error {
  return failure('forbidden', { message: 'Registration is closed' })
}
