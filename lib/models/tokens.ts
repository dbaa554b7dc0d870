/**
 * An estimate of the tokens of texts, for reservations and for providers that report no usage. It is higher than what
 * providers count for ordinary texts, and never higher than the bytes of the text in UTF-8.
 *
 * | characters | tokens |
 * |---|---|
 * | letters of ASCII | 1 for each 4 of a word; a capital after a small letter begins a word |
 * | digits and other characters of ASCII | 1 each |
 * | white space | none for a space before a word, else 1 for each run |
 * | U+0080 to U+07FF | 1 each |
 * | all others | 2 for each unit of UTF-16 |
 */
import type { ModelMessage } from './types.js'

const lettersPerToken = 4
const perMessage = 8 // tokens for the role and the structure of a message
const perImage = 2000 // tokens; providers count up to 1,600 for an image of any size

const enum Kind {
  None,
  Small,
  Capital,
  Space,
  Other
}

export function countTokens (text: string): number {
  let tokens = 0
  let word = 0
  let before = Kind.None
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    const kind = kindOf(unit)
    if (kind === Kind.Small || kind === Kind.Capital) {
      const begins = (before !== Kind.Small && before !== Kind.Capital) || (kind === Kind.Capital && before === Kind.Small)
      word = begins ? 1 : word + 1
      if (word % lettersPerToken === 1) tokens++
    } else if (kind === Kind.Space) {
      // A single space belongs to the word after it.
      if (before !== Kind.Space && (unit !== 0x20 || isBlank(text.charCodeAt(index + 1)))) tokens++
    } else {
      tokens += unit < 0x800 ? 1 : 2
    }
    before = kind
  }
  return tokens
}

/** `schemas`: the JSON of tools and of the response format, which count as part of the prompt. */
export function countPrompt (messages: readonly ModelMessage[], schemas = ''): number {
  let tokens = countTokens(schemas)
  for (const { content } of messages) {
    tokens += perMessage
    if (typeof content === 'string') tokens += countTokens(content)
    else for (const part of content) tokens += part.type === 'text' ? countTokens(part.text) : perImage
  }
  return tokens
}

function kindOf (unit: number): Kind {
  if (unit >= 0x61 && unit <= 0x7a) return Kind.Small
  if (unit >= 0x41 && unit <= 0x5a) return Kind.Capital
  return isBlank(unit) ? Kind.Space : Kind.Other
}

function isBlank (unit: number): boolean {
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d)
}
