import { test } from 'tap'
import { createAsyncCache } from '../../../lib/cache/async-cache.js'
import { until } from '../../helpers/until.js'

/** A source whose reads the test completes by hand, in any order. */
function source () {
  const reads: { key: string, resolve: (text: string) => void, fail: (error: Error) => void }[] = []
  const load = (key: string) =>
    new Promise<{ text: string }>((resolve, reject) => {
      reads.push({ key, resolve: (text) => resolve({ text }), fail: reject })
    })
  const started = async (count: number) => {
    while (reads.length < count) await null
  }
  return { reads, load, started }
}

test('concurrent callers share one read, and a cached value is returned synchronously', async (t) => {
  const { reads, load, started } = source()
  const cache = createAsyncCache({ max: 10, load })
  const both = Promise.all([cache.get('a'), cache.get('a')])
  await started(1)
  reads[0]?.resolve('one')
  t.strictSame(await both, [{ text: 'one' }, { text: 'one' }])
  t.strictSame(cache.get('a'), { text: 'one' })
  t.equal(reads.length, 1)
})

test('a change during a read restarts the read, and no caller gets the old value', async (t) => {
  const { reads, load, started } = source()
  const cache = createAsyncCache({ max: 10, load })
  const before = cache.get('a')
  await started(1)
  cache.invalidate('a')
  const after = cache.get('a')
  reads[0]?.resolve('old')
  await started(2)
  t.equal(cache.peek('a'), undefined)
  reads[1]?.resolve('new')
  t.strictSame([await before, await after], [{ text: 'new' }, { text: 'new' }])
  t.strictSame(cache.get('a'), { text: 'new' })
})

test('if a key changes faster than it is read, each read answers only the calls from before its start', async (t) => {
  const { reads, load, started } = source()
  const cache = createAsyncCache({ max: 10, load })
  let waiting: unknown[] = []
  for (let round = 0; round < 5; round++) {
    if (round > 0) await started(round + 1)
    const before = cache.get('a')
    await started(round + 1)
    cache.invalidate('a')
    const after = cache.get('a')
    reads[round]?.resolve(`read ${round}`)
    if (round > 0) t.strictSame(await Promise.all(waiting), [{ text: `read ${round}` }, { text: `read ${round}` }])
    t.equal(cache.peek('a'), undefined)
    waiting = [before, after]
  }
  await started(6)
  reads[5]?.resolve('read 5')
  t.strictSame(await Promise.all(waiting), [{ text: 'read 5' }, { text: 'read 5' }])
  t.strictSame(cache.get('a'), { text: 'read 5' })
  t.equal(reads.length, 6)
})

test('if a key is renewed faster than it is read, each finished read replaces the previous value', async (t) => {
  const { reads, load, started } = source()
  const cache = createAsyncCache({ max: 10, load })
  const first = cache.get('a')
  await started(1)
  reads[0]?.resolve('read 0')
  await first
  let renewed = cache.refresh('a')
  for (let round = 1; round < 5; round++) {
    await started(round + 1)
    t.strictSame(cache.get('a'), { text: `read ${round - 1}` })
    const again = cache.refresh('a')
    reads[round]?.resolve(`read ${round}`)
    if (round > 1) t.strictSame(await renewed, { text: `read ${round}` })
    renewed = again
  }
  await started(6)
  t.strictSame(cache.get('a'), { text: 'read 4' })
  reads[5]?.resolve('read 5')
  t.strictSame(await renewed, { text: 'read 5' })
  t.strictSame(cache.get('a'), { text: 'read 5' })
})

test('a failed read after a change rejects only the calls that wait for it', async (t) => {
  const { reads, load, started } = source()
  const cache = createAsyncCache({ max: 10, load })
  const first = cache.get('a')
  await started(1)
  cache.invalidate('a')
  reads[0]?.resolve('old')
  await started(2)
  cache.invalidate('a')
  reads[1]?.fail(new Error('the source is down'))
  await t.rejects(Promise.resolve(first), { message: 'the source is down' })
  const second = cache.get('a')
  await started(3)
  reads[2]?.resolve('new')
  t.strictSame(await second, { text: 'new' })
})

test('clear invalidates every key, including those being read', async (t) => {
  const { reads, load, started } = source()
  const cache = createAsyncCache({ max: 10, load })
  const first = cache.get('a')
  await started(1)
  reads[0]?.resolve('one')
  await first
  const reading = cache.get('b')
  await started(2)
  cache.clear()
  reads[1]?.resolve('old')
  await started(3)
  reads[2]?.resolve('new')
  t.strictSame(await reading, { text: 'new' })
  t.equal(cache.peek('a'), undefined)
})

test('the old value is returned during a renewal, and stays if the renewal fails', async (t) => {
  const { reads, load, started } = source()
  const cache = createAsyncCache({ max: 10, load })
  const first = cache.get('a')
  await started(1)
  reads[0]?.resolve('old')
  await first
  const failing = cache.refresh('a')
  await started(2)
  t.strictSame(cache.get('a'), { text: 'old' })
  reads[1]?.fail(new Error('the source is down'))
  await t.rejects(failing, { message: 'the source is down' })
  t.strictSame(cache.get('a'), { text: 'old' })
  const renewed = cache.refresh('a')
  await started(3)
  reads[2]?.resolve('new')
  await renewed
  t.strictSame(cache.get('a'), { text: 'new' })
})

test('a failed read is not cached: the next caller reads again', async (t) => {
  const { reads, load, started } = source()
  const cache = createAsyncCache({ max: 10, load })
  const first = cache.get('a')
  await started(1)
  reads[0]?.fail(new Error('the source is down'))
  await t.rejects(Promise.resolve(first), { message: 'the source is down' })
  const second = cache.get('a')
  await started(2)
  reads[1]?.resolve('one')
  t.strictSame(await second, { text: 'one' })
})

test('the total weight of values is bounded, and a value over the bound is read each time', async (t) => {
  let reads = 0
  const cache = createAsyncCache({
    max: 100,
    load: async (key) => ({ key, read: ++reads }),
    weight: { max: 10, of: ({ key }) => key.length }
  })
  for (const key of ['aaaa', 'bbbb', 'cc']) await cache.get(key)
  t.equal(cache.size, 3)
  await cache.get('d')
  t.equal(cache.peek('aaaa'), undefined, 'the oldest value is evicted')
  t.equal(cache.size, 3)
  const large = 'e'.repeat(11)
  t.match(await cache.get(large), { read: 5 })
  t.match(await cache.get(large), { read: 6 })
  t.equal(cache.size, 3, 'the others stay')

  const few = createAsyncCache({ max: 2, load: async (key) => ({ key }), weight: { max: 10, of: () => 1 } })
  for (const key of ['a', 'b']) await few.get(key)
  few.get('a')
  await few.get('c')
  t.strictSame(
    ['a', 'b', 'c'].map((key) => few.peek(key) !== undefined),
    [true, false, true],
    'the number of light values is bounded too'
  )
})

test('the least recently used values are evicted first, and a value expires at its age', async (t) => {
  let time = 1000
  const cache = createAsyncCache({ max: 2, load: async (key) => ({ key, time }), maxAgeMs: 500, now: () => time })
  for (const key of ['a', 'b', 'a', 'c']) await cache.get(key)
  t.equal(cache.size, 2)
  t.equal(cache.peek('b'), undefined)
  t.strictSame(cache.get('a'), { key: 'a', time: 1000 })
  time = 1501
  t.strictSame(await cache.get('a'), { key: 'a', time: 1501 })
})

test('an unused value does not stay in memory beyond its age', async (t) => {
  const cache = createAsyncCache({ max: 10, maxAgeMs: 20, load: async () => ({}) })
  await cache.get('a')
  t.equal(cache.size, 1)
  await until('it is removed', () => cache.size === 0)
})
