/** `app.models`: language models. */
import type { FastifyInstance } from 'fastify'
import { createWarned } from '../../lib/cache/warned.js'
import type { AgentSettings } from '../../lib/document/rules/agent.js'
import { failure } from '../../lib/errors.js'
import { createImageMemory } from '../../lib/models/images.js'
import { createConnections } from '../../lib/models/provider-request.js'
import { loadProvider } from '../../lib/models/providers.js'
import { countTokens } from '../../lib/models/tokens.js'
import type { ChatResult, Models } from '../../lib/models/types.js'
import { optional } from '../../lib/plugin/define.js'
import { createKeys } from './call-parts.js'
import { createCalls } from './calls.js'
import { createCharges, createFigures } from './charges.js'
import { type Chat, createChat } from './chat.js'
import { createEmbedder } from './embed.js'

const graceMs = 5000 // for calls to end by themselves, without the plugin stop, which lets requests finish

/** The service, and the methods for its plugin. */
export type ModelsService = Awaited<ReturnType<typeof createModels>>

/** Rejects if a package of a provider is missing. */
export async function createModels (app: FastifyInstance, settings: AgentSettings) {
  const { llm, embedding } = settings
  const secrets = optional(app, 'secrets')
  const list = settings.models.map(({ id, provider, kind, contextTokens = null, price = null }) =>
    ({ id, provider, kind, contextTokens, price })
  ).sort((left, right) => Number(left.kind === 'embedding') - Number(right.kind === 'embedding'))
  const connections = createConnections()
  const calls = createCalls()
  const [charges, figures] = [createCharges(app), createFigures(app)]
  const shared = { connections, tenants: app.tenants, calls, charges, figures, log: app.log, warned: createWarned() }
  const chat: Chat = llm === undefined
    ? () => {
        throw failure('notFound', { message: 'This server has no chat model' })
      }
    : createChat({
      ...shared,
      llm,
      settings,
      models: list,
      images: createImageMemory(),
      provider: await loadProvider(llm.provider, llm.baseUrl, connections.fetch),
      keys: createKeys(llm.apiKey, secrets)
    })
  const info = list.find(({ id, kind }) => kind === 'embedding' && id === embedding?.model)
  const embedder = embedding === undefined || info === undefined
    ? null
    : createEmbedder({
      ...shared,
      embedding,
      info,
      provider: await loadProvider(embedding.provider, embedding.baseUrl, connections.fetch),
      keys: createKeys(embedding.apiKey, secrets)
    })

  const models: Models = {
    list,
    chatModel: llm?.model ?? null,
    get embeddingModel () {
      return embedder === null || info === undefined ? null : { model: info.id, dimensions: embedder.dimensions }
    },
    async chat (call) {
      let result: ChatResult | undefined
      for await (const event of chat(call, 'whole')) if (event.type === 'done') result = event.result
      if (result === undefined) throw new Error('a call of a model ended without a result')
      return result
    },
    stream: (call) => chat(call, 'silence'),
    async embed (call) {
      if (embedder === null) throw failure('notFound', { message: 'This server has no embedding model' })
      return await embedder.embed(call)
    },
    countTokens
  }
  return {
    models,
    /** Rejects without `agent.llm`. */
    chat,
    async close (): Promise<void> {
      await calls.close(app.hasDecorator('stopping') ? 0 : graceMs)
      await connections.close()
    }
  }
}
