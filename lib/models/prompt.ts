/** Checks callers' messages and converts them to the SDKs' form. */
import type { LanguageModelV3Prompt } from '@ai-sdk/provider'
import { failure, type TenantryError } from '../errors.js'
import { storable } from '../json/storable.js'
import type { ImageText } from './images.js'
import type { MessagePart, ModelMessage } from './types.js'

export const maxMessages = 1000 // per call
export const maxText = 2_000_000 // characters in all messages
export const maxImages = 20 // per call
export const maxParts = 100 // per message

/** The messages without characters that the providers' JSON cannot contain. Throws `badRequest` for messages that no model accepts. */
export function checkMessages (messages: readonly ModelMessage[]): ModelMessage[] {
  if (messages.length === 0 || messages.length > maxMessages) throw refused(`expected 1 to ${maxMessages} messages`)
  const first = messages.findIndex(({ role }) => role !== 'system')
  if (first === -1) throw refused('expected a message of the role `user`')
  let characters = 0
  let images = 0
  const checked = messages.map(({ role, content }, index): ModelMessage => {
    if (role === 'system' && index > first) throw refused('messages of the role `system` must come before all others')
    if (typeof content === 'string') {
      characters += content.length
      return { role, content: storable(content) }
    }
    if (content.length > maxParts) throw refused(`a message can have at most ${maxParts} parts`)
    return {
      role,
      content: content.map((part): MessagePart => {
        if (part.type === 'image') {
          if (role !== 'user') throw refused('images are allowed only in messages of the role `user`')
          images++
          return part
        }
        characters += part.text.length
        return { type: 'text', text: storable(part.text) }
      })
    }
  })
  if (characters > maxText) throw refused(`the messages have more than ${maxText} characters`)
  if (images > maxImages) throw refused(`the messages have more than ${maxImages} images`)
  return checked
}

function refused (message: string): TenantryError {
  return failure('badRequest', { message: `The messages cannot be sent to a model: ${message}` })
}

export function promptOf (messages: readonly ModelMessage[], imageText: ImageText): LanguageModelV3Prompt {
  return messages.map(({ role, content }): LanguageModelV3Prompt[number] => {
    if (role === 'system') return { role, content: textOf(content) }
    if (role === 'assistant') return { role, content: [{ type: 'text', text: textOf(content) }] }
    return {
      role,
      content: partsOf(content).map((part) => part.type === 'text' ? part : { type: 'file', mediaType: part.mediaType, data: imageText(part) })
    }
  })
}

function partsOf (content: ModelMessage['content']): readonly MessagePart[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content
}

function textOf (content: ModelMessage['content']): string {
  return partsOf(content).map((part) => part.type === 'text' ? part.text : '').join('')
}
