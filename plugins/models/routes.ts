/** The endpoints of models. */
import type { FastifyRequest } from 'fastify'
import { leftOf } from '../../lib/http/caller-left.js'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { pageIn, pageOf } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import type { ChatCall, ChatResult, ToolSource } from '../../lib/models/types.js'
import type { Files } from '../files/types.js'
import { limitedUser } from '../resource-limits/service.js'
import { requiredTenant, tenantOf } from '../tenancy/required.js'
import { sendEvents } from './event-stream.js'
import { findImages } from './images.js'
import { ChatBody, ChatResponse, ModelList, ModelQuery, StreamBody } from './schemas.js'
import type { ModelsService } from './service.js'
import { findTools } from './tools.js'

const tags = ['Models']
const config = { access: 'user' } as const
const chatErrors = callerErrors(402, 413, 415, 424, 502, 504)

export interface ModelRouteParts {
  readonly files: () => Files | null
  readonly toolSources: () => readonly ToolSource[]
  readonly heartbeatMs: number | undefined
}

export function modelRoutes (
  app: FastifyGroup,
  { chat, models }: ModelsService,
  { files, toolSources, heartbeatMs }: ModelRouteParts
): void {
  async function callOf (request: FastifyRequest & { readonly body: ChatBody }, signal: AbortSignal): Promise<ChatCall> {
    const { messages, tools: names = [], ...settings } = request.body
    const { id: tenant, life } = requiredTenant(request)
    return {
      ...settings,
      tenant,
      life,
      user: limitedUser(request),
      messages: await findImages(request, tenant, messages, files()),
      tools: await findTools(toolSources(), names, request),
      signal
    }
  }

  app.post('/llm/chat', {
    config,
    schema: {
      tags,
      summary: 'Send messages to a language model',
      description:
        'Tokens and cost are reserved before the call and settled after it. The call ends when the caller disconnects; the prompt and the response up to that point are charged.',
      body: ChatBody,
      response: { 200: ChatResponse, ...chatErrors }
    }
  }, async (request, reply) => responseOf(await models.chat(await callOf(request, leftOf(reply)))))

  app.post('/llm/stream', {
    config,
    schema: {
      tags,
      summary: 'Stream the response of a language model',
      description:
        'The response is a stream of server-sent events with `data: {...}`: `content` with `text`, `tool` with `name` and `ok`, `usage`, then exactly one `done` with `finishReason` or `error` with `code` and `message`. A comment is sent every 15 seconds. If the provider fails before it responds, the response has an error status. A caller with more than 256 KB of unread data is disconnected. With `stream: false` the response is that of `POST /llm/chat`.',
      body: StreamBody,
      response: { 200: ChatResponse, ...chatErrors }
    }
  }, async (request, reply) => {
    const call = await callOf(request, leftOf(reply))
    if (request.body.stream === false) return responseOf(await models.chat(call))
    const events = chat(call, 'silence')
    // The provider has begun to respond: a later failure is sent as an event.
    await events.next()
    return sendEvents(reply, events, { heartbeatMs, shown: (event) => event.type === 'done' ? doneOf(event.result) : event })
  })

  app.get('/llm/models', {
    config,
    schema: {
      tags,
      summary: 'List models available to the caller',
      querystring: ModelQuery,
      response: { 200: ModelList, ...callerErrors() }
    }
  }, (request) => {
    tenantOf(request)
    return pageIn(models.list, pageOf(request))
  })
}

function responseOf ({ id, model, text, object, finishReason, toolCalls, usage }: ChatResult) {
  return {
    id,
    model,
    message: { role: 'assistant' as const, content: text },
    ...object !== undefined && { object },
    finishReason,
    ...toolCalls.length > 0 && { toolCalls },
    usage
  }
}

function doneOf ({ id, model, finishReason, object }: ChatResult): object {
  return { type: 'done', id, model, finishReason, ...object !== undefined && { object } }
}
