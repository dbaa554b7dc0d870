/** Estimates the tokens of texts, for reservations and for providers that report no usage, and the cost of calls in millionths of a USD. */
import type { ModelInfo, ModelMessage, ModelUsage } from './types.js'

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

export function countPrompt (messages: readonly ModelMessage[]): number {
  let tokens = 0
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

const microPerUSD = 1_000_000

export interface Tokens {
  readonly input: number
  readonly output: number
}

/** A price in USD per million tokens equals millionths of a USD per token. 0 without a price. */
export function costOf ({ input, output }: Tokens, price: ModelInfo['price']): number {
  return price === null ? 0 : Math.min(Math.ceil(input * price.input + output * price.output), Number.MAX_SAFE_INTEGER)
}

export function usageOf ({ input, output }: Tokens, cost: number): ModelUsage {
  return { inputTokens: input, outputTokens: output, totalTokens: input + output, cost: cost / microPerUSD }
}

export const noUsage: ModelUsage = Object.freeze({ inputTokens: 0, outputTokens: 0, totalTokens: 0, cost: 0 })

export function addUsage (left: ModelUsage, right: ModelUsage): ModelUsage {
  return {
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    totalTokens: left.totalTokens + right.totalTokens,
    // Rounding keeps sums of millionths exact.
    cost: Math.round((left.cost + right.cost) * microPerUSD) / microPerUSD
  }
}
