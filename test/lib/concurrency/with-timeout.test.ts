/** Work that ends within its timeout, and work that does not. */
import t from 'tap'
import { settlesWithin } from '../../../lib/concurrency/with-timeout.js'

const hour = 3_600_000 // ms
const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length

t.test('work that ends in time returns its result', async (t) => {
  const before = timers()
  t.equal(await settlesWithin(Promise.resolve('done'), hour), true)
  t.equal(timers(), before, 'no timer remains')
})

t.test('work that fails in time rejects with its error', async (t) => {
  const before = timers()
  await t.rejects(settlesWithin(Promise.reject(new Error('it failed')), hour), { message: 'it failed' })
  t.equal(timers(), before, 'no timer remains')
})

t.test('work that does not end rejects with the timeout', async (t) => {
  const endless = new Promise<void>(() => {})
  for (const ms of [1, 0, -5]) t.equal(await settlesWithin(endless, ms), false, `${ms} ms`)
})

t.test('work that fails after the timeout causes no unhandled rejection', async (t) => {
  let fail = (_reason: Error): void => {}
  const late = new Promise<void>((_resolve, reject) => {
    fail = reject
  })
  t.equal(await settlesWithin(late, 1), false)
  fail(new Error('too late'))
  await t.rejects(late, { message: 'too late' })
})
