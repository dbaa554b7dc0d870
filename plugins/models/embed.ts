/** Calls of the embedding model. */
import type { EmbeddingModelV3 } from '@ai-sdk/provider'
import { failure } from '../../lib/errors.js'
import { tenantRef } from '../../lib/identity/tenant-ref.js'
import { storable } from '../../lib/json/storable.js'
import { isCharged, markCharged } from '../../lib/models/failures.js'
import { maxText } from '../../lib/models/prompt.js'
import { addUsage, countTokens, noUsage } from '../../lib/models/tokens.js'
import type { EmbedCall, Embedded, ModelInfo, ModelUsage } from '../../lib/models/types.js'
import type { Embedding } from '../../lib/schema/agent.js'
import { presentTenant, requireSameLife } from '../tenancy/tenant.js'
import { type CallParts, failedCall } from './call-parts.js'

const maxTexts = 2048 // of a call
const textsPerRequest = 256
const defaultTimeoutMs = 60_000
const maxResponseBytes = 33_554_432 // 256 vectors of 2,000 numbers take about 11 MB

export interface EmbedParts extends CallParts {
  readonly embedding: Embedding
  readonly info: ModelInfo
}

export function createEmbedder (parts: EmbedParts) {
  const { embedding, info, provider, connections, keys, tenants, calls, charges, figures, log, warned } = parts
  let dimensions = embedding.dimensions ?? null
  const providerOptions = embedding.dimensions === undefined ? {} : provider.embeddingOptions(embedding.dimensions)

  async function request (
    { tenant, user, dimensions: expected }: EmbedCall,
    values: string[],
    model: EmbeddingModelV3,
    signal: AbortSignal
  ): Promise<{ embeddings: number[][], usage: ModelUsage }> {
    const tokens = Math.max(1, values.reduce((sum, text) => sum + countTokens(text), 0))
    const charge = await charges.reserve({ tenant: tenantRef(tenant), user, price: info.price }, { input: tokens, output: 0 })
    const call = connections.open({
      owner: keys.owner,
      maxBytes: maxResponseBytes,
      totalMs: embedding.timeoutMs ?? defaultTimeoutMs,
      signal
    })
    let usedTokens = tokens
    try {
      const result = await model.doEmbed({ values, providerOptions, abortSignal: call.signal })
      // Some servers report 0 tokens.
      const reported = result.usage?.tokens ?? 0
      if (Number.isSafeInteger(reported) && reported > 0) usedTokens = reported
      const { embeddings } = result
      dimensions = comparableLength(embeddings, values.length, expected ?? dimensions)
      const usage = await charge.settle({ input: usedTokens, output: 0 })
      figures.used(info, usage)
      return { embeddings, usage }
    } catch (thrown) {
      const hasCost = call.state === 'answered' || (call.state === 'sent' && signal.aborted)
      if (hasCost) figures.used(info, await charge.settle({ input: usedTokens, output: 0 }))
      else await charge.release()
      const error = signal.aborted ? signal.reason : failedCall(call.error ?? thrown, info, tenantRef(tenant), { figures, log, warned })
      if (hasCost) markCharged(error)
      throw error
    } finally {
      call.end()
    }
  }

  return {
    /** null until the document sets it or a first call shows it. */
    get dimensions (): number | null {
      return dimensions
    },
    async embed (call: EmbedCall): Promise<Embedded> {
      const texts = call.texts.map(storable)
      if (texts.length === 0 || texts.length > maxTexts) throw failure('badRequest', { message: `Expected 1 to ${maxTexts} texts` })
      if (texts.reduce((sum, { length }) => sum + length, 0) > maxText) {
        throw failure('badRequest', { message: `The texts have more than ${maxText} characters` })
      }
      if (texts.includes('')) throw failure('badRequest', { message: 'A text is empty' })
      const tenant = tenantRef(call.tenant)
      const owner = await presentTenant(tenants, tenant, call.life)
      const apiKey = await keys.of(tenant)
      const countedCall = await charges.count({ tenant, user: call.user, price: info.price })
      let usage = noUsage
      try {
        const slot = await calls.begin(tenant, call.signal)
        try {
          const model = provider.embedding({ model: info.id, apiKey })
          const size = Math.min(textsPerRequest, await model.maxEmbeddingsPerCall ?? textsPerRequest)
          const embeddings: number[][] = []
          for (let start = 0; start < texts.length; start += size) {
            await requireSameLife(tenants, owner)
            const part = await request(call, texts.slice(start, start + size), model, slot.signal)
            embeddings.push(...part.embeddings)
            usage = addUsage(usage, part.usage)
          }
          return { embeddings, model: info.id, usage }
        } finally {
          slot.end()
        }
      } catch (error) {
        if (usage !== noUsage) markCharged(error)
        else if (!isCharged(error)) await countedCall.give()
        throw error
      }
    }
  }
}

/**
 * The length of the vectors. Throws `providerFailed` unless a store can compare them: finite numbers, not only zeros, all of one length.
 *
 * @param expected the length that they must have; null for any
 */
function comparableLength (embeddings: readonly number[][], count: number, expected: number | null): number {
  if (embeddings.length !== count) throw failure('providerFailed', { message: 'The provider did not return one vector for each text' })
  const length = expected ?? embeddings[0]?.length ?? 0
  for (const vector of embeddings) {
    if (vector.length !== length || length === 0) {
      throw failure('providerFailed', {
        message:
          `The provider returned a vector of ${vector.length} numbers: expected ${length}. The operator of the server must correct \`agent.embedding.dimensions\``
      })
    }
    if (!vector.every((value) => typeof value === 'number' && Number.isFinite(value))) {
      throw failure('providerFailed', { message: 'The provider returned a vector with values that are not numbers' })
    }
    if (vector.every((value) => value === 0)) {
      throw failure('providerFailed', { message: 'The provider returned a vector of zeros, which cannot be compared' })
    }
  }
  return length
}
