import { test } from 'tap'
import { type Lookup, sharedLookup } from '../../../lib/concurrency/shared-lookup.js'

/** A resolver that answers when the test does. */
function names () {
  const waiting: { hostname: string, answer: (addresses: string[]) => void, fail: (error: Error) => void }[] = []
  const take = (hostname: string) => {
    const index = waiting.findIndex((each) => each.hostname === hostname)
    const [question] = waiting.splice(index, 1)
    if (index < 0 || question === undefined) throw new Error(`${hostname} was not asked for`)
    return question
  }
  return {
    ask: ((hostname) => new Promise((resolve, reject) => waiting.push({ hostname, answer: resolve, fail: reject }))) satisfies Lookup,
    waiting: () => waiting.map(({ hostname }) => hostname),
    answer: (hostname: string, ...addresses: string[]) => take(hostname).answer(addresses),
    fail: (hostname: string) => take(hostname).fail(new Error('no name server answers'))
  }
}

const turn = () => new Promise(setImmediate)

test('a name without an answer is looked up once for all callers', async (t) => {
  const server = names()
  const lookup = sharedLookup(server.ask)
  const found = Promise.all([lookup('one.test'), lookup('one.test'), lookup('one.test')])
  const other = lookup('other.test')
  t.same(server.waiting(), ['one.test', 'other.test'])
  server.answer('one.test', '10.0.0.1', '::1')
  t.same(await found, Array(3).fill(['10.0.0.1', '::1']))
  const later = lookup('one.test')
  t.same(server.waiting(), ['other.test', 'one.test'], 'a later caller asks again')
  server.answer('one.test', '10.0.0.2')
  t.same(await later, ['10.0.0.2'])
  server.fail('other.test')
  await t.rejects(other, { message: 'no name server answers' })
})

test('slow names wait for each other, and other names do not', async (t) => {
  const server = names()
  let time = 0
  const lookup = sharedLookup(server.ask, () => time)
  const slow = ['a.test', 'b.test', 'c.test']
  const first = slow.map(lookup)
  time = 10_000
  for (const name of slow) server.fail(name)
  await Promise.allSettled(first)
  const again = [...slow, 'quick.test'].map(lookup)
  await turn()
  t.same(server.waiting(), ['quick.test', 'a.test'])
  server.answer('a.test', '10.0.0.1')
  await turn()
  t.same(server.waiting(), ['quick.test', 'b.test'], 'one slow name at a time')
  lookup('a.test').catch(() => {})
  t.same(server.waiting(), ['quick.test', 'b.test', 'a.test'], 'a name that was answered in time is no longer slow')
  server.fail('b.test')
  await t.rejects(async () => await again[1], { message: 'no name server answers' })
  await turn()
  t.same(server.waiting(), ['quick.test', 'a.test', 'c.test'], 'a failure lets the next name go on')
})
