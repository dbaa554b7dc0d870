/** Pollers of the database: the time of the next poll, and the log entries of failed ones. */
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { databaseBusy, databaseUnavailable } from '../../../lib/database/failures.js'
import { createPoller, type Poller } from '../../../lib/database/poller.js'
import { until } from '../../helpers/until.js'

const hour = 3_600_000 // ms

/** A poller whose polls end with the given results in order, and afterwards find nothing for an hour. */
function polled (results: readonly (number | Error | ((poller: Poller) => number))[]) {
  const ending = new AbortController()
  const state = { looks: 0 }
  const logged: string[] = []
  const poller = createPoller({
    async poll () {
      const result = results[state.looks++] ?? hour
      if (result instanceof Error) throw result
      return typeof result === 'number' ? result : result(poller)
    },
    signal: ending.signal,
    log: { info: (_details, message) => logged.push(message), warn: (_details, message) => logged.push(message) },
    messages: { failed: 'it fails', again: 'it is done again' }
  })
  return { poller, ending, state, logged }
}

t.test('polls again at once while there is more work, after the pause, and when it is woken', async (t) => {
  const { poller, ending, state, logged } = polled([0, 0, 5, -1])
  poller.start()
  await until('the unannounced polls', async () => state.looks === 5)
  poller.wake()
  await until('the next poll', async () => state.looks === 6)
  ending.abort()
  await poller.ended()
  t.equal(state.looks, 6, 'none after the end')
  t.same(logged, [])
})

t.test('a wake during a poll causes another poll', async () => {
  const { poller, ending, state } = polled([(own) => {
    own.wake()
    return hour
  }])
  poller.start()
  await until('the second poll', async () => state.looks === 2)
  ending.abort()
  await poller.ended()
})

t.test('an outage is logged once, and a short time of a busy database is not logged', async (t) => {
  const { poller, ending, state, logged } = polled([databaseBusy(), databaseUnavailable()])
  poller.start()
  await until('the busy poll', async () => state.looks === 1)
  t.same(logged, [])
  await until('the next poll', async () => state.looks === 2)
  t.same(logged, ['it fails'])
  poller.failed(databaseUnavailable())
  t.same(logged, ['it fails'], 'once')
  poller.wake()
  await setImmediate()
  t.equal(state.looks, 2, 'a wake does not shorten the pause')
  ending.abort()
  await poller.ended()
  t.equal(state.looks, 2)
})

t.test('a database that stays busy is logged once, since a worker has no requests that report it', async (t) => {
  const { poller, ending, state, logged } = polled(Array.from({ length: 6 }, () => databaseBusy()))
  poller.failed(databaseBusy())
  poller.start()
  await until('the fourth poll', async () => state.looks === 4)
  t.same(logged, [])
  await until('the poll that finds it free', async () => state.looks === 7)
  t.same(logged, ['it fails', 'it is done again'])
  poller.failed(databaseBusy())
  t.same(logged, ['it fails', 'it is done again'], 'and a short time after it is not logged')
  ending.abort()
  await poller.ended()
})

t.test('a recovery is logged, and so is the next failure', async (t) => {
  const { poller, ending, state, logged } = polled([databaseUnavailable()])
  poller.start()
  await until('the poll after the outage', async () => state.looks === 2)
  t.same(logged, ['it fails', 'it is done again'])
  poller.failed(new Error('another'))
  t.same(logged, ['it fails', 'it is done again', 'it fails'])
  ending.abort()
  await poller.ended()
})

t.test('stops while it waits after a failure', async (t) => {
  const { poller, ending, state, logged } = polled([new Error('a table is missing')])
  poller.start()
  await until('the fault', async () => logged.length === 1)
  ending.abort()
  await poller.ended()
  t.equal(state.looks, 1)
})
