import { setImmediate as nextRound } from 'node:timers/promises'
import { test } from 'tap'
import { createUseCounter, type KeyUse } from '../../../lib/concurrency/use-counter.js'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'

test('uses that cannot be written are kept, those of further keys are dropped, and both are logged', async (t) => {
  const written: KeyUse[] = []
  const logged: string[] = []
  let isBroken = true
  const uses = createUseCounter({
    noun: 'keys',
    flushAfter: 60_000,
    maxKeys: 2,
    async write (batch) {
      if (isBroken) throw new Error('the database is away')
      written.push(...batch)
    },
    log: { warn: (_object, message) => logged.push(message) }
  })
  const [acme, globex] = [tenantIdOf('acme'), tenantIdOf('globex')]
  uses.count(acme, 'a', 1)
  await uses.flush()
  t.equal(uses.lastUse(acme, 'a'), 1)
  t.equal(uses.lastUse(globex, 'a'), undefined, 'of another tenant')
  uses.count(acme, 'a', 3)
  uses.count(globex, 'a', 2)
  uses.count(globex, 'b', 2)
  await uses.flush()
  isBroken = false
  await uses.close()
  t.same(written, [
    { tenant: acme, key: 'a', count: 2, lastAt: new Date(3) },
    { tenant: globex, key: 'a', count: 1, lastAt: new Date(2) }
  ])
  t.same(logged, [
    'uses of keys could not be written; they are kept',
    'uses of keys could not be written; they are kept',
    'uses of keys were not counted: too many waited for the database'
  ])
  t.equal(uses.lastUse(acme, 'a'), undefined)
})

test('uses of more keys than may wait are written before the time is over, unless the writes fail', async (t) => {
  const acme = tenantIdOf('acme')
  const written = new Set<string>()
  let attempts = 0
  let isBroken = false
  const uses = createUseCounter({
    noun: 'keys',
    flushAfter: 3_600_000, // ms; the test is over before
    maxKeys: 10_000,
    async write (batch) {
      attempts++
      if (isBroken) throw new Error('the database is away')
      for (const { key } of batch) written.add(key)
    },
    log: { warn () {} }
  })
  async function use (prefix: string): Promise<void> {
    for (let key = 0; key < 12_000; key++) {
      uses.count(acme, `${prefix} ${key}`, key)
      if (key % 1000 === 0) await nextRound()
    }
  }

  await use('first')
  await uses.flush()
  t.equal(written.size, 12_000)

  isBroken = true
  attempts = 0
  await use('second')
  t.equal(attempts, 1, 'after a failure the timer decides')
  isBroken = false
  await uses.flush()
  t.equal(written.size, 22_000, 'the uses of further keys are not counted')

  await use('third')
  await uses.close()
  t.equal(written.size, 34_000)
})
