/** Loads the SDKs of the configured providers. */
import type { EmbeddingModelV3, LanguageModelV3, SharedV3ProviderOptions } from '@ai-sdk/provider'
import { LRUCache } from 'lru-cache'
import type { Llm } from '../schema/agent.js'

export type Provider = Llm['provider']
type Fetch = typeof globalThis.fetch

const maxKept = 100 // models by address and key; each tenant may have its own key

export interface ModelAddress {
  readonly model: string
  /** May be empty only for `local`. */
  readonly apiKey: string
}

export interface ProviderModels {
  chat(address: ModelAddress): LanguageModelV3
  /** Throws for a provider without embeddings. */
  embedding(address: ModelAddress): EmbeddingModelV3
  readonly chatOptions: SharedV3ProviderOptions
  /** Whether the model may reason while its response has no part that shows it. */
  hidesReasoning(model: string): boolean
  embeddingOptions(dimensions: number): SharedV3ProviderOptions
}

/** Models of Google that do not think, or only on request. All later ones do. */
const withoutThinking = /^(?:models\/)?(?:gemini-1|gemini-2\.0-(?!.*thinking)|gemini-2\.5-flash-lite|gemma-[1-3])/

const packages = {
  openai: '@ai-sdk/openai@3',
  anthropic: '@ai-sdk/anthropic@3',
  google: '@ai-sdk/google@3',
  local: '@ai-sdk/openai-compatible@2'
} as const satisfies Record<Provider, string>

/** Rejects with installation instructions if the provider's package is missing. */
export async function loadProvider (provider: Provider, baseUrl: string | undefined, fetch: Fetch): Promise<ProviderModels> {
  try {
    const loaded = await loaders[provider](fetch, baseUrl)
    return { ...loaded, chat: kept(loaded.chat), embedding: kept(loaded.embedding) }
  } catch (cause) {
    throw new Error(`the provider "${provider}" needs two packages: npm i ${packages[provider]} zod`, { cause })
  }
}

/** A new model compiles the schemas of its responses, which takes longer than the rest of a call. */
function kept<Made extends object> (make: (address: ModelAddress) => Made): (address: ModelAddress) => Made {
  const models = new LRUCache<string, Made, ModelAddress>({ max: maxKept, memoMethod: (_key, _stale, { context }) => make(context) })
  return (address) => models.memo(`${address.apiKey} ${address.model}`, { context: address })
}

// Addresses and keys are always set explicitly: the SDKs would read missing ones from the environment.
const loaders: Readonly<Record<Provider, (fetch: Fetch, baseURL: string | undefined) => Promise<ProviderModels>>> = {
  async openai (fetch, baseURL = 'https://api.openai.com/v1') {
    const { createOpenAI } = await import('@ai-sdk/openai')
    return {
      chat: ({ model, apiKey }) => createOpenAI({ baseURL, fetch, apiKey }).responses(model),
      embedding: ({ model, apiKey }) => createOpenAI({ baseURL, fetch, apiKey }).embedding(model),
      // The provider must not store responses, and must accept schemas with optional members.
      chatOptions: { openai: { store: false, strictJsonSchema: false } },
      hidesReasoning: () => false,
      embeddingOptions: (dimensions) => ({ openai: { dimensions } })
    }
  },
  async anthropic (fetch, baseURL = 'https://api.anthropic.com/v1') {
    const { createAnthropic } = await import('@ai-sdk/anthropic')
    return {
      chat: ({ model, apiKey }) => createAnthropic({ baseURL, fetch, apiKey })(model),
      embedding: () => {
        throw new Error('the provider "anthropic" has no embedding models')
      },
      chatOptions: {},
      hidesReasoning: () => false,
      embeddingOptions: () => ({})
    }
  },
  async google (fetch, baseURL = 'https://generativelanguage.googleapis.com/v1beta') {
    const { createGoogleGenerativeAI } = await import('@ai-sdk/google')
    return {
      chat: ({ model, apiKey }) => createGoogleGenerativeAI({ baseURL, fetch, apiKey })(model),
      embedding: ({ model, apiKey }) => createGoogleGenerativeAI({ baseURL, fetch, apiKey }).embedding(model),
      chatOptions: {},
      hidesReasoning: (model) => !withoutThinking.test(model),
      embeddingOptions: (dimensions) => ({ google: { outputDimensionality: dimensions } })
    }
  },
  async local (fetch, baseURL) {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
    if (baseURL === undefined) throw new Error('the provider "local" needs a `baseUrl`')
    const open = ({ apiKey }: ModelAddress) =>
      createOpenAICompatible({
        name: 'local',
        baseURL,
        fetch,
        includeUsage: true,
        supportsStructuredOutputs: true,
        ...apiKey !== '' && { apiKey }
      })
    return {
      chat: (address) => open(address).chatModel(address.model),
      embedding: (address) => open(address).embeddingModel(address.model),
      chatOptions: { local: { strictJsonSchema: false } },
      hidesReasoning: () => false,
      // Many of these servers reject the parameter.
      embeddingOptions: () => ({})
    }
  }
}
