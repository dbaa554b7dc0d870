import t from 'tap'
import { createRefusalPace } from '../../../plugins/rate-limit/refusal-pace.js'

t.test('refusals beyond a burst are 5 ms apart, up to a delay of a second', async (t) => {
  let now = 1000
  const pace = createRefusalPace(() => now)
  const next = (client = 'acme') => pace.next('tenant', client)
  t.strictSame(new Set(Array.from({ length: 100 }, () => next())), new Set([0]), 'a burst is not delayed')
  t.strictSame([next(), next(), next()], [5, 10, 15])
  t.strictSame([next('globex'), pace.next('address', 'acme')], [0, 0], 'other clients are not delayed')
  now += 15
  t.equal(next(), 5, 'in the time that has passed, three were sent')
  const flood = Array.from({ length: 10_000 }, () => next())
  t.strictSame([flood.at(200), flood.at(-1)], [1000, 1000])
  now += 1000
  t.strictSame([next(), next()], [5, 10], 'the flood is forgotten with its longest delay')
  now += 10_000
  t.strictSame(new Set(Array.from({ length: 100 }, () => next())), new Set([0]))
})
