/** The endpoints of chat and conversations. */
import type { FastifyRequest } from 'fastify'
import { type Static } from 'typebox'
import { failure } from '../../lib/errors.js'
import { leftOf } from '../../lib/http/caller-left.js'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { idempotencyHeader } from '../../lib/http/idempotency-key.js'
import { pageQuery, readPage } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { IdParams, Success } from '../../lib/http/schemas.js'
import { isOfLogin } from '../../lib/identity/session-claims.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { isUserId } from '../../lib/identity/user-id.js'
import { noUsage } from '../../lib/models/tokens.js'
import type { ToolCallOutcome } from '../../lib/models/types.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { callerOf, isPlatformAdmin } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { ownProvider, providerOf } from '../auth/providers/claims.js'
import { sendEvents } from '../models/event-stream.js'
import { limitedUser } from '../resource-limits/service.js'
import { requiredTenant, tenantOf } from '../tenancy/required.js'
import { AgentHealth, ChatBody, ChatResponse, type Citation, ConversationList, ConversationWithMessages } from './schemas.js'
import type { AgentService } from './service.js'
import type { AgentEvent, ConversationOwner } from './types.js'

const tags = ['Agent']
const config = { access: 'user' } as const
const chatErrors = callerErrors(402, 413, 415, 424, 502, 504)
const ListQuery = ClosedObject(pageQuery('Conversations'))

export interface AgentRouteOptions {
  /** Milliseconds between comments of event streams. */
  readonly heartbeatMs?: number | undefined
  readonly health: (tenant: Owner) => Promise<AgentHealth>
}

export function agentRoutes (app: FastifyGroup, service: AgentService, { heartbeatMs, health }: AgentRouteOptions): void {
  app.post('/agent/chat', {
    config: { ...config, idempotency: 'plain' },
    preHandler (request, _reply, done) {
      if (request.body.stream !== true || request.headers[idempotencyHeader] === undefined) return done()
      done(failure('badRequest', { message: 'Streams cannot be repeated: send `Idempotency-Key` without `stream`' }))
    },
    schema: {
      tags,
      summary: "Chat with a model that can use the tenant's documents and tools",
      description:
        'With `stream: true` the response is a stream of server-sent events with `data: {...}`: `start` with `conversationId` and `citations`, `content` with `text`, `tool` with `name` and `ok`, `usage`, then exactly one `done` or `error`. A comment is sent every 15 seconds. If the provider fails before it responds, the response has an error status. The call ends when the caller disconnects. A conversation is saved when its response is complete.',
      body: ChatBody,
      response: { 200: ChatResponse, ...chatErrors }
    }
  }, async (request, reply) => {
    const { message, conversationId, stream = false, documents = true, tools = false } = request.body
    const owner = ownerOf(request)
    const events = service.chat({
      owner,
      user: limitedUser(request),
      message,
      conversationId,
      documents,
      tools,
      request,
      claim: actorOf(request).claim,
      signal: leftOf(reply)
    })
    if (!stream) return await responseOf(events)
    const { done, value } = await events.next()
    return sendEvents(reply, events, { heartbeatMs, ...done !== true && { first: value } })
  })

  app.get('/agent/conversations', {
    config,
    schema: {
      tags,
      summary: 'List conversations of the caller, most recently used first',
      querystring: ListQuery,
      response: { 200: ConversationList, ...callerErrors() }
    }
  }, (request) => readPage(request, (page) => service.list(ownerOf(request), page)))

  app.get('/agent/conversations/:id', {
    config,
    schema: {
      tags,
      summary: 'Retrieve a conversation of the caller with its messages',
      params: IdParams,
      response: { 200: ConversationWithMessages, ...callerErrors() }
    }
  }, async (request) => {
    const { history, ...conversation } = await service.read(ownerOf(request), request.params.id)
    const messages = history.map(({ citations, ...message }) => ({ ...message, ...citations.length > 0 && { citations } }))
    return { ...conversation, messages }
  })

  app.delete('/agent/conversations/:id', {
    config,
    schema: {
      tags,
      summary: 'Delete a conversation of the caller',
      params: IdParams,
      response: { 200: Success, ...callerErrors() }
    }
  }, async (request) => {
    await service.delete(ownerOf(request), request.params.id, actorOf(request))
    return { success: true }
  })

  app.get('/agent/health', {
    config,
    schema: {
      tags,
      summary: 'Check the health of models, documents and tools',
      response: { 200: AgentHealth, ...callerErrors() }
    }
  }, async (request) => await health(tenantOf(request)))
}

/** Throws `tenantRequired`, and `badRequest` for a user id that the database cannot store. */
function ownerOf (request: FastifyRequest): ConversationOwner {
  const { id: tenant, life } = requiredTenant(request)
  const caller = callerOf(request)
  if (!isUserId(caller.sub)) {
    throw failure('badRequest', {
      message: 'Conversations cannot be saved for this user: the `sub` of the token is too long or contains invalid characters'
    })
  }
  const ofLogin = caller.tenant_id === tenant && providerOf(caller) === ownProvider && isOfLogin(caller)
  return { tenant, life, user: caller.sub, platform: isPlatformAdmin(caller), ofLogin }
}

async function responseOf (events: AsyncIterable<AgentEvent>): Promise<Static<typeof ChatResponse>> {
  let conversationId = ''
  let citations: readonly Citation[] = []
  let content = ''
  const toolCalls: ToolCallOutcome[] = []
  let usage = noUsage
  for await (const event of events) {
    if (event.type === 'start') ({ conversationId, citations } = event)
    else if (event.type === 'content') content += event.text
    else if (event.type === 'tool') toolCalls.push({ name: event.name, ok: event.ok })
    else if (event.type === 'usage') usage = event
  }
  return { conversationId, message: { role: 'assistant', content }, citations: [...citations], toolCalls, usage }
}
