import type { CacheStore } from '../../../plugins/cache/store.js'
import t from 'tap'
import { createMemoryCache } from '../../../plugins/cache/memory.js'
import { everyTenant } from '../../../plugins/cache/store.js'
import { testCacheStore } from './conformance.js'

const long = 60_000 // ms

testCacheStore(t, () => {
  let time = 1_000_000
  return { store: createMemoryCache({ now: () => time }), pass: (ms) => { time += ms } }
})

async function fill (store: CacheStore, tenant: string, count: number, value = 'v'): Promise<void> {
  for (let index = 0; index < count; index++) await store.set(tenant, `key ${index}`, value, long)
}

t.test('items are bounded, and the least recently used goes first', async (t) => {
  const store = createMemoryCache({ maxSize: 3 })
  for (const key of ['a', 'b', 'c']) await store.set('acme', key, 'v', long)
  await store.set('globex', 'd', 'v', long)
  t.match(await store.stats(everyTenant), { items: 3 })
  t.equal(await store.get('acme', 'a'), undefined)
  t.equal(await store.get('globex', 'd'), 'v')
})

t.test('bytes are bounded, and an item that is larger than the cache is not kept', async (t) => {
  const store = createMemoryCache({ maxMemoryMB: 1 })
  const value = 'x'.repeat(10_000)
  await fill(store, 'acme', 200, value)
  const { items, bytes } = await store.stats(everyTenant)
  t.ok(bytes <= 1_048_576 && bytes > 900_000, `${bytes} bytes`)
  t.ok(items < 60, `${items} items`)
  await store.set('acme', 'key 0', 'small', long)
  await store.set('acme', 'key 0', 'x'.repeat(600_000), long)
  t.equal(await store.get('acme', 'key 0'), undefined, 'neither the new value nor the old')
})

t.test("a tenant that fills the cache pushes out its own items, not another's", async (t) => {
  for (const bound of [{ maxSize: 100 }, { maxMemoryMB: 1 }]) {
    const store = createMemoryCache(bound)
    const value = 'x'.repeat(5000)
    await fill(store, 'victim', 10, value)
    await fill(store, 'hostile', 1000, value)
    t.match(await store.stats('victim'), { items: 10 })
    t.equal(await store.get('hostile', 'key 999'), value)
    t.equal(await store.get('hostile', 'key 0'), undefined)
  }
})

t.test('a tenant that comes to a full cache gets room in it', async (t) => {
  const store = createMemoryCache({ maxSize: 100 })
  await fill(store, 'first', 100)
  await fill(store, 'second', 30)
  t.match(await store.stats('first'), { items: 70 })
  t.match(await store.stats('second'), { items: 30 })
  await fill(store, 'second', 200)
  t.match(await store.stats('second'), { items: 50 }, 'its even share, while both want more')
})

t.test('tenants that hold nothing any more have no share', async (t) => {
  const store = createMemoryCache({ maxSize: 100 })
  for (const gone of ['a', 'b', 'c']) {
    await fill(store, gone, 1)
    await store.clear(gone)
  }
  await fill(store, 'first', 100)
  await fill(store, 'second', 200)
  t.match(await store.stats('second'), { items: 50 })
})

t.test('the figures of a tenant stay right through replacing, expiry and eviction', async (t) => {
  let time = 1000
  const store = createMemoryCache({ maxSize: 10, now: () => time })
  await fill(store, 'acme', 25)
  await store.set('acme', 'key 24', 'longer', 10)
  time += 20
  await store.get('acme', 'key 24')
  const { items, bytes } = await store.stats('acme')
  t.equal(items, 9)
  t.equal(bytes, (await store.stats(everyTenant)).bytes)
  await store.clear('acme')
  t.match(await store.stats('acme'), { items: 0, bytes: 0 })
})
