/** Language models and embedding models, as plugins and workflow steps use them. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { TenantLife } from '../identity/tenant-ref.js'

/** The usage of a call. `cost` is in USD. */
export const ModelUsage = Type.Object({
  inputTokens: Type.Integer({ minimum: 0, description: 'The number of tokens of the prompt.' }),
  outputTokens: Type.Integer({ minimum: 0, description: 'The number of tokens of the response.' }),
  totalTokens: Type.Integer({ minimum: 0 }),
  cost: Type.Number({ minimum: 0, description: 'The cost in USD, by the prices in the document; 0 for a model without a price.' })
})
export type ModelUsage = Static<typeof ModelUsage>

export const ModelInfo = Type.Object({
  id: Type.String(),
  provider: Type.Enum(['openai', 'anthropic', 'google', 'local']),
  kind: Type.Enum(['chat', 'embedding']),
  contextTokens: Type.Union([Type.Integer(), Type.Null()], {
    description: 'The maximum number of tokens of prompt and response together; null if the document does not set it.'
  }),
  price: Type.Union([
    Type.Object({ input: Type.Number(), output: Type.Number() }, { description: 'The price in USD for a million tokens.' }),
    Type.Null()
  ])
})
export type ModelInfo = Static<typeof ModelInfo>

/** A part of a message. */
export type MessagePart = { readonly type: 'text', readonly text: string } | ImagePart

export interface ImagePart {
  readonly type: 'image'
  readonly mediaType: string
  readonly data: Uint8Array | StoredImage
}

/** An image that is read after its call has begun and its tokens are reserved. Parts with the same object share one read. */
export interface StoredImage {
  /** The number of bytes. */
  readonly length: number
  read(signal: AbortSignal): Promise<Uint8Array>
}

export interface ModelMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string | readonly MessagePart[]
}

/** A tool that a model may call. Its result is data for the model, never an instruction. */
export interface ModelTool {
  /** Unique in a call: 1 to 64 of `A-Z a-z 0-9 _ -`. */
  readonly name: string
  readonly description: string
  /** JSON Schema of the input. */
  readonly inputSchema: Readonly<Record<string, unknown>>
  /** Resolves with a JSON value. The model sees a rejection as a failed call, with the message of a TenantryError or a general one. */
  run(input: unknown, signal: AbortSignal): Promise<unknown>
}

/** Finds the tools that a request names. The tools have the rights of the request. */
export interface ToolSource {
  /** Returns the request's tools by name; names that belong to other sources are omitted. */
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
  /** Never empty: usage is booked to this tenant. */
  readonly tenant: string
  /** As the caller found the tenant: a later tenant with its id gets `tenantUnknown`. Default: the present tenant. */
  readonly life?: TenantLife | undefined
  /** null without a caller; resource limits do not apply then. */
  readonly user: ModelUser | null
  readonly messages: readonly ModelMessage[]
  /** Default: the model of the document. Rejects with `notFound` for a model that is not in the document. */
  readonly model?: string | undefined
  /** Default: the document's limit, which is also the maximum. */
  readonly maxOutputTokens?: number | undefined
  readonly temperature?: number | undefined
  /** JSON Schema of the response; the result's `object` conforms to it. */
  readonly responseFormat?: Readonly<Record<string, unknown>> | undefined
  readonly tools?: readonly ModelTool[] | undefined
  /** The maximum calls of the model, 1 to 20; no tool runs after the last. Default: 1 without tools, `agent.chat.maxRounds` with tools. */
  readonly maxRounds?: number | undefined
  /** Aborts the request to the provider. The tenant is charged for the prompt and for the received tokens. */
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
  /** Set with `responseFormat`. */
  readonly object?: unknown
  readonly finishReason: string
  readonly toolCalls: readonly ToolCallOutcome[]
  /** The usage of all rounds. */
  readonly usage: ModelUsage
}

/** In order: `begun`, any number of `content` and `tool`, one `usage`, then `done`. A failure rejects the iteration. */
export type ChatEvent =
  | { readonly type: 'begun' }
  | { readonly type: 'content', readonly text: string }
  | ({ readonly type: 'tool' } & ToolCallOutcome)
  | ({ readonly type: 'usage' } & ModelUsage)
  | { readonly type: 'done', readonly result: ChatResult }

export interface EmbedCall {
  readonly tenant: string
  /** As the caller found the tenant: a later tenant with its id gets `tenantUnknown`. Default: the present tenant. */
  readonly life?: TenantLife | undefined
  readonly user: ModelUser | null
  /** 1 to 2048 texts. */
  readonly texts: readonly string[]
  /** The dimensions of each vector; other vectors are rejected. Default: those of the document, or of the first response. */
  readonly dimensions?: number | undefined
  readonly signal: AbortSignal
}

export interface Embedded {
  /** One vector of finite numbers for each text, all with the same length. No vector has only zeros. */
  readonly embeddings: ReadonlyArray<readonly number[]>
  readonly model: string
  readonly usage: ModelUsage
}

/**
 * The type of `app.models`. Calls reserve tokens and cost in the usage ledger, and settle them with the provider's figures. They reject
 * with `tenantUnknown` (also if the tenant is deleted meanwhile), `planLimit`, `resourceLimit`, `secretRequired` (the tenant must store its
 * key), `notFound` (an unknown model), `providerKeyRefused` (424, the tenant's key), `providerFailed` (502), `providerBusy` (503),
 * `providerTimeout` (504). Errors contain no text of the provider.
 */
export interface Models {
  /** The models that callers may name, with chat models first. */
  readonly list: readonly ModelInfo[]
  /** null without `agent.llm`; calls of `chat` and `stream` then reject. */
  readonly chatModel: string | null
  /** null without `agent.embedding`. `dimensions` is null until the document or a first call determines it. */
  readonly embeddingModel: { readonly model: string, readonly dimensions: number | null } | null
  chat(call: ChatCall): Promise<ChatResult>
  /** Ending the iteration early (`return`, `break`) aborts the request to the provider. */
  stream(call: ChatCall): AsyncIterable<ChatEvent>
  embed(call: EmbedCall): Promise<Embedded>
  /** The tokens of a text by our own count, for splitting and reservations. */
  countTokens(text: string): number
}
