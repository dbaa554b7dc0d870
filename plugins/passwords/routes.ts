/** The endpoints of passwords and their schemas. */
import type {} from '../rate-limit/index.js'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { PasswordService } from './service.js'
import { Type, type Static } from 'typebox'
import { failure } from '../../lib/errors.js'
import { Success } from '../../lib/http/schemas.js'
import { callerOf } from '../auth/access.js'
import { errorResponses } from '../conventions/index.js'
import { readLinkToken, type LinkToken } from '../mail/links.js'
import { isReachable, namedTenant, type NamedTenant } from '../tenancy/named-tenant.js'
import { LinkPassword, LinkTokenText } from '../users/link-body.js'
import { Email, Password } from '../users/user.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The tenant that a call without a token names; null on other routes. */
    mailTenant: NamedTenant | null
  }
}

const bodyLimit = 32_768 // bytes: two of the longest passwords as `\uXXXX`
const closed = { additionalProperties: false } as const
const ForgotBody = Type.Object({ email: Email }, closed)
const VerifyBody = Type.Object({ token: LinkTokenText }, closed)
const ChangeBody = Type.Object({ currentPassword: Password, password: Password }, closed)
const TenantHeader = Type.Object({ 'X-Tenant-ID': Type.Optional(Type.String({ description: 'The tenant of the user; without it the platform.' })) })

const tags = ['Passwords']
const refusals = [400, 403, 429, 500, 503] as const
const minute = 60_000 // ms
const tryLimit = { max: 60, windowMs: minute }
const forgotLimit = { max: 60, windowMs: 60 * minute }

export function passwordRoutes (app: FastifyInstance, service: PasswordService): void {
  app.decorateRequest('mailTenant', null)

  app.post<{ Body: Static<typeof ForgotBody> }>('/auth/password/forgot', {
    config: { access: 'public', addressLimit: forgotLimit },
    bodyLimit,
    schema: {
      tags,
      summary: 'Send a mail with a link that resets the password',
      description: 'The answer and the time that it takes are the same whether a user has the address or not. An address is sent at most three mails an hour. 503 without `auth.mail`.',
      headers: TenantHeader,
      body: ForgotBody,
      response: { 202: Success, ...errorResponses(...refusals) }
    },
    async onRequest (request) { request.mailTenant = await namedTenant(request) }
  }, async (request, reply) => {
    const { mailTenant, body } = request
    if (mailTenant === null) throw new Error('the request was not asked for its tenant')
    await service.forgot(mailTenant, body.email, strangerOf(request))
    return reply.code(202).send({ success: true })
  })

  app.post<{ Body: Static<typeof LinkPassword> }>('/auth/password/reset', {
    config: { access: 'public', addressLimit: tryLimit },
    bodyLimit,
    schema: {
      tags,
      summary: 'Choose a new password with the link of a mail',
      description: 'All sessions of the user end. A link works once, for 30 minutes, and until a newer one is sent.',
      body: LinkPassword,
      response: { 200: Success, ...errorResponses(...refusals) }
    }
  }, async (request) => {
    await service.reset(await linkOf(request, request.body.token), request.body.password, strangerOf(request))
    return { success: true }
  })

  app.post<{ Body: Static<typeof VerifyBody> }>('/auth/email/verify', {
    config: { access: 'public', addressLimit: tryLimit },
    bodyLimit,
    schema: { tags, summary: 'Confirm an e-mail address with the link of a mail', body: VerifyBody, response: { 200: Success, ...errorResponses(...refusals) } }
  }, async (request) => {
    await service.verify(await linkOf(request, request.body.token), strangerOf(request))
    return { success: true }
  })

  app.post<{ Body: Static<typeof ChangeBody> }>('/auth/password', {
    config: { access: 'user', addressLimit: tryLimit },
    bodyLimit,
    onRequest: refuseApiKeys,
    schema: {
      tags,
      security: [{ bearer: [] }],
      summary: 'Change the password of this user',
      description: 'All other sessions of the user end.',
      body: ChangeBody,
      response: { 200: Success, ...errorResponses(...refusals, 401, 404) }
    }
  }, async (request) => {
    const claims = callerOf(request)
    await service.change(claims, request.body, { userId: claims.sub, address: request.ip })
    return { success: true }
  })
}

async function refuseApiKeys ({ headers }: FastifyRequest): Promise<void> {
  if (headers['x-api-key'] !== undefined) throw failure('forbidden', { message: 'An API key has no password: send the token of a user' })
}

function strangerOf ({ ip }: FastifyRequest) {
  return { userId: null, address: ip }
}

/** Throws `linkInvalid` for a text that is no token, and for one of a tenant that is not there or not the one that a header names. */
async function linkOf (request: FastifyRequest, text: string): Promise<LinkToken> {
  const token = readLinkToken(text)
  if (token === null || !await isReachable(request, token.tenant)) throw failure('linkInvalid')
  return token
}
