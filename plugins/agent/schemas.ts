/** Bodies of the endpoints of chat and conversations. */
import { type Static, Type } from 'typebox'
import { ListOf } from '../../lib/http/page.js'
import { Time } from '../../lib/http/schemas.js'
import { ModelUsage } from '../../lib/models/types.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'

const maxMessage = 32_000 // characters

const Id = Type.String({ format: 'uuid' })
export type Citation = Static<typeof Citation>
const Citation = named(
  'Citation',
  Type.Object({
    id: Type.String({ description: 'The id of the document.' }),
    chunk: Type.Integer({ description: 'The position of the chunk in the document, starting at 0.' }),
    score: Type.Number()
  })
)
const Citations = Type.Array(Citation, { description: 'The chunks of documents given to the model, best match first.' })

export const ChatBody = ClosedObject({
  message: Type.String({ minLength: 1, maxLength: maxMessage }),
  conversationId: Optional.String('The id of the conversation to continue. Default: a new conversation.', { format: 'uuid' }),
  stream: Optional.Boolean('Send the response as server-sent events. Default: false.'),
  documents: Optional.Boolean("Search the tenant's documents and give matching chunks to the model. Default: true."),
  tools: Optional.Boolean("Allow the model to call tools with the caller's permissions. Default: false.")
})

export const ChatResponse = named(
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
  title: Type.String({ description: 'The title of the conversation: the beginning of its first message.' }),
  createdAt: Time(),
  updatedAt: Time()
}

export type Conversation = Static<typeof Conversation>
const Conversation = named(
  'Conversation',
  Type.Object({ ...members, messages: Type.Integer({ description: 'The number of saved messages.' }) })
)
export const ConversationList = ListOf(Conversation)

export const ConversationWithMessages = named(
  'ConversationMessages',
  Type.Object({
    ...members,
    messages: Type.Array(
      Type.Object({
        role: Type.Enum(['user', 'assistant']),
        content: Type.String(),
        citations: Type.Optional(Citations),
        createdAt: Time()
      }),
      { description: 'The messages of the conversation, oldest first.' }
    )
  })
)

const Part = (description: string) => Type.Enum(['up', 'down', 'off'], { description })
export type AgentHealth = Static<typeof AgentHealth>
export const AgentHealth = named(
  'AgentHealth',
  Type.Object({
    status: Type.Enum(['ok', 'degraded']),
    llm: Part('The state of the language model. `off` if the document has no `agent.llm`. The provider is not called.'),
    embedding: Part('The state of the embedding model. `off` if the document has no `agent.embedding`. The provider is not called.'),
    vectorStore: Part('The state of the vector store: whether it can be reached.'),
    mcp: Type.Record(Type.String(), Type.Enum(['up', 'down', 'idle']), { description: 'The states of the MCP servers by name.' })
  })
)
