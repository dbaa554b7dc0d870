/** Bodies of the endpoints of chat and conversations. */
import { Type, type Static } from 'typebox'
import { ListOf } from '../../lib/http/page.js'
import { ModelUsage } from '../../lib/models/types.js'
import { named } from '../../lib/validation/named-schema.js'

const closed = { additionalProperties: false } as const
export const maxMessage = 32_000 // characters

const Id = Type.String({ format: 'uuid' })
const Citation = named(
  'Citation',
  Type.Object({
    id: Type.String({ description: 'Of the document.' }),
    chunk: Type.Integer({ description: 'The position of the chunk in the document, from 0.' }),
    score: Type.Number()
  })
)
const Citations = Type.Array(Citation, { description: 'Chunks of documents that the model had at hand, the best first.' })

export const ChatBody = Type.Object({
  message: Type.String({ minLength: 1, maxLength: maxMessage }),
  conversationId: Type.Optional(Type.String({ format: 'uuid', description: 'Goes on with a conversation. Default: a new one.' })),
  stream: Type.Optional(Type.Boolean({ description: 'Send the answer as server-sent events. Default: false.' })),
  documents: Type.Optional(Type.Boolean({ description: 'Search the documents of the tenant. Default: true.' })),
  tools: Type.Optional(Type.Boolean({ description: 'Let the model call tools, with the rights of the caller. Default: false.' }))
}, closed)
export type ChatBody = Static<typeof ChatBody>

export const ChatAnswer = named(
  'AgentChat',
  Type.Object({
    conversationId: Id,
    message: Type.Object({ role: Type.Literal('assistant'), content: Type.String() }),
    citations: Citations,
    toolCalls: Type.Array(Type.Object({ name: Type.String(), ok: Type.Boolean() })),
    usage: ModelUsage
  })
)

const members = {
  id: Id,
  title: Type.String({ description: 'The beginning of the first message.' }),
  createdAt: Type.String({ format: 'date-time' }),
  updatedAt: Type.String({ format: 'date-time' })
}

export const ConversationList = ListOf(
  named('Conversation', Type.Object({ ...members, messages: Type.Integer({ description: 'Messages that are kept.' }) }))
)

export const ConversationWithMessages = named(
  'ConversationMessages',
  Type.Object({
    ...members,
    messages: Type.Array(
      Type.Object({
        role: Type.Enum(['user', 'assistant']),
        content: Type.String(),
        citations: Type.Optional(Citations),
        createdAt: Type.String({ format: 'date-time' })
      }),
      { description: 'The oldest first.' }
    )
  })
)

export const ConversationParams = Type.Object({ id: Id })

const Part = (description: string) => Type.Enum(['up', 'down', 'off'], { description })
export const AgentHealth = named(
  'AgentHealth',
  Type.Object({
    status: Type.Enum(['ok', 'degraded']),
    llm: Part('`off`: the document has no `agent.llm`. The provider is not called.'),
    embedding: Part('`off`: the document has no `agent.embedding`. The provider is not called.'),
    vectorStore: Part('Whether the store of vectors can be reached.'),
    mcp: Type.Record(Type.String(), Type.Enum(['up', 'down', 'idle']), { description: 'MCP servers by name.' })
  })
)
