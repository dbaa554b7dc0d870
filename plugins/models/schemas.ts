/** The bodies of the endpoints of models. */
import { Type, type Static } from 'typebox'
import { ListOf, pageQuery } from '../../lib/http/page.js'
import { ModelInfo, ModelUsage } from '../../lib/models/types.js'
import { maxImages, maxMessages, maxParts, maxText } from '../../lib/models/prompt.js'
import { named } from '../../lib/validation/named-schema.js'

const closed = { additionalProperties: false } as const

export const ImagePart = Type.Object({
  type: Type.Literal('image'),
  fileId: Type.String({ format: 'uuid', description: 'A file of the tenant: PNG, JPEG, WebP or GIF, at most 5 MB.' })
}, closed)
const TextPart = Type.Object({ type: Type.Literal('text'), text: Type.String({ maxLength: maxText }) }, closed)

export const Message = named(
  'ModelMessage',
  Type.Object({
    role: Type.Enum(['system', 'user', 'assistant'], { description: '`system` comes before all others; images are for `user`.' }),
    content: Type.Union([
      Type.String({ maxLength: maxText }),
      Type.Array(Type.Union([TextPart, ImagePart]), { minItems: 1, maxItems: maxParts })
    ], { description: `Text, or parts. A request has at most ${maxText.toLocaleString('en')} characters and ${maxImages} images.` })
  }, closed)
)

const chat = {
  messages: Type.Array(Message, { minItems: 1, maxItems: maxMessages, description: 'The conversation, the oldest first.' }),
  model: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: "One of `GET /llm/models` of the kind `chat`. Default: the document's." })
  ),
  maxOutputTokens: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      description: "The most tokens of the answer. Default: the document's, 1000; a larger number is lowered to it."
    })
  ),
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2, description: "Default: the model's own." })),
  responseFormat: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description:
        'A JSON Schema of the type `object`, at most 32,768 characters: the answer is JSON that matches it. Not known: `pattern`, `patternProperties`, `uniqueItems`, and references to themselves.'
    })
  ),
  tools: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
      maxItems: 50,
      uniqueItems: true,
      description: 'Names of tools that the model may use.'
    })
  )
}

export const ChatBody = named('ChatRequest', Type.Object(chat, closed))
export const StreamBody = named(
  'ChatStreamRequest',
  Type.Object(
    { ...chat, stream: Type.Optional(Type.Boolean({ description: 'false answers as `POST /llm/chat`. Default: true.' })) },
    closed
  )
)
export type ChatBody = Static<typeof ChatBody>
export type StreamBody = Static<typeof StreamBody>

export const ChatAnswer = named(
  'ChatResponse',
  Type.Object({
    id: Type.String(),
    model: Type.String(),
    message: Type.Object({ role: Type.Literal('assistant'), content: Type.String() }),
    object: Type.Optional(Type.Unknown({ description: 'With `responseFormat`: the value of the answer.' })),
    finishReason: Type.String({ description: '`stop`, `length`, `content-filter`, `tool-calls` or `other`.' }),
    toolCalls: Type.Optional(
      Type.Array(Type.Object({ name: Type.String(), ok: Type.Boolean() }), { description: 'With `tools`: those that were run, in order.' })
    ),
    usage: named('ModelUsage', ModelUsage)
  })
)

export const ModelQuery = Type.Object(pageQuery('Models'), { additionalProperties: false })
export type ModelQuery = Static<typeof ModelQuery>
export const ModelList = ListOf(named('Model', ModelInfo))
