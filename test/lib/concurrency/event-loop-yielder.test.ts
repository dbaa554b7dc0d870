import t from 'tap'
import type { Yielder } from '../../../lib/concurrency/event-loop-yielder.js'
import { startEventLoop } from './controlled-event-loop.js'

async function work (yielder: Yielder, pieces: number, piece: (index: number) => void): Promise<void> {
  for (let index = 0; index < pieces; index++) {
    if (yielder.shouldYield()) await yielder.yield()
    piece(index)
    yielder.done()
  }
}

t.test('twenty concurrent tasks hold no event loop round for longer than one turn', async (t) => {
  const loop = startEventLoop()
  const spent = new Map<number, number>()
  const order: number[] = []
  const all = Promise.all(Array.from({ length: 20 }, async (_, who) => {
    await work(loop.turns.yielder(''), 10, () => {
      loop.time += 1
      spent.set(loop.round, (spent.get(loop.round) ?? 0) + 1)
      order.push(who)
    })
  }))
  while (order.length < 200 && await loop.turn());
  await all
  t.equal(order.length, 200, 'all of the work was done')
  t.equal(Math.max(...spent.values()), 2, 'two pieces of 1 ms in a round')
  t.strictSame(order.slice(2, 42), Array.from({ length: 20 }, (_, who) => [who, who]).flat(), 'each in turn')
})

t.test('a round has one turn, shared by all tasks', async (t) => {
  const loop = startEventLoop()
  const yielder = loop.turns.yielder('')
  t.notOk(yielder.shouldYield())
  loop.time += 1
  t.notOk(yielder.shouldYield())
  loop.time += 1
  t.ok(yielder.shouldYield(), 'the turn is over')
  t.ok(loop.turns.yielder('tenant a').shouldYield(), 'for all')
  await loop.turn()
  t.notOk(yielder.shouldYield(), 'a new round')
  yielder.done()
  loop.time += 100
  t.notOk(yielder.shouldYield(), 'time between pieces does not count as work')
})

t.test('an account with long work pauses while other accounts send requests', async (t) => {
  const loop = startEventLoop()
  const starts: number[] = []
  const all = work(loop.turns.yielder('tenant a'), 20, () => {
    starts.push(loop.time)
    loop.time += 4
  })
  for (let round = 0; starts.length < 20 && round < 10_000; round++) {
    loop.time += 1
    loop.turns.noteRequest('tenant a')
    loop.turns.noteRequest('tenant b')
    await loop.turn()
  }
  await all
  const [first = Number.NaN] = starts
  const took = (starts.at(-1) ?? Number.NaN) + 4 - first
  t.ok(20 * 4 / took <= 0.25, `80 ms of work took ${took} ms: a fifth of the loop, and the first burst`)
  t.ok(took <= 600, 'the account is not starved')
})

t.test('work that does not wait for a turn counts like other work', async (t) => {
  const loop = startEventLoop()
  const yielder = loop.turns.yielder('tenant a')
  yielder.begin()
  yielder.done()
  for (const account of ['tenant a', 'tenant b']) loop.turns.noteRequest(account)
  yielder.begin()
  loop.time += 10
  yielder.done()
  await loop.turn()
  t.ok(yielder.shouldYield(), 'the account pauses')
  t.notOk(loop.turns.yielder('tenant b').shouldYield(), 'others do not')
})

t.test('an account with long work all the time gets a tenth of the loop', async (t) => {
  const loop = startEventLoop()
  const starts: number[] = []
  const all = work(loop.turns.yielder('tenant a'), 200, () => {
    starts.push(loop.time)
    loop.time += 4
  })
  for (let round = 0; starts.length < 200 && round < 100_000; round++) {
    loop.time += 1
    loop.turns.noteRequest('tenant a')
    loop.turns.noteRequest('tenant b')
    await loop.turn()
  }
  await all
  const later = starts.filter((start) => start >= 1000)
  const lasted = (later.at(-1) ?? Number.NaN) - 1000
  t.ok(later.length * 4 / lasted <= 0.12, `${later.length} pieces of 4 ms in ${lasted} ms`)
  t.ok(later.length * 4 / lasted >= 0.05, 'it is not starved')
})

t.test('an account does not pause if no other account sends requests', async (t) => {
  const loop = startEventLoop()
  const starts: number[] = []
  const all = work(loop.turns.yielder('tenant a'), 20, () => {
    starts.push(loop.time)
    loop.time += 4
  })
  for (let round = 0; starts.length < 20 && round < 100; round++) {
    loop.turns.noteRequest('tenant a')
    await loop.turn()
  }
  await all
  t.equal(loop.time, 80, 'its pieces ran without pauses')
})

t.test('a long piece causes a proportionally longer pause, and allocated memory counts as work', async (t) => {
  const pauseAfter = async (ms: number, bytes = 0): Promise<number> => {
    const loop = startEventLoop()
    loop.turns.noteRequest('tenant b')
    loop.turns.noteRequest('tenant a')
    const yielder = loop.turns.yielder('tenant a')
    yielder.shouldYield()
    loop.time += ms
    yielder.done(bytes)
    const ended = loop.time
    await loop.turn()
    while (yielder.shouldYield() && loop.time < 10_000) loop.time += 1
    return loop.time - ended
  }
  t.ok(await pauseAfter(8) > 2 * await pauseAfter(4), 'twice as long, more than twice the pause')
  t.ok(await pauseAfter(100) <= 250, 'the pause is bounded')
  t.equal(await pauseAfter(1, 2_097_152), await pauseAfter(7), 'a megabyte counts as 3 ms')
})

t.test("one account's work does not wait behind another account's queue", async (t) => {
  const loop = startEventLoop()
  const order: string[] = []
  loop.turns.noteRequest('tenant a')
  loop.turns.noteRequest('tenant b')
  const [a, b] = [loop.turns.yielder('tenant a'), loop.turns.yielder('tenant b')]
  const all = Array.from({ length: 50 }, async (_, index) =>
    await work(a, 1, () => {
      order.push(`a${index}`)
      loop.time += 4
    }))
  await loop.settle()
  t.equal(a.waiting, 49, 'all but the first wait')
  t.equal(b.waiting, 0)
  const other = work(b, 1, () => order.push('b'))
  for (let round = 0; round < 5_000 && order.length < 51; round++) {
    loop.time += 1
    loop.turns.noteRequest('tenant b')
    await loop.turn()
  }
  await Promise.all([...all, other])
  t.ok(order.indexOf('b') <= 2, `b is number ${order.indexOf('b') + 1} of 51`)
  t.equal(a.waiting, 0)
})

t.test("the server's own work never pauses", async (t) => {
  const loop = startEventLoop()
  loop.turns.noteRequest('tenant a')
  loop.turns.noteRequest('tenant b')
  let done = 0
  const all = work(loop.turns.yielder(''), 20, () => {
    done++
    loop.time += 10
  })
  for (let round = 0; round < 20; round++) await loop.turn()
  await all
  t.equal(done, 20)
  t.equal(loop.time, 200)
})

t.test('requests are counted during long work and for a second after it', async (t) => {
  const loop = startEventLoop()
  t.notOk(loop.turns.isActive)
  loop.turns.yielder('tenant a').shouldYield()
  t.ok(loop.turns.isActive)
  for (const seconds of [1, 2]) {
    loop.time = 1000 * seconds
    await loop.turn()
  }
  t.notOk(loop.turns.isActive)
  t.notOk(await loop.turn(), 'no timer remains')
})

t.test('work waits while connections arrive, at most 20 ms', async (t) => {
  const loop = startEventLoop()
  const starts: number[] = []
  const all = work(loop.turns.yielder('tenant a'), 4, () => {
    starts.push(loop.time)
    loop.time += 2
  })
  for (let round = 0; round < 30; round++) {
    loop.time += 1
    loop.turns.connected()
    await loop.turn()
  }
  t.match(starts, { length: 2 }, `the first piece, and one of those that wait: ${starts.join(', ')}`)
  for (let round = 0; round < 10; round++) await loop.turn()
  await all
  t.match(starts, { length: 4 }, 'without connections, a piece in each round')
})

t.test('new connections start no round without long work', async (t) => {
  const loop = startEventLoop()
  loop.turns.connected()
  t.notOk(loop.turns.isActive)
  t.notOk(await loop.turn())
})
