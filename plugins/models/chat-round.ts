/** One request of a call to the provider of the chat model. */
import type { LanguageModelV3Prompt } from '@ai-sdk/provider'
import { failure } from '../../lib/errors.js'
import type { ProviderRequest } from '../../lib/models/provider-request.js'
import { readRound, Received, type RoundReader } from '../../lib/models/round.js'
import type { Tokens } from '../../lib/models/tokens.js'
import type { ModelUsage } from '../../lib/models/types.js'
import { failedCall } from './call-parts.js'
import type { Charge } from './charges.js'
import type { ChatParts, PreparedCall } from './prepared-call.js'

const defaultTimeoutMs = 60_000
const maxStreamMs = 1_800_000
const minResponseBytes = 8_388_608
const bytesPerToken = 1024 // of a response: each token is a separate event
const maxResponseBytes = 67_108_864

/** The time limits of a request: in all, and without a byte. */
export type TimeBound = 'whole' | 'silence'

interface RoundParts {
  readonly parts: ChatParts
  readonly prepared: PreparedCall
  readonly apiKey: string
  readonly bound: TimeBound
  /** Ends the request. */
  readonly signal: AbortSignal
}

/** One request to the provider, and its charge. */
export class ChatRound {
  readonly received: Received
  readonly #parts: ChatParts
  readonly #prepared: PreparedCall
  readonly #apiKey: string
  readonly #bound: TimeBound
  readonly #signal: AbortSignal
  #request: ProviderRequest | null = null
  #charge: Charge | null = null
  #reader: RoundReader | null = null
  #startedAt = 0
  #hasFailed = false

  constructor ({ parts, prepared, apiKey, bound, signal }: RoundParts) {
    this.received = new Received(parts.provider.hidesReasoning(prepared.info.id))
    this.#parts = parts
    this.#prepared = prepared
    this.#apiKey = apiKey
    this.#bound = bound
    this.#signal = signal
  }

  async reserve (): Promise<void> {
    const { info, payer, promptTokens, maxOutputTokens } = this.#prepared
    const { contextTokens } = info
    if (contextTokens !== null && promptTokens + maxOutputTokens > contextTokens) {
      throw failure('badRequest', {
        message:
          `The messages have about ${promptTokens} tokens, and the response up to ${maxOutputTokens}, but the model accepts ${contextTokens} in total. Send shorter messages, or a smaller \`maxOutputTokens\``
      })
    }
    this.#charge = await this.#parts.charges.reserve(payer, { input: promptTokens, output: maxOutputTokens })
  }

  /** Resolves when the provider has begun to respond. */
  async start (prompt: LanguageModelV3Prompt): Promise<void> {
    const { llm, connections, keys, provider } = this.#parts
    const { info, maxOutputTokens, options } = this.#prepared
    const timeoutMs = llm.timeoutMs ?? defaultTimeoutMs
    const request = this.#request = connections.open({
      owner: keys.owner,
      maxBytes: Math.min(minResponseBytes + maxOutputTokens * bytesPerToken, maxResponseBytes),
      ...this.#bound === 'whole' ? { totalMs: timeoutMs } : { totalMs: maxStreamMs, idleMs: timeoutMs },
      signal: this.#signal
    })
    this.#startedAt = performance.now()
    try {
      const model = provider.chat({ model: info.id, apiKey: this.#apiKey })
      const { stream } = await model.doStream({ ...options, prompt, abortSignal: request.signal })
      this.#reader = stream.getReader()
    } catch (error) {
      throw this.#failureOf(error)
    }
  }

  async * deltas (): AsyncGenerator<string, void, undefined> {
    if (this.#reader === null) throw new Error('the round has not started')
    let isFirst = true
    try {
      for await (const delta of readRound(this.#reader, this.received)) {
        if (isFirst) this.#parts.figures.began(this.#prepared.info, (performance.now() - this.#startedAt) / 1000)
        isFirst = false
        yield delta
      }
    } catch (error) {
      throw this.#failureOf(error)
    }
  }

  /** Ends the request, and resolves with its charge; null if the request failed before the provider responded. */
  async end ({ hasEnded, hasLeft }: { readonly hasEnded: boolean, readonly hasLeft: boolean }): Promise<ModelUsage | null> {
    const { info, promptTokens, maxOutputTokens } = this.#prepared
    const state = this.#request?.state ?? 'new'
    this.#request?.end()
    this.#reader?.cancel().catch(() => {})
    if (this.#charge === null) return null
    if (state !== 'answered' && !(state === 'sent' && (hasLeft || !this.#hasFailed))) {
      await this.#charge.release()
      return null
    }
    const { usage, tokens, hidesReasoning } = this.received
    // The provider charges for reasoning that it does not send.
    const received = hidesReasoning ? maxOutputTokens : Math.min(tokens, maxOutputTokens)
    const counted: Tokens = { input: usage.input ?? promptTokens, output: usage.output ?? received }
    const used = await this.#charge.settle(counted)
    this.#parts.figures.used(info, used)
    if (!hasEnded) {
      this.#parts.log.debug({ tenant: this.#prepared.payer.tenant, model: info.id, usage: used }, 'a call of a model ended early')
    }
    return used
  }

  #failureOf (thrown: unknown): unknown {
    this.#hasFailed = true
    if (this.#signal.aborted) return this.#signal.reason
    const { info, payer } = this.#prepared
    return failedCall(this.#request?.error ?? thrown, info, payer.tenant, this.#parts)
  }
}
