/** The SDKs of providers, loaded when the document asks for them. */
import type { EmbeddingModelV3, LanguageModelV3, SharedV3ProviderOptions } from '@ai-sdk/provider'
import type { Llm } from '../schema/agent.js'

export type Provider = Llm['provider']

/** How a model is reached. `fetch` is that of one exchange. */
export interface ModelAddress {
  readonly model: string
  /** Empty without a key, which only `local` admits. */
  readonly apiKey: string
  readonly fetch: typeof globalThis.fetch
}

export interface ProviderModels {
  chat(address: ModelAddress): LanguageModelV3
  /** Throws for a provider without embeddings. */
  embedding(address: ModelAddress): EmbeddingModelV3
  readonly chatOptions: SharedV3ProviderOptions
  embeddingOptions(dimensions: number): SharedV3ProviderOptions
}

const packages = {
  openai: '@ai-sdk/openai',
  anthropic: '@ai-sdk/anthropic',
  google: '@ai-sdk/google',
  local: '@ai-sdk/openai-compatible'
} as const satisfies Record<Provider, string>

/** Rejects with an error that says what to install if the package of the provider is missing. */
export async function loadProvider (provider: Provider, baseUrl: string | undefined): Promise<ProviderModels> {
  try {
    return await loaders[provider](baseUrl)
  } catch (cause) {
    throw new Error(`the provider "${provider}" needs two packages: npm i ${packages[provider]} zod`, { cause })
  }
}

// Addresses and keys are always given: the SDKs read missing ones from the environment.
const loaders: Readonly<Record<Provider, (baseUrl: string | undefined) => Promise<ProviderModels>>> = {
  async openai (baseURL = 'https://api.openai.com/v1') {
    const { createOpenAI } = await import('@ai-sdk/openai')
    return {
      chat: ({ model, ...address }) => createOpenAI({ baseURL, ...address }).responses(model),
      embedding: ({ model, ...address }) => createOpenAI({ baseURL, ...address }).embedding(model),
      // The provider keeps no answers, and takes schemas with optional members.
      chatOptions: { openai: { store: false, strictJsonSchema: false } },
      embeddingOptions: (dimensions) => ({ openai: { dimensions } })
    }
  },
  async anthropic (baseURL = 'https://api.anthropic.com/v1') {
    const { createAnthropic } = await import('@ai-sdk/anthropic')
    return {
      chat: ({ model, ...address }) => createAnthropic({ baseURL, ...address })(model),
      embedding: () => {
        throw new Error('the provider "anthropic" has no models that embed texts')
      },
      chatOptions: {},
      embeddingOptions: () => ({})
    }
  },
  async google (baseURL = 'https://generativelanguage.googleapis.com/v1beta') {
    const { createGoogleGenerativeAI } = await import('@ai-sdk/google')
    return {
      chat: ({ model, ...address }) => createGoogleGenerativeAI({ baseURL, ...address })(model),
      embedding: ({ model, ...address }) => createGoogleGenerativeAI({ baseURL, ...address }).embedding(model),
      chatOptions: {},
      embeddingOptions: (dimensions) => ({ google: { outputDimensionality: dimensions } })
    }
  },
  async local (baseURL) {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
    if (baseURL === undefined) throw new Error('the provider "local" needs a `baseUrl`')
    const open = ({ apiKey, fetch }: ModelAddress) =>
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
      // Many of these servers refuse the parameter.
      embeddingOptions: () => ({})
    }
  }
}
