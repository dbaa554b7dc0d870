/** The contract of every cache store. Each adapter's test calls this with a function that creates an empty store. */
import type { Test } from 'tap'
import type { CacheBounds, CacheStore, MaybePromise, Miss, Stamp, TableUse } from '../../../lib/cache/store.js'
import { everyTenant } from '../../../lib/cache/store.js'

export interface StoreUnderTest {
  readonly store: CacheStore
  /** Lets milliseconds pass: by the test's clock, or by waiting if the store has its own clock. */
  readonly pass: (ms: number) => Promise<void> | void
}

const long = 60_000 // ms

/** The value, or undefined for a miss. */
export async function found (looked: MaybePromise<string | Miss>): Promise<string | undefined> {
  const response = await looked
  return typeof response === 'string' ? response : undefined
}

/** The stamp for a value that is computed from now on. */
export async function stampOf (looked: MaybePromise<string | Miss>): Promise<Stamp> {
  const response = await looked
  if (typeof response === 'string') throw new Error(`there is a value: ${response}`)
  return response.stamp
}

const notes: readonly TableUse[] = [{ table: 'notes', scoped: true }]
const tags: readonly TableUse[] = [{ table: 'tags', scoped: true }]
const countries: readonly TableUse[] = [{ table: 'countries', scoped: false }]
const all = [...notes, ...tags, ...countries]

/** Reads the key, and stores `value` as one that was computed from the tables. */
async function make (store: CacheStore, tenant: string, key: string, value: string, reads: readonly TableUse[]): Promise<void> {
  await store.set(tenant, key, value, long, await stampOf(store.get(tenant, key, reads)))
}

export async function fill (store: CacheStore, tenant: string, count: number, value = 'v'): Promise<void> {
  for (let index = 0; index < count; index++) await store.set(tenant, `key ${index}`, value, long)
}

export function testCacheStore (t: Test, create: (t: Test, bounds?: CacheBounds) => Promise<StoreUnderTest> | StoreUnderTest): void {
  const test = (name: string, prove: (t: Test, under: StoreUnderTest) => Promise<void>, bounds?: CacheBounds) => {
    t.test(name, async (t) => {
      const under = await create(t, bounds)
      t.teardown(() => under.store.close())
      await prove(t, under)
    })
  }

  test('a value is returned unchanged until it expires', async (t, { store, pass }) => {
    await store.set('acme', 'k', '{"a":"ü€😀"}', 1000)
    t.equal(await found(store.get('acme', 'k')), '{"a":"ü€😀"}')
    t.equal(await found(store.get('acme', 'other')), undefined)
    await pass(1100)
    t.equal(await found(store.get('acme', 'k')), undefined)
    t.same(await store.keys('acme'), [])
    t.match(await store.stats('acme'), { items: 0 })
  })

  test('an expired value cannot be deleted any more', async (t, { store, pass }) => {
    await store.set('acme', 'k', 'v', 500)
    await pass(600)
    t.equal(await store.delete('acme', 'k'), false)
    t.match(await store.stats('acme'), { items: 0 })
  })

  test('setting a key again replaces value and expiry', async (t, { store, pass }) => {
    await store.set('acme', 'k', 'old', 500)
    await store.set('acme', 'k', 'new', long)
    await pass(600)
    t.equal(await found(store.get('acme', 'k')), 'new')
    t.match(await store.stats('acme'), { items: 1 })
  })

  test('the empty text is a value', async (t, { store }) => {
    await store.set('acme', 'k', '', long)
    t.equal(await found(store.get('acme', 'k')), '')
  })

  test('tenants and the platform never share an item', async (t, { store }) => {
    const owners = ['', 'acme', 'globex']
    for (const owner of owners) await store.set(owner, 'k', `of ${owner}`, long)
    for (const owner of owners) t.equal(await found(store.get(owner, 'k')), `of ${owner}`)
    t.equal(await store.delete('acme', 'k'), true)
    t.equal(await store.delete('acme', 'k'), false)
    t.equal(await found(store.get('globex', 'k')), 'of globex')
    t.equal(await store.clear('globex'), 1)
    t.equal(await found(store.get('', 'k')), 'of ')
  })

  test("no key of one tenant reaches another tenant's items", async (t, { store }) => {
    await store.set('acme', 'k', 'secret', long)
    for (const [owner, key] of [['', 'acme:k'], ['acm', 'e:k'], ['acme', ':k'], ['', ':acme:k'], ['acme-2', 'k']] as const) {
      t.equal(await found(store.get(owner, key)), undefined, `${owner} ${key}`)
    }
    await store.set('', 'acme:k', 'other', long)
    t.equal(await found(store.get('acme', 'k')), 'secret')
    t.same(await store.keys(''), ['acme:k'])
    t.equal(await store.clear(''), 1)
    t.equal(await found(store.get('acme', 'k')), 'secret')
  })

  test("keys lists the tenant's original keys, up to the requested number", async (t, { store }) => {
    const keys = ['GET /a?x=1&y=ü', 'a:b', '*', 'a b']
    for (const key of keys) await store.set('acme', key, 'v', long)
    await store.set('globex', 'other', 'v', long)
    t.same([...await store.keys('acme')].sort(), [...keys].sort())
    t.equal((await store.keys('acme', 2)).length, 2)
    t.same(await store.keys('initech'), [])
  })

  test('everything can be cleared at once', async (t, { store }) => {
    await store.set('', 'k', 'v', long)
    await store.set('acme', 'k', 'v', long)
    await store.set('globex', 'k', 'v', long)
    t.match(await store.stats(everyTenant), { items: 3 })
    t.equal(await store.clear(everyTenant), 3)
    t.match(await store.stats(everyTenant), { items: 0 })
    t.equal(await found(store.get('acme', 'k')), undefined)
  })

  test('hits and misses are counted per tenant and in total', async (t, { store }) => {
    await store.set('acme', 'k', 'v', long)
    await store.get('acme', 'k')
    await store.get('acme', 'k')
    await store.get('acme', 'none')
    await store.get('globex', 'k')
    t.match(await store.stats('acme'), { items: 1, hits: 2, misses: 1 })
    t.match(await store.stats('globex'), { items: 0, hits: 0 })
    const all = await store.stats(everyTenant)
    t.match(all, { items: 1, hits: 2, misses: 2 })
    t.ok(all.bytes > 0)
  })

  test('a write to a table invalidates values computed from it', async (t, { store }) => {
    for (
      const [key, reads] of [['notes', notes], ['tags', tags], ['countries', countries], ['all', all], ['none', []]] as const
    ) { await make(store, 'acme', key, key, reads) }
    await make(store, 'globex', 'notes', 'of globex', notes)
    await make(store, 'globex', 'countries', 'of globex', countries)
    await make(store, '', 'notes', 'of nobody', notes)
    await store.invalidate('acme', notes)
    t.equal(await found(store.get('acme', 'notes', notes)), undefined)
    t.equal(await found(store.get('acme', 'all', all)), undefined)
    for (const [key, reads] of [['tags', tags], ['countries', countries], ['none', []]] as const) {
      t.equal(await found(store.get('acme', key, reads)), key)
    }
    t.equal(await found(store.get('globex', 'notes', notes)), 'of globex', "another tenant's part of the table is separate")
    t.equal(await found(store.get('', 'notes', notes)), 'of nobody')

    await store.invalidate('acme', countries)
    t.equal(await found(store.get('acme', 'countries', countries)), undefined)
    t.equal(await found(store.get('globex', 'countries', countries)), undefined, 'a table without tenants is shared by all')
    t.equal(await found(store.get('acme', 'tags', tags)), 'tags')
  })

  test('a value whose computation overlaps a write to its table is not returned', async (t, { store }) => {
    const stamp = await stampOf(store.get('acme', 'k', notes))
    await store.invalidate('acme', notes)
    await store.set('acme', 'k', 'old', long, stamp)
    const later = await stampOf(store.get('acme', 'k', notes))
    t.not(later, stamp, 'and no caller joins the computation')
    await store.set('acme', 'k', 'new', long, later)
    t.equal(await found(store.get('acme', 'k', notes)), 'new')
    await store.set('acme', 'k', 'old', long, stamp)
    t.not(await found(store.get('acme', 'k', notes)), 'old', 'whichever ends last')
  })

  test('without a write in between the stamp stays the same', async (t, { store }) => {
    const stamp = await stampOf(store.get('acme', 'k', all))
    await store.invalidate('globex', notes)
    await store.invalidate('acme', [{ table: 'others', scoped: true }])
    t.equal(await stampOf(store.get('acme', 'k', all)), stamp)
  })

  test('a value whose computation overlaps a clear of its tenant is not returned', async (t, { store }) => {
    for (const [cleared, owner] of [['acme', 'acme'], [everyTenant, 'acme'], [everyTenant, '']] as const) {
      const stamp = await stampOf(store.get(owner, 'k', countries))
      await store.clear(cleared)
      await store.set(owner, 'k', 'old', long, stamp)
      t.equal(await found(store.get(owner, 'k', countries)), undefined, `${owner} by ${cleared}`)
    }
    await make(store, 'globex', 'k', 'v', countries)
    await store.clear('acme')
    await store.clear('')
    t.equal(await found(store.get('globex', 'k', countries)), 'v')
  })

  test('a tenant that writes to thousands of tables revives no old value', async (t, { store }) => {
    await make(store, 'acme', 'k', 'old', notes)
    await store.invalidate('acme', notes)
    await make(store, 'globex', 'k', 'v', notes)
    for (let index = 0; index < 3000; index += 10) {
      await store.invalidate('acme', Array.from({ length: 10 }, (_, step) => ({ table: `collection ${index + step}`, scoped: true })))
    }
    t.equal(await found(store.get('acme', 'k', notes)), undefined)
    t.equal(await found(store.get('globex', 'k', notes)), 'v')
  })

  test('the number of items is bounded, and the oldest are evicted first', async (t, { store }) => {
    for (const key of ['a', 'b', 'c']) await store.set('acme', key, 'v', long)
    await store.set('globex', 'd', 'v', long)
    t.match(await store.stats(everyTenant), { items: 3 })
    t.equal(await found(store.get('acme', 'a')), undefined)
    for (const [tenant, key] of [['acme', 'b'], ['acme', 'c'], ['globex', 'd']] as const) t.equal(await found(store.get(tenant, key)), 'v')
  }, { maxSize: 3 })

  test('an item that is used stays', async (t, { store }) => {
    for (const key of ['a', 'b', 'c']) await store.set('acme', key, 'v', long)
    await store.get('acme', 'a')
    await store.set('acme', 'd', 'v', long)
    t.equal(await found(store.get('acme', 'a')), 'v')
    t.equal(await found(store.get('acme', 'b')), undefined)
  }, { maxSize: 3 })

  test('bytes are bounded, and an item larger than the cache is not stored', async (t, { store }) => {
    await fill(store, 'acme', 200, 'x'.repeat(10_000))
    const { items, bytes } = await store.stats(everyTenant)
    t.ok(bytes <= 1_048_576 && bytes > 900_000, `${bytes} bytes`)
    t.ok(items < 110, `${items} items`)
    await store.set('acme', 'key 0', 'small', long)
    await store.set('acme', 'key 0', 'x'.repeat(1_048_577), long)
    t.equal(await found(store.get('acme', 'key 0')), undefined, 'neither the new value nor the old')
  }, { maxMemoryMB: 1 })

  for (const bounds of [{ maxSize: 100 }, { maxMemoryMB: 1 }]) {
    test(`a tenant that fills the cache evicts its own items, not another's: ${JSON.stringify(bounds)}`, async (t, { store }) => {
      const value = 'x'.repeat(5000)
      await fill(store, 'victim', 10, value)
      await fill(store, 'hostile', 300, value)
      t.match(await store.stats('victim'), { items: 10 })
      t.equal(await found(store.get('hostile', 'key 299')), value)
      t.equal(await found(store.get('hostile', 'key 0')), undefined)
    }, bounds)
  }

  test("a tenant whose items grow evicts its own items, not another's", async (t, { store }) => {
    const value = 'x'.repeat(5000)
    await fill(store, 'victim', 10, value)
    await fill(store, 'hostile', 300)
    await fill(store, 'hostile', 300, value)
    t.match(await store.stats('victim'), { items: 10 })
    t.equal(await found(store.get('hostile', 'key 299')), value)
    t.equal(await found(store.get('hostile', 'key 0')), undefined)
    t.ok((await store.stats(everyTenant)).bytes <= 1_048_576)
  }, { maxMemoryMB: 1 })

  test('a new tenant gets room in a full cache', async (t, { store }) => {
    await fill(store, 'first', 100)
    await fill(store, 'second', 30)
    t.match(await store.stats('first'), { items: 70 })
    t.match(await store.stats('second'), { items: 30 })
    await fill(store, 'second', 200)
    t.match(await store.stats('second'), { items: 50 }, 'its even share, while both want more')
  }, { maxSize: 100 })

  test('tenants without items have no share', async (t, { store }) => {
    for (const gone of ['a', 'b', 'c']) {
      await fill(store, gone, 1)
      await store.clear(gone)
    }
    await fill(store, 'first', 100)
    await fill(store, 'second', 200)
    t.match(await store.stats('second'), { items: 50 })
  }, { maxSize: 100 })

  test('expired items free their room, and are not counted any more', async (t, { store, pass }) => {
    for (let index = 0; index < 10; index++) await store.set('acme', `key ${index}`, 'v', 200)
    await store.set('acme', 'lasting', 'v', long)
    await pass(300)
    await fill(store, 'globex', 5)
    t.equal(await found(store.get('acme', 'lasting')), 'v')
    t.match(await store.stats('acme'), { items: 1 })
    t.match(await store.stats(everyTenant), { items: 6 })
  }, { maxSize: 11 })

  test("a tenant's figures stay correct through replacement and eviction", async (t, { store }) => {
    await fill(store, 'acme', 25)
    await store.set('acme', 'key 24', 'longer', long)
    const { items, bytes } = await store.stats('acme')
    t.equal(items, 10)
    t.equal(bytes, (await store.stats(everyTenant)).bytes)
    await store.clear('acme')
    t.match(await store.stats('acme'), { items: 0, bytes: 0 })
    t.match(await store.stats(everyTenant), { items: 0, bytes: 0 })
  }, { maxSize: 10 })

  test('the store is reachable', async (_t, { store }) => {
    await store.ping(1000)
  })

  test('close may be called twice', async (_t, { store }) => {
    await store.close()
    await store.close()
  })
}
