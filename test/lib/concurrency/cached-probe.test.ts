import t from 'tap'
import { createCachedProbe } from '../../../lib/concurrency/cached-probe.js'

/** A manual clock, and the logged errors. */
function setting () {
  const errors: unknown[] = []
  let time = 0
  return {
    errors,
    forward (ms: number) {
      time += ms
    },
    options: {
      now: () => time,
      onError: (error: unknown) => {
        errors.push(error)
      }
    }
  }
}

t.test('a probe runs once in 5 seconds, for any number of callers', async (t) => {
  const { options, forward } = setting()
  let asked = 0
  const probe = createCachedProbe(async () => ++asked, options)
  t.strictSame(await Promise.all([probe(), probe(), probe()]), [1, 1, 1])
  forward(4999)
  t.equal(await probe(), 1)
  forward(1)
  t.equal(await probe(), 2)
})

t.test('a failed probe is not cached', async (t) => {
  const { options, forward, errors } = setting()
  let fails = false
  const probe = createCachedProbe(async () => {
    if (fails) throw new Error('away')
    return 'there'
  }, options)
  t.equal(await probe(), 'there')
  fails = true
  forward(5000)
  t.equal(await probe(), null, 'the previous result has expired')
  t.equal(await probe(), null)
  t.equal(errors.length, 1, 'once in 5 seconds, too')
  fails = false
  forward(5000)
  t.equal(await probe(), 'there')
})

t.test('a probe that throws instead of rejecting fails once, and runs again', async (t) => {
  const { options, forward, errors } = setting()
  let fails = true
  const probe = createCachedProbe(() => {
    if (fails) throw new Error('away')
    return Promise.resolve('there')
  }, options)
  t.equal(await probe(), null)
  t.match(errors, [{ message: 'away' }])
  fails = false
  forward(5000)
  t.equal(await probe(), 'there')
})

t.test('a probe that hangs is awaited for one second, and not started again meanwhile', async (t) => {
  const { options, forward } = setting()
  let asked = 0
  let settle = (_value: string) => {}
  const probe = createCachedProbe(() => {
    asked++
    return new Promise<string>((resolve) => {
      settle = resolve
    })
  }, options)
  t.equal(await probe(), null)
  forward(60_000)
  t.strictSame(await Promise.all([probe(), probe()]), [null, null], 'immediately, since its second is over')
  t.equal(asked, 1)
  settle('late')
  await new Promise((resolve) => setImmediate(resolve))
  const next = probe()
  t.equal(asked, 2, 'a late result has expired: the probe runs again')
  settle('there')
  t.equal(await next, 'there')
})

t.test('without a cache period, a call after a result probes again, and concurrent calls share one probe', async (t) => {
  const { options } = setting()
  let asked = 0
  const probe = createCachedProbe(async () => ++asked, { ...options, everyMs: 0 })
  t.strictSame(await Promise.all([probe(), probe()]), [1, 1])
  t.equal(await probe(), 2)
})
