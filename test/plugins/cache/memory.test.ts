import t from 'tap'
import { everyTenant } from '../../../lib/cache/store.js'
import { createMemoryCache } from '../../../plugins/cache/memory.js'
import { fill, found, testCacheStore } from './conformance.js'

testCacheStore(t, (_t, bounds) => {
  let time = 1_000_000
  return {
    store: createMemoryCache({ ...bounds, now: () => time }),
    pass: (ms) => {
      time += ms
    }
  }
})

t.test('an item that expires during an eviction is counted once', async (t) => {
  let time = 1000
  const store = createMemoryCache({ maxSize: 10, now: () => time })
  await fill(store, 'acme', 25)
  await store.set('acme', 'key 24', 'longer', 10)
  time += 20
  await store.get('acme', 'key 24')
  const { items, bytes } = await store.stats('acme')
  t.equal(items, 9)
  t.equal(bytes, (await store.stats(everyTenant)).bytes)
})

t.test('a value is returned synchronously', async (t) => {
  const store = createMemoryCache()
  t.notOk(store.set('acme', 'k', 'v', 1000) instanceof Promise)
  t.equal(store.get('acme', 'k'), 'v')
  t.notOk(store.invalidate('acme', [{ table: 'notes', scoped: true }]) instanceof Promise)
})

t.test('a tenant whose stamps were evicted gets no earlier value', async (t) => {
  const store = createMemoryCache({ maxSize: 2 })
  const reads = [{ table: 'notes', scoped: true }]
  const looked = await store.get('acme', 'k', reads)
  if (typeof looked === 'string') throw new Error('there is a value')
  for (let index = 0; index < 10; index++) await store.get(`other-${index}`, 'k', reads)
  await store.invalidate('acme', reads)
  await store.set('acme', 'k', 'old', 60_000, looked.stamp)
  t.equal(await found(store.get('acme', 'k', reads)), undefined)
})
