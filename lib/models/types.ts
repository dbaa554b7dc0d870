/** Language models and embedding models, as plugins and workflow steps use them. */
import type { FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'

/** What a call used. `cost` is in USD. */
export const ModelUsage = Type.Object({
  inputTokens: Type.Integer({ minimum: 0, description: 'Tokens of the prompt.' }),
  outputTokens: Type.Integer({ minimum: 0, description: 'Tokens of the answer.' }),
  totalTokens: Type.Integer({ minimum: 0 }),
  cost: Type.Number({ minimum: 0, description: 'In USD, by the prices of the document; 0 for a model without a price.' })
})
export type ModelUsage = Static<typeof ModelUsage>

export const ModelInfo = Type.Object({
  id: Type.String(),
  provider: Type.Enum(['openai', 'anthropic', 'google', 'local']),
  kind: Type.Enum(['chat', 'embedding']),
  contextTokens: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Tokens of prompt and answer together; null if the document does not say.'
  }),
  price: Type.Union([
    Type.Object({ input: Type.Number(), output: Type.Number() }, { description: 'USD for a million tokens.' }),
    Type.Null()
  ])
})
export type ModelInfo = Static<typeof ModelInfo>

/** A part of a message. */
export type MessagePart =
  | { readonly type: 'text', readonly text: string }
  | { readonly type: 'image', readonly mediaType: string, readonly data: Uint8Array }

export interface ModelMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string | readonly MessagePart[]
}

/** A tool that a model may call. What it returns is data for the model, never an instruction. */
export interface ModelTool {
  /** Unique in a call: 1 to 64 of `A-Z a-z 0-9 _ -`. */
  readonly name: string
  readonly description: string
  /** JSON Schema of the input. */
  readonly inputSchema: Readonly<Record<string, unknown>>
  /**
   * Resolves with a value that JSON can hold. A rejection is shown to the model as a failed call, with the message of a
   * TenantryError or a general one.
   */
  run(input: unknown, signal: AbortSignal): Promise<unknown>
}

/** Finds the tools that a request names. The request says whose rights the tools have. */
export interface ToolSource {
  /** Returns the tools by the names of the request; names that are not its own are left out. */
  resolve(names: readonly string[], request: FastifyRequest): Promise<ReadonlyMap<string, ModelTool>>
}

/** The caller, for limits of resources. `limitedUser(request)` of the plugin resource-limits returns one. */
export interface ModelUser {
  /** The `sub`. */
  readonly id: string
  readonly role?: string | undefined
  /** The claim `tier`. */
  readonly tier?: string | undefined
}

export interface ChatCall {
  /** Never empty: usage is booked to it. */
  readonly tenant: string
  /** null without a caller: no limit of resources applies. */
  readonly user: ModelUser | null
  readonly messages: readonly ModelMessage[]
  /** Default: the model of the document. Rejects with `notFound` for a model that the document does not list. */
  readonly model?: string | undefined
  /** Default: that of the document, which also caps it. */
  readonly maxOutputTokens?: number | undefined
  readonly temperature?: number | undefined
  /** JSON Schema of the answer; `object` of the result is valid by it. */
  readonly responseFormat?: Readonly<Record<string, unknown>> | undefined
  readonly tools?: readonly ModelTool[] | undefined
  /** Calls of the model, 1 to 20: after the last one no tool runs. Default: 1 without tools, `agent.chat.maxRounds` with them. */
  readonly maxRounds?: number | undefined
  /** Aborts the request to the provider. The tenant is charged for the prompt and what was received. */
  readonly signal: AbortSignal
}

export interface ToolCallOutcome {
  readonly name: string
  readonly ok: boolean
}

export interface ChatResult {
  readonly id: string
  readonly model: string
  readonly text: string
  /** With `responseFormat`. */
  readonly object?: unknown
  readonly finishReason: string
  readonly toolCalls: readonly ToolCallOutcome[]
  /** The sum of all rounds. */
  readonly usage: ModelUsage
}

/**
 * What a stream yields, in order: `begun` when the provider begins to answer, any number of `content` and `tool`, one `usage`,
 * then `done`. A failure rejects the iteration.
 */
export type ChatEvent =
  | { readonly type: 'begun' }
  | { readonly type: 'content', readonly text: string }
  | ({ readonly type: 'tool' } & ToolCallOutcome)
  | ({ readonly type: 'usage' } & ModelUsage)
  | { readonly type: 'done', readonly result: ChatResult }

export interface EmbedCall {
  readonly tenant: string
  readonly user: ModelUser | null
  /** 1 to 2048 texts. */
  readonly texts: readonly string[]
  /** Numbers of each vector: others are refused. Default: those of the document, or of the first answer. */
  readonly dimensions?: number | undefined
  readonly signal: AbortSignal
}

export interface Embedded {
  /** One vector of finite numbers for each text, all of one length; none has only zeros. */
  readonly embeddings: ReadonlyArray<readonly number[]>
  readonly model: string
  readonly usage: ModelUsage
}

/**
 * What `app.models` is. Calls reserve tokens and cost in the ledger of usage, and settle them with the provider's own
 * figures. They reject with `planLimit`, `resourceLimit`, `secretRequired` (the tenant must store its key), `notFound` (an
 * unknown model), `providerKeyRefused` (424, the tenant's key), `providerFailed` (502), `providerBusy` (503),
 * `providerTimeout` (504). No error holds text of the provider.
 */
export interface Models {
  /** The models that callers may name; chat models first. */
  readonly list: readonly ModelInfo[]
  /** null without `agent.llm`; calls of `chat` and `stream` then reject. */
  readonly chatModel: string | null
  /** null without `agent.embedding`. `dimensions` is null until the document or a first call says it. */
  readonly embeddingModel: { readonly model: string, readonly dimensions: number | null } | null
  chat(call: ChatCall): Promise<ChatResult>
  /** Leaving the iteration (`return`, `break`) aborts the request to the provider. */
  stream(call: ChatCall): AsyncIterable<ChatEvent>
  embed(call: EmbedCall): Promise<Embedded>
  /** Tokens of a text by our own count, for splitting and reservations. */
  countTokens(text: string): number
}
