/** The bodies of the endpoints of models. */
import { type Static, Type } from 'typebox'
import { ListOf, pageQuery } from '../../lib/http/page.js'
import { maxImages, maxMessages, maxParts, maxText } from '../../lib/models/prompt.js'
import { ModelInfo, ModelUsage } from '../../lib/models/types.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'

const ImagePart = ClosedObject({
  type: Type.Literal('image'),
  fileId: Type.String({ format: 'uuid', description: 'The id of a file of the tenant: a PNG, JPEG, WebP or GIF image of at most 5 MB.' })
})
const TextPart = ClosedObject({ type: Type.Literal('text'), text: Type.String({ maxLength: maxText }) })

export const Message = named(
  'ModelMessage',
  ClosedObject({
    role: Type.Enum(['system', 'user', 'assistant'], {
      description: 'The role of the author. `system` messages must come first; images are allowed for `user` only.'
    }),
    content: Type.Union([
      Type.String({ maxLength: maxText }),
      Type.Array(Type.Union([TextPart, ImagePart]), { minItems: 1, maxItems: maxParts })
    ], {
      description:
        `The text of the message, or its parts. A request has at most ${maxText.toLocaleString('en')} characters and ${maxImages} images.`
    })
  })
)

const chat = {
  messages: Type.Array(Message, { minItems: 1, maxItems: maxMessages, description: 'The messages of the conversation, oldest first.' }),
  model: Optional.String(
    'The name of a model of the kind `chat` from `GET /llm/models`. Default: the model of the document.',
    { minLength: 1, maxLength: 200 }
  ),
  maxOutputTokens: Optional.Integer(
    'The maximum number of tokens of the response. The default and the upper limit are set by the document, 1000 if it sets none.',
    { minimum: 1, maximum: 1_000_000 }
  ),
  temperature: Optional.Number('The sampling temperature. Default: the default of the model.', { minimum: 0, maximum: 2 }),
  responseFormat: Optional.Map(
    'A JSON Schema of the type `object`, at most 32,768 characters. The response is JSON that matches it. Not supported: `pattern`, `patternProperties`, `uniqueItems`, and recursive references.',
    Type.Unknown()
  ),
  tools: Optional.Array(
    'The names of the tools that the model may call.',
    Type.String({ minLength: 1, maxLength: 200 }),
    { maxItems: 50, uniqueItems: true }
  )
}

export const ChatBody = named('ChatRequest', ClosedObject(chat))
export const StreamBody = named(
  'ChatStreamRequest',
  ClosedObject({ ...chat, stream: Optional.Boolean('If false, the response is that of `POST /llm/chat`. Default: true.') })
)
export type ChatBody = Static<typeof ChatBody>

export const ChatResponse = named(
  'ChatResponse',
  Type.Object({
    id: Type.String(),
    model: Type.String(),
    message: Type.Object({ role: Type.Literal('assistant'), content: Type.String() }),
    object: Optional.Unknown('The response as a value, if the request has `responseFormat`.'),
    finishReason: Type.String(
      { description: 'The reason why the model stopped: `stop`, `length`, `content-filter`, `tool-calls` or `other`.' }
    ),
    toolCalls: Optional.Array(
      'The called tools in order, if the request has `tools`.',
      Type.Object({ name: Type.String(), ok: Type.Boolean() })
    ),
    usage: named('ModelUsage', ModelUsage)
  })
)

export const ModelQuery = ClosedObject(pageQuery('Models'))
export const ModelList = ListOf(named('Model', ModelInfo))
