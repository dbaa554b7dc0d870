import t from 'tap'
import type { Yielder } from '../../../lib/concurrency/event-loop-yielder.js'
import { startPaces } from './paces.js'

async function work ({ shouldYield: due, yield: rest, done }: Yielder, pieces: number, piece: (index: number) => void): Promise<void> {
  for (let index = 0; index < pieces; index++) {
    if (due()) await rest()
    piece(index)
    done()
  }
}

t.test('twenty concurrent tasks hold no event loop round for longer than one turn', async (t) => {
  const paces = startPaces()
  const spent = new Map<number, number>()
  const order: number[] = []
  const all = Promise.all(Array.from({ length: 20 }, async (_, who) => {
    await work(paces.turns.yielder(''), 10, () => {
      paces.time += 1
      spent.set(paces.round, (spent.get(paces.round) ?? 0) + 1)
      order.push(who)
    })
  }))
  while (order.length < 200 && await paces.turn());
  await all
  t.equal(order.length, 200, 'all of the work was done')
  t.equal(Math.max(...spent.values()), 2, 'two pieces of 1 ms in a round')
  t.strictSame(order.slice(2, 42), Array.from({ length: 20 }, (_, who) => [who, who]).flat(), 'each in turn')
})

t.test('a round has one turn, shared by all tasks', async (t) => {
  const paces = startPaces()
  const yielder = paces.turns.yielder('')
  t.notOk(yielder.shouldYield())
  paces.time += 1
  t.notOk(yielder.shouldYield())
  paces.time += 1
  t.ok(yielder.shouldYield(), 'the turn is over')
  t.ok(paces.turns.yielder('tenant a').shouldYield(), 'for all')
  await paces.turn()
  t.notOk(yielder.shouldYield(), 'a new round')
  yielder.done()
  paces.time += 100
  t.notOk(yielder.shouldYield(), 'time between pieces does not count as work')
})

t.test('an account with long work pauses while other accounts send requests', async (t) => {
  const paces = startPaces()
  const starts: number[] = []
  const all = work(paces.turns.yielder('tenant a'), 20, () => {
    starts.push(paces.time)
    paces.time += 4
  })
  for (let round = 0; starts.length < 20 && round < 10_000; round++) {
    paces.time += 1
    paces.turns.noteRequest('tenant a')
    paces.turns.noteRequest('tenant b')
    await paces.turn()
  }
  await all
  const [first = Number.NaN] = starts
  const took = (starts.at(-1) ?? Number.NaN) + 4 - first
  t.ok(20 * 4 / took <= 0.25, `80 ms of work took ${took} ms: a fifth of the loop, and the first burst`)
  t.ok(took <= 600, 'the account is not starved')
})

t.test('work that does not wait for a turn counts like other work', async (t) => {
  const paces = startPaces()
  const yielder = paces.turns.yielder('tenant a')
  yielder.begin()
  yielder.done()
  for (const account of ['tenant a', 'tenant b']) paces.turns.noteRequest(account)
  yielder.begin()
  paces.time += 10
  yielder.done()
  await paces.turn()
  t.ok(yielder.shouldYield(), 'the account pauses')
  t.notOk(paces.turns.yielder('tenant b').shouldYield(), 'others do not')
})

t.test('an account with long work all the time gets a tenth of the loop', async (t) => {
  const paces = startPaces()
  const starts: number[] = []
  const all = work(paces.turns.yielder('tenant a'), 200, () => {
    starts.push(paces.time)
    paces.time += 4
  })
  for (let round = 0; starts.length < 200 && round < 100_000; round++) {
    paces.time += 1
    paces.turns.noteRequest('tenant a')
    paces.turns.noteRequest('tenant b')
    await paces.turn()
  }
  await all
  const later = starts.filter((start) => start >= 1000)
  const lasted = (later.at(-1) ?? Number.NaN) - 1000
  t.ok(later.length * 4 / lasted <= 0.12, `${later.length} pieces of 4 ms in ${lasted} ms`)
  t.ok(later.length * 4 / lasted >= 0.05, 'it is not starved')
})

t.test('an account does not pause if no other account sends requests', async (t) => {
  const paces = startPaces()
  const starts: number[] = []
  const all = work(paces.turns.yielder('tenant a'), 20, () => {
    starts.push(paces.time)
    paces.time += 4
  })
  for (let round = 0; starts.length < 20 && round < 100; round++) {
    paces.turns.noteRequest('tenant a')
    await paces.turn()
  }
  await all
  t.equal(paces.time, 80, 'its pieces ran without pauses')
})

t.test('a long piece causes a proportionally longer pause, and allocated memory counts as work', async (t) => {
  const pauseAfter = async (ms: number, bytes = 0): Promise<number> => {
    const paces = startPaces()
    paces.turns.noteRequest('tenant b')
    paces.turns.noteRequest('tenant a')
    const yielder = paces.turns.yielder('tenant a')
    yielder.shouldYield()
    paces.time += ms
    yielder.done(bytes)
    const ended = paces.time
    await paces.turn()
    while (yielder.shouldYield() && paces.time < 10_000) paces.time += 1
    return paces.time - ended
  }
  t.ok(await pauseAfter(8) > 2 * await pauseAfter(4), 'twice as long, more than twice the pause')
  t.ok(await pauseAfter(100) <= 250, 'the pause is bounded')
  t.equal(await pauseAfter(1, 2_097_152), await pauseAfter(7), 'a megabyte counts as 3 ms')
})

t.test("one account's work does not wait behind another account's queue", async (t) => {
  const paces = startPaces()
  const order: string[] = []
  paces.turns.noteRequest('tenant a')
  paces.turns.noteRequest('tenant b')
  const [a, b] = [paces.turns.yielder('tenant a'), paces.turns.yielder('tenant b')]
  const all = Array.from({ length: 50 }, async (_, index) =>
    await work(a, 1, () => {
      order.push(`a${index}`)
      paces.time += 4
    }))
  await paces.settle()
  t.equal(a.waiting, 49, 'all but the first wait')
  t.equal(b.waiting, 0)
  const other = work(b, 1, () => order.push('b'))
  for (let round = 0; round < 5_000 && order.length < 51; round++) {
    paces.time += 1
    paces.turns.noteRequest('tenant b')
    await paces.turn()
  }
  await Promise.all([...all, other])
  t.ok(order.indexOf('b') <= 2, `b is number ${order.indexOf('b') + 1} of 51`)
  t.equal(a.waiting, 0)
})

t.test("the server's own work never pauses", async (t) => {
  const paces = startPaces()
  paces.turns.noteRequest('tenant a')
  paces.turns.noteRequest('tenant b')
  let done = 0
  const all = work(paces.turns.yielder(''), 20, () => {
    done++
    paces.time += 10
  })
  for (let round = 0; round < 20; round++) await paces.turn()
  await all
  t.equal(done, 20)
  t.equal(paces.time, 200)
})

t.test('requests are counted during long work and for a second after it', async (t) => {
  const paces = startPaces()
  t.notOk(paces.turns.isActive)
  paces.turns.yielder('tenant a').shouldYield()
  t.ok(paces.turns.isActive)
  for (const seconds of [1, 2]) {
    paces.time = 1000 * seconds
    await paces.turn()
  }
  t.notOk(paces.turns.isActive)
  t.notOk(await paces.turn(), 'no timer remains')
})

t.test('work waits while connections arrive, at most 20 ms', async (t) => {
  const paces = startPaces()
  const starts: number[] = []
  const all = work(paces.turns.yielder('tenant a'), 4, () => {
    starts.push(paces.time)
    paces.time += 2
  })
  for (let round = 0; round < 30; round++) {
    paces.time += 1
    paces.turns.connected()
    await paces.turn()
  }
  t.match(starts, { length: 2 }, `the first piece, and one of those that wait: ${starts.join(', ')}`)
  for (let round = 0; round < 10; round++) await paces.turn()
  await all
  t.match(starts, { length: 4 }, 'without connections, a piece in each round')
})

t.test('new connections start no round without long work', async (t) => {
  const paces = startPaces()
  paces.turns.connected()
  t.notOk(paces.turns.isActive)
  t.notOk(await paces.turn())
})
