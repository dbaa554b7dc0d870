/** Embedding models for tests. A vector holds counts of words, so that texts with common words are near each other. */
import { hash } from 'node:crypto'
import type { EmbedCall, Embedded, Models } from '../../lib/models/types.js'
import { definePlugin } from '../../lib/plugin/define.js'

const countTokens = (text: string) => Math.ceil(text.length / 4)

export interface FakeModels extends Models {
  /** Every call. */
  readonly calls: EmbedCall[]
  /** Called before each call; if it rejects, so does the call. */
  before: (call: EmbedCall) => Promise<void> | undefined
}

export function fakeModels (dimensions: number, model = 'words-1'): FakeModels {
  const none = () => {
    throw new Error('there is no chat model')
  }
  const models: FakeModels = {
    calls: [],
    before: () => undefined,
    list: [],
    chatModel: null,
    embeddingModel: { model, dimensions },
    chat: none,
    stream: none,
    countTokens,
    async embed (call): Promise<Embedded> {
      models.calls.push(call)
      await models.before(call)
      call.signal.throwIfAborted()
      const tokens = call.texts.reduce((sum, text) => sum + countTokens(text), 0)
      const usage = { inputTokens: tokens, outputTokens: 0, totalTokens: tokens, cost: tokens / 1e6 }
      return { embeddings: call.texts.map((text) => vectorOf(text, dimensions)), model, usage }
    }
  }
  return models
}

/** The plugin that decorates an app with them. */
export function modelsPlugin (models: Models) {
  return definePlugin<object>({
    name: 'models',
    options: {},
    setup (app) {
      app.decorate('models', models)
      return undefined
    }
  })
}

export function vectorOf (text: string, dimensions: number): number[] {
  const vector = new Array<number>(dimensions).fill(0.001)
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) {
    const index = Number.parseInt(hash('md5', word).slice(0, 8), 16) % dimensions
    vector[index] = (vector[index] ?? 0) + 1
  }
  return vector
}
