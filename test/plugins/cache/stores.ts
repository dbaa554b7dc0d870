/** Each store as a document names it, for tests that apply to all stores. */
import type { Test } from 'tap'
import type { CacheStore } from '../../../lib/schema/cache.js'
import { startRedis, type TestRedis } from '../../helpers/redis.js'

/** The document's `cache` section, with the defaults of the check. */
export type CacheSection = Pick<CacheStore, 'enabled' | 'provider' | 'redis' | 'lmdb'>

export async function redisSection (t: Test): Promise<{ cache: CacheSection, redis: TestRedis }> {
  const redis = await startRedis(t)
  return { redis, cache: { enabled: true, provider: 'redis', redis: { url: redis.url } } }
}

/** Runs the same test with each store, as subtests. */
export async function forEachStore (t: Test, work: (t: Test, cache: CacheSection) => Promise<unknown>): Promise<void> {
  await t.test('memory', (t) => work(t, { enabled: true, provider: 'memory' }))
  await t.test('redis', async (t) => work(t, (await redisSection(t)).cache))
  await t.test('lmdb', (t) => work(t, { enabled: true, provider: 'lmdb', lmdb: { dbPath: t.testdir({}) } }))
}
