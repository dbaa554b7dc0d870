/** The cost of model calls in millionths of a USD, the unit of the ledger. */
import type { ModelInfo, ModelUsage } from './types.js'

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
