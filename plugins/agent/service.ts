/** Chat with a model, the tenant's documents and tools, in stored conversations. */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Actor, writeAudit } from '../../lib/database/audit.js'
import type { IdempotencyClaim } from '../../lib/database/idempotency-claim.js'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { limitedTools } from '../../lib/models/limited-tools.js'
import { addUsage, noUsage } from '../../lib/models/tokens.js'
import type { ChatResult, ModelTool, ModelUsage, ModelUser } from '../../lib/models/types.js'
import { optional } from '../../lib/plugin/define.js'
import type { Chat } from '../../lib/schema/agent.js'
import { actorOf } from '../auth/actor.js'
import { promptOf } from './prompt.js'
import { createConversationStore } from './store.js'
import type { AgentEvent, ConversationOwner, Excerpt } from './types.js'

const maxTools = 128 // that are offered to a model

const maxExcerpts = 8
const maxQuery = 4000 // characters of a message that are used as the search query
const maxTitle = 100 // characters
const defaultContext = 16_000 // tokens, if the document does not set the model's context
const toolsShare = 0.25 // of the context, for the results of tools
const margin = 200 // tokens for message frames that the count does not include

/** The document's `agent.chat`, and the tokens of a response. */
export interface AgentSettings extends Chat {
  readonly maxOutputTokens: number
  /** The limit for a whole response. */
  readonly timeoutMs: number
}

export interface ChatInput {
  readonly owner: ConversationOwner
  /** The user, for resource limits. */
  readonly user: ModelUser | null
  readonly message: string
  /** Default: a new conversation. */
  readonly conversationId?: string | undefined
  readonly documents: boolean
  readonly tools: boolean
  /** The caller of tools. */
  readonly request: FastifyRequest
  /** The claim of the request's idempotency key. It is marked with the write of the messages. */
  readonly claim?: IdempotencyClaim | undefined
  /** Aborts when the caller leaves. */
  readonly signal: AbortSignal
}

export type AgentService = ReturnType<typeof createAgent>

/** @param now milliseconds since 1970 */
export function createAgent (app: FastifyInstance, settings: AgentSettings, now: () => number) {
  const { models, log } = app
  const dbFor = (tenant: Owner) => app.engine.kyselyFor(tenant)
  const store = createConversationStore(dbFor)
  const [embeddings, tools, servers] = [optional(app, 'embeddings'), optional(app, 'tools'), optional(app, 'mcpServers')]

  /** The tools of the document, or else all tools of the caller. */
  async function chatTools ({ owner: { tenant, life }, request }: ChatInput, signal: AbortSignal): Promise<ModelTool[]> {
    const [ofRoutes, ofServers] = [tools(), servers()]
    const names = settings.tools ?? [
      ...(await ofRoutes?.listed(request) ?? []).map(({ name }) => name),
      ...await ofServers?.names({ tenant: request.tenant, signal }) ?? []
    ]
    const offered = names.slice(0, maxTools)
    const user = { tenant, life, actor: actorOf(request), depth: request.toolDepth, signal }
    // A route's tool has precedence. Names for models have no dot.
    return limitedTools([
      ...(await ofRoutes?.resolve(offered, request))?.values() ?? [],
      ...(await ofServers?.toolsFor(offered, user))?.values() ?? []
    ])
  }

  /** Chunks of documents that match the message, best first. */
  async function search (
    { owner: { tenant, life }, user, message }: ChatInput,
    signal: AbortSignal
  ): Promise<{ excerpts: readonly Excerpt[], usage: ModelUsage }> {
    const search = { query: message.slice(0, maxQuery), limit: maxExcerpts, mode: 'hybrid' } as const
    const found = await embeddings()?.search(tenant, search, { life, user, signal })
    return { excerpts: found?.results ?? [], usage: found?.usage ?? noUsage }
  }

  /** The maximum tokens of a prompt. */
  function budgetFor (offered: readonly ModelTool[]): number {
    const known = models.list.find(({ id, kind }) => kind === 'chat' && id === models.chatModel)?.contextTokens
    const context = known ?? Math.max(defaultContext, settings.maxOutputTokens * 2)
    if (offered.length === 0) return context - settings.maxOutputTokens - margin
    const schemas = models.countTokens(
      JSON.stringify(offered.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })))
    )
    return Math.floor(context * (1 - toolsShare)) - schemas - settings.maxOutputTokens - margin
  }

  async function keep (
    { owner, message, conversationId, claim }: ChatInput,
    id: string,
    excerpts: readonly Excerpt[],
    { text }: ChatResult
  ): Promise<void> {
    const citations = excerpts.map(citationOf)
    const title = conversationId === undefined ? message.trim().replaceAll(/\s+/g, ' ').slice(0, maxTitle) : null
    const isKept = await store.add(owner, {
      id,
      title,
      at: new Date(now()),
      messages: [{ role: 'user', content: message, citations: [] }, { role: 'assistant', content: text, citations }]
    }, claim)
    if (!isKept) log.info({ tenant: owner.tenant, conversation: id }, 'a chat was not stored: its conversation or user was deleted')
  }

  async function * respond (input: ChatInput, signal: AbortSignal): AsyncGenerator<AgentEvent, void, undefined> {
    const { owner, conversationId, message, user } = input
    const { tenant, life } = owner
    if (conversationId !== undefined && await store.find(owner, conversationId) === null) throw failure('notFound')
    const id = conversationId ?? randomUUID()
    const history = conversationId === undefined ? [] : await store.messages(tenant, conversationId)
    const offered = input.tools ? await chatTools(input, signal) : []
    const found = input.documents ? await search(input, signal) : { excerpts: [], usage: noUsage }
    const { messages, excerpts } = promptOf({
      system: settings.system,
      hasTools: offered.length > 0,
      history,
      excerpts: found.excerpts,
      message,
      budget: budgetFor(offered),
      countTokens: models.countTokens
    })
    const call = {
      tenant,
      life,
      user,
      messages,
      signal,
      ...offered.length > 0 && { tools: offered, ...settings.maxRounds !== undefined && { maxRounds: settings.maxRounds } }
    }
    for await (const event of models.stream(call)) {
      if (event.type === 'begun') yield { type: 'start', conversationId: id, citations: excerpts.map(citationOf) }
      else if (event.type === 'usage') yield { ...event, ...addUsage(event, found.usage) }
      else if (event.type !== 'done') yield event
      else {
        await keep(input, id, excerpts, event.result)
        log.info({ tenant, conversation: id, excerpts: excerpts.length, toolCalls: event.result.toolCalls.length }, 'a chat has ended')
        yield { type: 'done', finishReason: event.result.finishReason }
      }
    }
  }

  return {
    /**
     * Throws `notFound` for a conversation of another user or tenant, and errors of the model, before the first event. Later errors
     * reject the iteration.
     */
    async * chat (input: ChatInput): AsyncGenerator<AgentEvent, void, undefined> {
      const over = new AbortController()
      const timer = setTimeout(
        () => over.abort(failure('providerTimeout', { message: `The response took more than ${settings.timeoutMs} ms` })),
        settings.timeoutMs
      )
      try {
        yield * respond(input, AbortSignal.any([input.signal, over.signal]))
      } finally {
        clearTimeout(timer)
        // Ends the call if the reader leaves the iteration.
        over.abort(failure('stopping', { message: 'The response has ended' }))
      }
    },

    list: store.list,

    /** Throws `notFound`. */
    async read (owner: ConversationOwner, id: string) {
      const conversation = await store.find(owner, id)
      if (conversation === null) throw failure('notFound')
      return { ...conversation, history: await store.messages(owner.tenant, id) }
    },

    /** Throws `notFound`. */
    async delete (owner: ConversationOwner, id: string, actor: Actor): Promise<void> {
      const { tenant } = owner
      await dbFor(tenant).transaction().execute(async (writer) => {
        if (!await store.remove(writer, owner, id)) throw failure('notFound')
        await writeAudit(writer, { tenant, action: 'conversation.delete', actor, target: id, at: new Date(now()) })
      })
    }
  }
}

function citationOf ({ id, chunk, score }: Excerpt) {
  return { id, chunk, score }
}
