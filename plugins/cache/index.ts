/** The cache of answers: `app.cache`. A service plugin (fp). */
import type { FastifyInstance } from 'fastify'
import type { CacheStore } from './store.js'
import fp from 'fastify-plugin'
import { createMemoryCache } from './memory.js'

declare module 'fastify' {
  interface FastifyInstance {
    cache: CacheStore
  }
}

/** The document's `cache` section, as far as this plugin reads it. */
export interface CacheOptions {
  /** Where items are kept. Default: `memory`, this process. */
  readonly provider?: 'memory' | undefined
  /** Items at most. Default: 10,000. */
  readonly maxSize?: number | undefined
  /** Megabytes at most. Default: 64. */
  readonly maxMemoryMB?: number | undefined
  /** A store of the caller's own, in place of the provider. The plugin closes it. */
  readonly store?: CacheStore | undefined
}

export async function cache (app: FastifyInstance, options: CacheOptions): Promise<void> {
  const store = options.store ?? createStore(options)
  app.decorate('cache', store)
  app.addHook('onClose', async () => { await store.close() })
}

function createStore ({ provider = 'memory', maxSize, maxMemoryMB }: CacheOptions): CacheStore {
  switch (provider) {
    case 'memory': return createMemoryCache({ maxSize, maxMemoryMB })
    default: throw new Error(`cache.provider "${String(provider satisfies never)}" is unknown`)
  }
}

export default fp(cache, { name: 'tenantry-cache', fastify: '5.x' })
