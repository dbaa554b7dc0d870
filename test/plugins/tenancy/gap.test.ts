/** The caches that an instance clears when it may have missed a tenant's deletion. */
import { type Test, test } from 'tap'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { found } from '../cache/conformance.js'
import { type CacheSection, redisSection } from '../cache/stores.js'

/** The remaining cached response after the notification connection was lost and re-established. */
async function leftAfterGap (t: Test, cache: CacheSection): Promise<string | undefined> {
  const database = await postgresDatabase(t)
  const app = await testServer(t, { cache }, {
    engine: { provider: 'postgres', postgres: { connectionString: database.connectionString } },
    tenants: ['acme']
  })
  await app.cache.set('acme', 'k', 'kept', 60_000)
  t.equal(await found(app.cache.get('acme', 'k')), 'kept')
  const notified = new Promise<void>((resolve) => {
    app.events.onGap(resolve)
  })
  const ended = await database.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'tenantry notices'"
  )
  t.equal(ended.length, 1)
  await notified
  return found(app.cache.get('acme', 'k'))
}

test('an instance that missed notifications clears its own cache', async (t) => {
  t.equal(await leftAfterGap(t, { enabled: true, provider: 'memory' }), undefined)
  t.equal(await leftAfterGap(t, { enabled: true, provider: 'lmdb', lmdb: { dbPath: t.testdir({}) } }), undefined, 'and that of its machine')
})

test('an instance that missed notifications keeps the cache that all instances share', async (t) => {
  const { cache } = await redisSection(t)
  t.equal(await leftAfterGap(t, cache), 'kept')
})
