/** One call of a chat model: the parts of its response as they arrive. */
import type { LanguageModelV3Prompt, LanguageModelV3StreamPart, LanguageModelV3Usage, SharedV3ProviderMetadata } from '@ai-sdk/provider'
import { failure } from '../errors.js'
import { jsonIn } from '../json/plain-value.js'
import { unreadable } from './failures.js'
import { countTokens, type Tokens } from './tokens.js'

type AssistantParts = Extract<LanguageModelV3Prompt[number], { role: 'assistant' }>['content']

export interface ToolCall {
  readonly id: string
  readonly name: string
  /** JSON text, as written by the model. */
  readonly input: string
}

/** The part of a response received so far. */
export class Received {
  text = ''
  #toolInput = ''
  readonly calls: ToolCall[] = []
  finishReason: string | null = null
  /** The provider's counts; a missing count is omitted. */
  usage: Partial<Tokens> = {}
  /** The response in the form that is sent back with the results of its tools. */
  readonly parts: AssistantParts = []

  readonly #mayHide: boolean
  #hasFinished = false

  /** @param mayHide  the model may reason while no part shows it */
  constructor (mayHide = false) {
    this.#mayHide = mayHide
  }

  /** The tokens received so far, by our own count. */
  get tokens (): number {
    return this.parts.reduce((sum, part) => sum + ('text' in part ? countTokens(part.text) : 0), countTokens(this.#toolInput))
  }

  /** The model reasoned, and sent no text of it; or may have done so before it was interrupted. */
  get hidesReasoning (): boolean {
    return (this.#mayHide && !this.#hasFinished) || this.parts.some((part) => part.type === 'reasoning' && part.text === '')
  }

  add (part: LanguageModelV3StreamPart): void {
    switch (part.type) {
      case 'text-delta':
        this.text += part.delta
        this.#extend('text', part.delta, part.providerMetadata)
        break
      case 'reasoning-start':
        this.parts.push({ type: 'reasoning', text: '', ...options(part.providerMetadata) })
        break
      case 'reasoning-end':
        this.#extend('reasoning', '', part.providerMetadata)
        break
      case 'reasoning-delta':
        this.#extend('reasoning', part.delta, part.providerMetadata)
        break
      case 'text-end':
        this.#extend('text', '', part.providerMetadata)
        break
      case 'tool-input-delta':
        this.#toolInput += part.delta
        break
      case 'tool-call':
        this.calls.push({ id: part.toolCallId, name: part.toolName, input: part.input })
        this.parts.push({
          type: 'tool-call',
          toolCallId: part.toolCallId,
          toolName: part.toolName,
          input: parsedInput(part.input) ?? {},
          ...options(part.providerMetadata)
        })
        break
      case 'finish':
        this.#hasFinished = true
        this.usage = tokensOf(part.usage)
        // An interrupted stream ends without the provider's reason.
        this.finishReason = part.finishReason.unified === 'other' && part.finishReason.raw === undefined ? null : part.finishReason.unified
        break
      case 'error':
        // An error of the SDK, which cannot read the response. Errors that the provider sends are not instances of `Error`.
        if (part.error instanceof Error) throw unreadable(part.error, 'a complete stream of server-sent events')
        throw failure('providerFailed', { message: 'The provider ended its response with an error' })
    }
  }

  #extend (type: 'text' | 'reasoning', text: string, metadata: SharedV3ProviderMetadata | undefined): void {
    const last = this.parts.at(-1)
    if (last?.type === type) {
      last.text += text
      if (metadata !== undefined) last.providerOptions = { ...last.providerOptions, ...metadata }
    } else if (text !== '' || type === 'reasoning') this.parts.push({ type, text, ...options(metadata) })
  }
}

function options (metadata: SharedV3ProviderMetadata | undefined) {
  return metadata === undefined ? {} : { providerOptions: metadata }
}

/** undefined for text that is not JSON. */
export function parsedInput (text: string): unknown {
  return text.trim() === '' ? {} : jsonIn(text)
}

function tokensOf ({ inputTokens, outputTokens }: LanguageModelV3Usage): Partial<Tokens> {
  const [input, output] = [inputTokens.total, outputTokens.total]
  return { ...isCount(input) && { input }, ...isCount(output) && { output } }
}

/** Servers without a count send 0. No real response reaches the upper bound. */
function isCount (value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 && value <= 1_000_000_000
}

export type RoundReader = ReadableStreamDefaultReader<LanguageModelV3StreamPart>

/** Yields the text as it arrives, and fills `received`. Throws `providerFailed` if the response is incomplete. */
export async function * readRound (reader: RoundReader, received: Received): AsyncGenerator<string, void, undefined> {
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    received.add(value)
    if (value.type === 'text-delta' && value.delta !== '') yield value.delta
  }
  if (received.finishReason === null || received.finishReason === 'error') {
    throw failure('providerFailed', { message: 'The response of the provider was cut off' })
  }
}
