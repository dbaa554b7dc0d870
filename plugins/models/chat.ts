/** Calls of the chat model: requests to the provider in rounds, with the runs of tools between them. */
import { randomUUID } from 'node:crypto'
import type { LanguageModelV3CallOptions, LanguageModelV3Prompt } from '@ai-sdk/provider'
import { inTurnOf } from '../../lib/concurrency/event-loop-yielder.js'
import type { AgentSettings } from '../../lib/document/rules/agent.js'
import { failure } from '../../lib/errors.js'
import { tenantRef } from '../../lib/identity/tenant-ref.js'
import { markCharged } from '../../lib/models/failures.js'
import type { ImageMemory } from '../../lib/models/images.js'
import { checkMessages, promptOf } from '../../lib/models/prompt.js'
import type { ProviderRequest } from '../../lib/models/provider-request.js'
import { compileResponseFormat, type ResponseFormat } from '../../lib/models/response-format.js'
import { readRound, Received, type RoundReader } from '../../lib/models/round.js'
import { addUsage, countPrompt, countTokens, noUsage, type Tokens } from '../../lib/models/tokens.js'
import type { ChatCall, ChatEvent, ChatResult, ModelInfo, ModelMessage, ModelUsage, ToolCallOutcome } from '../../lib/models/types.js'
import type { Llm } from '../../lib/schema/agent.js'
import { type CallParts, failedCall } from './call-parts.js'
import type { Charge, Payer } from './charges.js'
import { runTools, schemasOf } from './tools.js'

const defaultMaxOutputTokens = 1000
const defaultTimeoutMs = 60_000
const defaultMaxRounds = 5
const maxRounds = 20
const maxStreamMs = 1_800_000
const minResponseBytes = 8_388_608
const bytesPerToken = 1024 // of a response: each token is a separate event
const maxResponseBytes = 67_108_864

export interface ChatParts extends CallParts {
  readonly llm: Llm
  readonly settings: Pick<AgentSettings, 'chat' | 'logPrompts'>
  readonly models: readonly ModelInfo[]
  readonly images: ImageMemory
}

/** The time limits of a call: in all, and without a byte. */
type TimeBound = 'whole' | 'silence'

/** A validated call. */
interface Prepared {
  readonly info: ModelInfo
  readonly payer: Payer
  readonly messages: readonly ModelMessage[]
  readonly options: Omit<LanguageModelV3CallOptions, 'prompt'>
  readonly promptTokens: number
  readonly maxOutputTokens: number
  readonly format: ResponseFormat | null
  readonly rounds: number
}

export type Chat = (call: ChatCall, bound: TimeBound) => AsyncIterableIterator<ChatEvent>

export function createChat (parts: ChatParts): Chat {
  return (call, bound) => {
    const gone = new AbortController()
    const events = converse(parts, { ...call, signal: AbortSignal.any([call.signal, gone.signal]) }, bound)
    return {
      next: () => events.next(),
      // A generator handles `return` only after its `next` has settled.
      return () {
        gone.abort(failure('stopping', { message: 'The caller disconnected' }))
        return events.return(undefined)
      },
      [Symbol.asyncIterator] () {
        return this
      }
    }
  }
}

async function * converse (parts: ChatParts, call: ChatCall, bound: TimeBound): AsyncGenerator<ChatEvent, void, undefined> {
  const prepared = await inTurnOf(tenantRef(call.tenant), () => prepare(parts, call))
  const { info, payer, format, rounds } = prepared
  const apiKey = await parts.keys.of(payer.tenant)
  const counted = await parts.charges.count(payer)
  let under
  try {
    under = await parts.calls.begin(payer.tenant, call.signal)
  } catch (error) {
    await counted.give()
    throw error
  }
  const outcomes: ToolCallOutcome[] = []
  const images = parts.images.hold(payer.tenant)
  let prompt: LanguageModelV3Prompt | null = null
  let { promptTokens } = prepared
  let usage: ModelUsage = noUsage
  let text = ''
  let isCharged = false
  try {
    for (let round = 1; ; round++) {
      const run = new Round(parts, { ...prepared, promptTokens }, apiKey, bound, under.signal)
      let hasEnded = false
      try {
        await run.reserve()
        prompt ??= promptOf(prepared.messages, await images.read(prepared.messages, under.signal))
        await run.start(prompt)
        if (round === 1) yield { type: 'begun' }
        for await (const delta of run.deltas()) yield { type: 'content', text: delta }
        hasEnded = true
      } finally {
        const used = await run.end({ hasEnded, hasLeft: under.signal.aborted })
        isCharged ||= used !== null
        if (used !== null) usage = addUsage(usage, used)
      }
      const { received } = run
      text += received.text
      if (received.calls.length === 0 || round === rounds) {
        const made = () => resultOf(info, format, received, { text, toolCalls: outcomes, usage })
        const result = format === null ? made() : await inTurnOf(payer.tenant, made)
        parts.log.info({
          tenant: call.tenant,
          provider: info.provider,
          model: info.id,
          rounds: round,
          finishReason: received.finishReason,
          usage,
          ...parts.settings.logPrompts === true && { messages: call.messages, answer: text }
        }, 'a model has answered')
        yield { type: 'usage', ...usage }
        yield { type: 'done', result }
        return
      }
      const results = await runTools(received.calls, call.tools ?? [], under.signal)
      prompt.push({ role: 'assistant', content: received.parts }, { role: 'tool', content: results.map(({ part }) => part) })
      promptTokens += received.tokens + results.reduce((sum, { tokens }) => sum + tokens, 0)
      for (const { outcome } of results) {
        outcomes.push(outcome)
        yield { type: 'tool', ...outcome }
      }
    }
  } catch (error) {
    if (isCharged) markCharged(error)
    throw error
  } finally {
    images.release()
    if (!isCharged) await counted.give()
    under.end()
  }
}

/** Throws for a response that does not have the requested format. `text`: of all rounds. */
function resultOf (
  { id: model }: ModelInfo,
  format: ResponseFormat | null,
  received: Received,
  { text, toolCalls, usage }: Pick<ChatResult, 'text' | 'toolCalls' | 'usage'>
): ChatResult {
  return {
    id: randomUUID(),
    model,
    text: format === null ? text : received.text,
    ...format !== null && { object: format.parse(received.text) },
    finishReason: received.finishReason ?? 'other',
    toolCalls,
    usage
  }
}

/** One request to the provider, and its charge. */
class Round {
  readonly received = new Received()
  readonly #parts: ChatParts
  readonly #prepared: Prepared
  readonly #apiKey: string
  readonly #bound: TimeBound
  readonly #signal: AbortSignal
  #request: ProviderRequest | null = null
  #charge: Charge | null = null
  #reader: RoundReader | null = null
  #startedAt = 0
  #hasFailed = false

  constructor (parts: ChatParts, prepared: Prepared, apiKey: string, bound: TimeBound, signal: AbortSignal) {
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
    const { usage, tokens } = this.received
    const counted: Tokens = { input: usage.input ?? promptTokens, output: usage.output ?? Math.min(tokens, maxOutputTokens) }
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

function prepare ({ llm, settings, models, provider }: ChatParts, call: ChatCall): Prepared {
  const id = call.model ?? llm.model
  const info = models.find((model) => model.kind === 'chat' && model.id === id)
  if (info === undefined) throw failure('notFound', { message: 'There is no chat model with this name: GET /llm/models lists them' })
  const messages = checkMessages(call.messages)
  const format = call.responseFormat === undefined ? null : compileResponseFormat(call.responseFormat)
  const most = llm.maxOutputTokens ?? defaultMaxOutputTokens
  const maxOutputTokens = Math.max(1, Math.min(call.maxOutputTokens ?? most, most))
  const tools = call.tools ?? []
  const schemas = schemasOf(tools)
  const schemaText = (tools.length === 0 ? '' : JSON.stringify(schemas)) + (format === null ? '' : JSON.stringify(format.schema))
  return {
    info,
    payer: { tenant: tenantRef(call.tenant), user: call.user, price: info.price },
    messages,
    options: {
      maxOutputTokens,
      ...call.temperature !== undefined && { temperature: call.temperature },
      ...format !== null && { responseFormat: { type: 'json', schema: format.schema, name: 'answer' } },
      ...tools.length > 0 && { tools: schemas },
      providerOptions: provider.chatOptions
    },
    promptTokens: countPrompt(messages) + countTokens(schemaText),
    maxOutputTokens,
    format,
    rounds: Math.min(maxRounds, call.maxRounds ?? (tools.length === 0 ? 1 : settings.chat?.maxRounds ?? defaultMaxRounds))
  }
}
