/** The cache of responses: `app.cache` and its endpoints. */
import type { FastifyInstance } from 'fastify'
import type { CacheBounds, CacheProvider, CacheStore, Warn } from '../../lib/cache/store.js'
import { checkCacheSections } from '../../lib/document/rules/sections.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { membersOf, withMethods } from '../../lib/plugin/options.js'
import { openRedis } from '../../lib/redis/redis.js'
import { CacheStore as CacheStoreSection } from '../../lib/schema/cache.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import { atMostEvery } from '../../lib/time/spans.js'
import { createLmdbCache } from './lmdb.js'
import { createMemoryCache } from './memory.js'
import { createRedisCache } from './redis.js'
import { cacheRoutes } from './routes.js'

export type { CacheStore } from '../../lib/cache/store.js'

const warnAgainMs = 60_000

/** The document's `cache` section, and a store of the caller's own. */
export interface CacheOptions extends CacheBounds {
  /** false: no declared route is cached. Default: true. */
  readonly enabled?: boolean | undefined
  /** Seconds, above 0 and up to 31,536,000, for which declared routes cache a response by default. Default: 60. */
  readonly ttl?: number | undefined
  /** The store of items. Default: `memory`, this process. */
  readonly provider?: CacheProvider | undefined
  /** The options of the provider `redis`. */
  readonly redis?: { readonly url: string } | undefined
  /** The options of the provider `lmdb`. */
  readonly lmdb?: { readonly dbPath: string } | undefined
  /** The caller's own store, in place of the provider. The plugin closes it. */
  readonly store?: CacheStore | undefined
}

export default definePlugin<CacheOptions>({
  name: 'cache',
  routeDependencies: ['database', 'auth'],
  options: {
    ...membersOf(CacheStoreSection),
    store: withMethods<CacheStore>('get', 'set', 'invalidate', 'delete', 'clear', 'keys', 'stats', 'ping', 'close')
  },
  async setup (app, options) {
    const { enabled = true, ttl } = options
    if (options.store === undefined) withoutFaults((faults) => checkCacheSections(options, faults))
    const store = options.store ?? await createStore(app, options)
    app.decorate('cache', store)
    app.decorate('cacheDefaults', Object.freeze({ enabled, ttl }))
    app.addHook('onClose', async () => {
      await store.close()
    })
    return cacheRoutes
  }
})

async function createStore (
  { log }: FastifyInstance,
  { enabled = true, provider = 'memory', maxSize, maxMemoryMB, redis, lmdb }: CacheOptions
): Promise<CacheStore> {
  // For any reason: a too small cache has one for each request.
  const mayWarn = atMostEvery(warnAgainMs)
  const warn: Warn = (reason, err) => {
    if (mayWarn()) log.warn({ ...err !== undefined && { err } }, `a response was not cached: ${reason}`)
  }
  const bounds = { maxSize, maxMemoryMB, warn }
  const chosen = enabled ? provider : 'memory'
  switch (chosen) {
    case 'memory':
      return createMemoryCache(bounds)
    case 'redis':
      return createRedisCache({ ...bounds, connection: await openRedis(required(redis?.url, 'redis.url'), log) })
    case 'lmdb':
      return await createLmdbCache({
        ...bounds,
        dbPath: required(lmdb?.dbPath, 'lmdb.dbPath'),
        onRenewal: (reason) => log.warn({ reason }, 'the file of the cache was recreated, empty')
      })
    default:
      throw new Error(`cache.provider "${String(chosen satisfies never)}" is unknown`)
  }
}

/** An app that registers the plugin alone has no checked document. */
function required (value: string | undefined, member: string): string {
  if (value === undefined) throw new Error(`cache.${member} is missing`)
  return value
}
