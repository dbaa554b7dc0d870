/** The endpoints of passwords and their schemas. */
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { Success } from '../../lib/http/schemas.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { callerOf, refuseApiKeys } from '../auth/access.js'
import { anonymousActor } from '../auth/actor.js'
import { errorResponses } from '../conventions/index.js'
import { reachableLink } from '../mail/links.js'
import { triesPerHour, triesPerMinute } from '../rate-limit/check-limit.js'
import { decorateNamedTenant, findNamedTenant, NamedTenantHeader, requireNamedTenant } from '../tenancy/named.js'
import { Email, LinkPassword, LinkTokenText, Password } from '../users/user.js'
import type { PasswordService } from './service.js'

const bodyLimit = 32_768 // bytes: two of the longest passwords as `\uXXXX`
const ForgotBody = ClosedObject({ email: Email })
const VerifyBody = ClosedObject({ token: LinkTokenText })
const ChangeBody = ClosedObject({ currentPassword: Password, password: Password })
const TenantHeader = NamedTenantHeader("The id of the user's tenant. Without this header the request is for a user of the platform.")

const tags = ['Passwords']
const refusals = [400, 403, 429, 500, 503] as const

export function passwordRoutes (app: FastifyGroup, service: PasswordService): void {
  decorateNamedTenant(app)

  app.post('/auth/password/forgot', {
    config: { access: 'public', addressLimit: triesPerHour },
    bodyLimit,
    schema: {
      tags,
      summary: 'Send a mail with a link to reset the password',
      description:
        'The response and its timing do not reveal whether a user has the address. An address receives at most three mails per hour. Responds with 503 without `auth.mail`.',
      headers: TenantHeader,
      body: ForgotBody,
      response: { 202: Success, ...errorResponses(...refusals) }
    },
    onRequest: findNamedTenant
  }, async (request, reply) => {
    await service.forgot(requireNamedTenant(request), request.body.email, anonymousActor(request))
    return reply.code(202).send({ success: true })
  })

  app.post('/auth/password/reset', {
    config: { access: 'public', addressLimit: triesPerMinute },
    bodyLimit,
    schema: {
      tags,
      summary: 'Reset the password with the link of a mail',
      description: 'Revokes all sessions of the user. The link works once, within 30 minutes, until a newer link is sent.',
      body: LinkPassword,
      response: { 200: Success, ...errorResponses(...refusals) }
    }
  }, async (request) => {
    await service.reset(await reachableLink(request, request.body.token), request.body.password, anonymousActor(request))
    return { success: true }
  })

  app.post('/auth/email/verify', {
    config: { access: 'public', addressLimit: triesPerMinute },
    bodyLimit,
    schema: {
      tags,
      summary: 'Verify an e-mail address with the link of a mail',
      body: VerifyBody,
      response: { 200: Success, ...errorResponses(...refusals) }
    }
  }, async (request) => {
    await service.verify(await reachableLink(request, request.body.token), anonymousActor(request))
    return { success: true }
  })

  app.post('/auth/email/resend', {
    config: { access: 'user', addressLimit: triesPerHour },
    bodyLimit,
    onRequest: refuseApiKeys('An API key has no e-mail address'),
    schema: {
      tags,
      security: [{ bearer: [] }],
      summary: 'Send the verification mail again',
      description:
        'The response is 202 even if no mail is sent because the address is already verified or has received three of these mails within an hour. Responds with 503 without `auth.mail`.',
      response: { 202: Success, ...errorResponses(...refusals, 401, 404) }
    }
  }, async (request, reply) => {
    const claims = callerOf(request)
    await service.resend(claims, { userId: claims.sub, address: request.ip })
    return reply.code(202).send({ success: true })
  })

  app.post('/auth/password', {
    config: { access: 'user', callerLimit: true, addressLimit: triesPerMinute },
    bodyLimit,
    onRequest: refuseApiKeys('An API key has no password'),
    schema: {
      tags,
      security: [{ bearer: [] }],
      summary: 'Change the password of the user',
      description: 'Revokes all other sessions of the user.',
      body: ChangeBody,
      response: { 200: Success, ...errorResponses(...refusals, 401, 404) }
    }
  }, async (request) => {
    const claims = callerOf(request)
    await service.change(claims, request.body, { userId: claims.sub, address: request.ip })
    return { success: true }
  })
}
