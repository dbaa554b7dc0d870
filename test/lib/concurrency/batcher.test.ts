import { test } from 'tap'
import { createBatcher } from '../../../lib/concurrency/batcher.js'

/** Work that ends on command with a recorded input. */
function held () {
  const begun: (readonly string[])[] = []
  const ends: ((error?: Error) => void)[] = []
  const run = createBatcher((items: readonly string[]) => {
    begun.push(items)
    return new Promise<string>((resolve, reject) => {
      ends.push((error) => error === undefined ? resolve(items.join()) : reject(error))
    })
  })
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  return {
    begun,
    run,
    turn,
    async end (error?: Error) {
      ends.shift()?.(error)
      await turn()
    }
  }
}

test('items that arrive during a batch form the next one, together and in order', async (t) => {
  const { begun, run, turn, end } = held()
  const first = run('a')
  await turn()
  const others = [run('b'), run('c')]
  await turn()
  t.strictSame(begun, [['a']], 'one at a time')
  await end()
  t.equal(await first, 'a')
  t.strictSame(begun, [['a'], ['b', 'c']])
  const last = run('d')
  await turn()
  t.strictSame(begun.length, 2, 'a new item does not join a running batch')
  await end()
  t.strictSame(await Promise.all(others), ['b,c', 'b,c'])
  await end()
  t.equal(await last, 'd')
})

test('a failed batch rejects its calls, and the next batch starts', async (t) => {
  const { begun, run, turn, end } = held()
  const failed = [run('a'), run('b')].map((done) => done.catch((error: unknown) => String(error)))
  await turn()
  const next = run('c')
  await end(new Error('away'))
  t.strictSame(await Promise.all(failed), ['Error: away', 'Error: away'])
  t.strictSame(begun, [['a', 'b'], ['c']])
  await end()
  t.equal(await next, 'c')
})
