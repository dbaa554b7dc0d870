import { setImmediate } from 'node:timers/promises'
import { hash } from '@node-rs/argon2'
import { test } from 'tap'
import { createWorkQueue } from '../../../lib/concurrency/work-queue.js'
import { platformRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createPasswords, isOutdated, passwordFault } from '../../../lib/secrets/passwords.js'

const busy = () => new Error('busy')

/** Work that ends on command, and the list of started work. */
function workshop (max: number, maxWaitingOfTenant: number, maxWaiting: number, timeoutMs = 60_000) {
  const queue = createWorkQueue({ max, maxWaiting, maxWaitingOfTenant, timeoutMs, busy })
  const begun: string[] = []
  const ends: (() => void)[] = []
  return {
    queue,
    begun,
    start: (tenant: string, name = tenant) =>
      queue.run(tenantRef(tenant), () => {
        begun.push(name)
        return new Promise<string>((resolve) => ends.push(() => resolve(name)))
      }),
    async end () {
      ends.shift()?.()
      await setImmediate()
    }
  }
}

test('only a limited number run at once, and tenants take turns', async (t) => {
  const { start, begun, end } = workshop(2, 100, 1000)
  const all = ['a1', 'a2', 'a3', 'a4', 'a5'].map((name) => start('a', name))
  all.push(start('b', 'b1'), start('', 'platform'), start('b', 'b2'))
  await setImmediate()
  t.strictSame(begun, ['a1', 'a2'], 'a single tenant may use all slots')
  for (let left = 0; left < 6; left++) await end()
  t.strictSame(begun, ['a1', 'a2', 'b1', 'platform', 'a3', 'b2', 'a4', 'a5'], 'a later tenant waits for one slot, not for all')
  await end()
  await end()
  t.strictSame((await Promise.all(all)).length, 8)
})

test('beyond the queue bounds, per tenant and in total, calls are rejected at once; failed work frees its slot', async (t) => {
  const { queue, start, begun, end } = workshop(1, 3, 5)
  const ran: Promise<unknown>[] = [start('a')]
  for (let count = 0; count < 3; count++) ran.push(start('a'))
  await t.rejects(start('a'), /^busy$/, 'the fourth of a tenant')
  for (let count = 0; count < 2; count++) ran.push(start('b'))
  await t.rejects(start('b'), /^busy$/, 'the sixth in total')
  ran.push(start('c'))
  await t.rejects(start('c'), /^busy$/, 'except the first of another tenant')
  await end()
  await end()
  await end()
  t.strictSame(begun, ['a', 'b', 'c', 'a'], 'its turn comes as if no others waited')
  for (let left = 0; left < 4; left++) await end()
  await Promise.all(ran)
  t.equal(begun.length, 7)
  await t.rejects(
    queue.run(tenantRef('a'), async () => {
      throw new Error('of the work')
    }),
    /of the work/
  )
  const last = start('a')
  await setImmediate()
  t.equal(begun.length, 8, 'its slot is free again')
  await end()
  await last
})

test('a call that waits too long, or until the close, is rejected', async (t) => {
  const { start, end } = workshop(1, 3, 5, 1)
  const first = start('a')
  await t.rejects(start('a'), /^busy$/)
  await end()
  await first
  const other = workshop(1, 3, 5)
  const running = other.start('a')
  const waiting = other.start('b')
  other.queue.close()
  await t.rejects(waiting, /^busy$/)
  await other.end()
  await running
})

test('a password matches only its own hash, in any Unicode normalization', async (t) => {
  const passwords = createPasswords()
  const password = 'caf\u00e9 cr\u00e8me 8'
  const stored = await passwords.hash(tenantRef('acme'), password)
  t.match(stored, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  t.not(await passwords.hash(tenantRef('acme'), password), stored, 'each has its own salt')
  t.equal(await passwords.verify(tenantRef('acme'), stored, password), true)
  t.equal(await passwords.verify(platformRef, stored, password.normalize('NFD')), true)
  for (
    const other of ['cafe creme 8', `${password} `, password.toUpperCase(), '', 'x'.repeat(2000), `${password}\ud800`, `${password}\0`]
  ) {
    t.equal(await passwords.verify(tenantRef('acme'), stored, other), false, JSON.stringify(other.slice(0, 30)))
  }
  const replaced = await passwords.hash(tenantRef('acme'), 'caf\ufffd cr\u00e8me 8')
  t.equal(await passwords.verify(tenantRef('acme'), replaced, 'caf\ud800 cr\u00e8me 8'), false, 'a lone surrogate does not equal the replacement character')
  t.equal(await passwords.verify(tenantRef('acme'), null, password), false, 'an unknown user never matches')
  t.equal(await passwords.verify(tenantRef('acme'), null, ''), false)
})

test('a new password must meet the rules', async (t) => {
  const right = ['12345678', 'x'.repeat(256), '\u{1f600}'.repeat(256), '\0'.repeat(8), ' '.repeat(8), '\ud55c'.normalize('NFD').repeat(256)]
  for (const password of right) t.equal(passwordFault(password), null, JSON.stringify(password.slice(0, 20)))
  for (const password of ['', '1234567', '\u{1f600}'.repeat(7), 'e\u0301'.repeat(7)]) {
    t.equal(passwordFault(password), 'must have at least 8 characters')
  }
  for (const password of ['x'.repeat(257), 'x'.repeat(1_000_000)]) t.equal(passwordFault(password), 'must have at most 256 characters')
  t.equal(passwordFault('1234567\ud800'), 'must be well-formed Unicode')
})

test('a hash with a lower cost is recognized', async (t) => {
  const outdated = [{ memoryCost: 9728, timeCost: 2 }, { memoryCost: 19_456, timeCost: 1 }, {
    memoryCost: 19_456,
    timeCost: 2,
    outputLen: 16
  }]
  for (const options of outdated) t.equal(await isOutdated(await hash('password', options)), true, JSON.stringify(options))
  t.equal(await isOutdated(await hash('password', { memoryCost: 20_000, timeCost: 3 })), false)
  t.equal(await isOutdated(await createPasswords().hash(platformRef, 'password')), false)
})
