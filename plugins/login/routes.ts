/** The endpoints of logins and their schemas. */
import { Type } from 'typebox'
import { failure } from '../../lib/errors.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { callerOf } from '../auth/access.js'
import { actorOf, anonymousActor } from '../auth/actor.js'
import { tokenInvalid } from '../auth/errors.js'
import { errorResponses } from '../conventions/index.js'
import { triesPerHour, triesPerMinute } from '../rate-limit/check-limit.js'
import { ExpiresIn, LoginSession, sendSession } from '../sessions/login-response.js'
import { maxRefreshTokenLength, readRefreshToken } from '../sessions/refresh-tokens.js'
import {
  decorateNamedTenant, existingTenant, findNamedTenant, isReachable, NamedTenantHeader, requireNamedTenant
} from '../tenancy/named.js'
import { Email, Password } from '../users/user.js'
import type { Login } from './service.js'

const bodyLimit = 16_384 // bytes: the longest password as `\uXXXX`, and an address

const Credentials = named('Credentials', ClosedObject({ email: Email, password: Password }))
const Code = ClosedObject({
  partialToken: Type.Optional(
    Type.String({ description: 'The partial token of the login. Not required if it is sent as `Authorization: Bearer <partialToken>`.' })
  ),
  code: Type.String({ minLength: 6, maxLength: 64, description: 'The code of 6 digits from the authenticator app, or a backup code.' })
})

const Partial = named(
  'PartialLogin',
  Type.Object({
    mfaRequired: Type.Boolean({ description: 'The user has a second factor, which `POST /auth/mfa/verify` checks.' }),
    partialToken: Type.String(
      { description: 'A token that is accepted only by `POST /auth/mfa/verify`, in the Authorization header or in the body.' }
    ),
    expiresIn: ExpiresIn
  })
)

const TenantHeader = NamedTenantHeader(
  'The id of the tenant. Without this header the request is for the platform, where sign-up is not possible.'
)

const RefreshBody = ClosedObject({
  refreshToken: Type.String({ maxLength: maxRefreshTokenLength, description: 'The refresh token of the last login or refresh.' })
})

const tags = ['Login']
const refusals = [400, 403, 429, 500, 503] as const

/**
 * @param isOpen callers who name a tenant can become its users
 * @param hasMfa second factors are on
 */
export function loginRoutes (app: FastifyGroup, login: Login, isOpen: boolean, hasMfa: boolean): void {
  decorateNamedTenant(app)

  app.post('/auth/login', {
    config: { access: 'public', addressLimit: triesPerMinute },
    bodyLimit,
    schema: {
      tags,
      summary: 'Log in with an e-mail address and a password',
      description:
        'Logs in a user of the tenant in `X-Tenant-ID`, or without that header a user of the platform. The response does not reveal whether the tenant or the user exists.',
      headers: TenantHeader,
      body: Credentials,
      response: { 200: Type.Union([LoginSession, Partial]), ...errorResponses(...refusals, 401) }
    },
    onRequest: findNamedTenant
  }, async (request, reply) => {
    const response = await login.logIn(requireNamedTenant(request), request.body, request.ip)
    if ('token' in response) return sendSession(reply, response)
    return { mfaRequired: true, ...response }
  })

  app.post('/auth/register', {
    config: { access: 'public', addressLimit: triesPerHour },
    bodyLimit,
    schema: {
      tags,
      summary: 'Sign up as a user of the tenant',
      description: 'Requires `"auth": { "registration": "open" }` in the document. The new user has the role `user`.',
      headers: TenantHeader,
      body: Credentials,
      response: { 201: LoginSession, ...errorResponses(...refusals, 404, 409) }
    },
    async onRequest (request) {
      if (!isOpen) throw registrationClosed()
      const tenant = await existingTenant(request)
      if (tenant === undefined) {
        throw failure('tenantRequired', { message: 'A new user must belong to a tenant: send the X-Tenant-ID header' })
      }
      if (tenant.config['registration'] === 'closed') throw registrationClosed()
      request.namedTenant = { id: tenant.id, exists: true }
    }
  }, async (request, reply) => sendSession(reply.code(201), await login.register(requireNamedTenant(request).id, request.body, request.ip)))

  app.post('/auth/refresh', {
    config: { access: 'public', addressLimit: triesPerMinute },
    bodyLimit,
    schema: {
      tags,
      summary: 'Refresh the tokens of a session',
      description:
        'Returns a new token with the current role of the user, and the next refresh token. A refresh token can be used once. If it is used again, the session and all its tokens are revoked.',
      body: RefreshBody,
      response: { 200: LoginSession, ...errorResponses(...refusals, 401) }
    }
  }, async (request, reply) => {
    const { refreshToken } = request.body
    const tenant = readRefreshToken(refreshToken)?.tenant
    if (tenant === undefined || !await isReachable(request, tenant)) throw tokenInvalid()
    return sendSession(reply, await login.refresh(refreshToken, anonymousActor(request)))
  })

  if (!hasMfa) return
  app.post('/auth/mfa/verify', {
    config: { access: 'partial', addressLimit: triesPerMinute },
    bodyLimit,
    schema: {
      tags,
      summary: 'Exchange a partial token and a second factor for a token',
      body: Code,
      response: { 200: LoginSession, ...errorResponses(...refusals, 401, 404) }
    }
  }, async (request, reply) => sendSession(reply, await login.verifyCode(callerOf(request), request.body.code, actorOf(request))))
}

function registrationClosed (): Error {
  return failure('forbidden', { message: 'Registration is closed' })
}
