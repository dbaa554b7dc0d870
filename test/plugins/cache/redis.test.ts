import type { CacheBounds, CacheStore } from '../../../plugins/cache/store.js'
import { setTimeout as wait } from 'node:timers/promises'
import { test, type Test } from 'tap'
import { openRedis } from '../../../lib/redis.js'
import { createRedisCache } from '../../../plugins/cache/redis.js'
import { startRedis, type TestRedis } from '../../helpers/redis.js'
import { testCacheStore } from './conformance.js'

/** As in a process of its own: a log of its own is a connection of its own. */
async function open (t: Test, redis: TestRedis, bounds: CacheBounds = {}): Promise<CacheStore> {
  const connection = await openRedis(redis.url, { info () {}, warn () {} })
  const store = createRedisCache({ connection, warn () {}, ...bounds })
  t.teardown(() => store.close())
  return store
}

test('a cache in Redis', async (t) => {
  const redis = await startRedis(t)
  await t.test('keeps the contract', async (t) => {
    testCacheStore(t, async (t, bounds) => {
      await redis.command('flushall')
      return { store: await open(t, redis, bounds), pass: async (ms) => { await wait(ms) } }
    })
  })
})
