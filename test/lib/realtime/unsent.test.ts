/** Waits for slow clients. */
import { type Test, test } from 'tap'
import { drain, littleUnsentBytes } from '../../../lib/realtime/unsent.js'

/** Moves the monotonic clock on with each check of the bytes, which are the next of the list, then the last one. */
function checks (t: Test, list: readonly number[], msEach: number) {
  const { now } = performance
  const counted = { checks: 0 }
  let ahead = 0
  t.intercept(performance, 'now', { value: () => now.call(performance) + ahead })
  return {
    counted,
    unsent: () => {
      ahead += msEach
      return list[Math.min(counted.checks++, list.length - 1)] ?? 0
    }
  }
}

test('a wait ends when little is unsent', async (t) => {
  const { counted, unsent } = checks(t, [900_000, 900_000, littleUnsentBytes], 1000)
  t.equal(await drain(unsent), true)
  t.equal(counted.checks, 3)
})

test('a wait ends after 30 seconds in which nothing was read, also if more is sent', async (t) => {
  const { counted, unsent } = checks(t, [400_000, 500_000, 600_000], 10_000)
  t.equal(await drain(unsent), false)
  t.equal(counted.checks, 4)
})

test('a client that reads slowly has more time', async (t) => {
  const { counted, unsent } = checks(t, [900_000, 950_000, 800_000, 850_000, 700_000, 650_000, 600_000, 200_000], 20_000)
  t.equal(await drain(unsent), true)
  t.equal(counted.checks, 8)
})
