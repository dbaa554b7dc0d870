import Fastify from 'fastify'
import t from 'tap'
import cache from '../../../plugins/cache/index.js'
import { createMemoryCache } from '../../../plugins/cache/memory.js'

t.test('the plugin stands alone, and bounds its store as it is told', async (t) => {
  const app = Fastify()
  await app.register(cache, { provider: 'memory', maxSize: 2 })
  for (const key of ['a', 'b', 'c']) await app.cache.set('', key, 'v', 1000)
  t.match(await app.cache.stats(''), { items: 2 })
  await app.close()
})

t.test("a store of the embedder's own is used, and closed with the app", async (t) => {
  const own = createMemoryCache()
  let closed = 0
  const app = Fastify()
  await app.register(cache, { store: { ...own, close () { closed++ } } })
  await app.cache.set('acme', 'k', 'v', 1000)
  t.equal(await own.get('acme', 'k'), 'v')
  await app.close()
  t.equal(closed, 1)
})
