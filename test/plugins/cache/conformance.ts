/** What every cache store keeps, whatever it is made of. Each adapter's test calls this with a way to make an empty store. */
import type { CacheStore } from '../../../plugins/cache/store.js'
import type { Test } from 'tap'
import { everyTenant } from '../../../plugins/cache/store.js'

export interface StoreUnderTest {
  readonly store: CacheStore
  /** Lets time pass, in milliseconds: a clock of the test's, or a wait where the store has a clock of its own. */
  readonly pass: (ms: number) => Promise<void> | void
}

const long = 60_000 // ms

export function testCacheStore (t: Test, create: () => Promise<StoreUnderTest> | StoreUnderTest): void {
  const test = (name: string, prove: (t: Test, under: StoreUnderTest) => Promise<void>) => {
    t.test(name, async (t) => {
      const under = await create()
      t.teardown(() => under.store.close())
      await prove(t, under)
    })
  }

  test('a value is found as it was set, until its time is over', async (t, { store, pass }) => {
    await store.set('acme', 'k', '{"a":"ü€😀"}', 1000)
    t.equal(await store.get('acme', 'k'), '{"a":"ü€😀"}')
    t.equal(await store.get('acme', 'other'), undefined)
    await pass(1100)
    t.equal(await store.get('acme', 'k'), undefined)
    t.same(await store.keys('acme'), [])
    t.match(await store.stats('acme'), { items: 0 })
  })

  test('setting a key again replaces value and time', async (t, { store, pass }) => {
    await store.set('acme', 'k', 'old', 500)
    await store.set('acme', 'k', 'new', long)
    await pass(600)
    t.equal(await store.get('acme', 'k'), 'new')
    t.match(await store.stats('acme'), { items: 1 })
  })

  test('the empty text is a value', async (t, { store }) => {
    await store.set('acme', 'k', '', long)
    t.equal(await store.get('acme', 'k'), '')
  })

  test('two tenants and the platform never share an item', async (t, { store }) => {
    const owners = ['', 'acme', 'globex']
    for (const owner of owners) await store.set(owner, 'k', `of ${owner}`, long)
    for (const owner of owners) t.equal(await store.get(owner, 'k'), `of ${owner}`)
    t.equal(await store.delete('acme', 'k'), true)
    t.equal(await store.delete('acme', 'k'), false)
    t.equal(await store.get('globex', 'k'), 'of globex')
    t.equal(await store.clear('globex'), 1)
    t.equal(await store.get('', 'k'), 'of ')
  })

  test('no key of one tenant reaches into another', async (t, { store }) => {
    await store.set('acme', 'k', 'secret', long)
    for (const [owner, key] of [['', 'acme:k'], ['acm', 'e:k'], ['acme', ':k'], ['', ':acme:k'], ['acme-2', 'k']] as const) {
      t.equal(await store.get(owner, key), undefined, `${owner} ${key}`)
    }
    await store.set('', 'acme:k', 'other', long)
    t.equal(await store.get('acme', 'k'), 'secret')
    t.same(await store.keys(''), ['acme:k'])
    t.equal(await store.clear(''), 1)
    t.equal(await store.get('acme', 'k'), 'secret')
  })

  test('keys are those of the tenant, as they were set, as many as asked for', async (t, { store }) => {
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
    t.equal(await store.get('acme', 'k'), undefined)
  })

  test('hits and misses are counted for the tenant and for all', async (t, { store }) => {
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

  test('it can be closed twice', async (_t, { store }) => {
    await store.close()
    await store.close()
  })
}
