/** Whoever works for long, however many there are: one turn in each round of the event loop. */
import t from 'tap'
import { createPace, createTurns } from '../../lib/pace.js'

/** Rounds that are begun by hand, and a clock. */
function world () {
  const state = { time: 0, round: 0 }
  const next: (() => void)[] = []
  const pace = createTurns(() => state.time, (work) => next.push(work))
  return {
    state,
    pace,
    /** What waits for the next round happens; false where nothing does. */
    async turn () {
      state.round++
      const works = next.splice(0)
      for (const work of works) work()
      for (let step = 0; step < 10; step++) await Promise.resolve()
      return works.length > 0
    }
  }
}

t.test('twenty who work at once hold no round longer than one of them: their turns added up', async (t) => {
  const { state, pace, turn } = world()
  const spent = new Map<number, number>()
  const order: number[] = []
  const work = async (who: number) => {
    for (let piece = 0; piece < 10; piece++) {
      if (pace.due()) await pace.rest()
      state.time += 4
      spent.set(state.round, (spent.get(state.round) ?? 0) + 4)
      order.push(who)
    }
  }
  const all = Promise.all(Array.from({ length: 20 }, (_, who) => work(who)))
  while (await turn());
  await all
  t.equal(order.length, 200, 'everything was done')
  t.equal(Math.max(...spent.values()), 8, 'two pieces of 4 ms each round')
  t.strictSame(order.slice(2, 42), Array.from({ length: 20 }, (_, who) => [who, who]).flat(), 'each in turn')
})

t.test('whoever arrives in a round in which somebody works has what is left of it', async (t) => {
  const { state, pace, turn } = world()
  t.notOk(pace.due())
  state.time += 3
  t.notOk(pace.due())
  state.time += 5
  t.ok(pace.due(), 'the turn is over')
  t.ok(pace.due(), 'for everybody')
  await turn()
  t.notOk(pace.due(), 'a new round')
  state.time += 100
  await turn()
  t.notOk(await turn(), 'nothing is left to do where nobody waits')
})

t.test('the paces of the process are one', async (t) => {
  t.equal(createPace(), createPace())
})
