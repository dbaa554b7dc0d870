import { type Test, test } from 'tap'
import { type Account, FairSemaphore } from '../../../lib/concurrency/fair-semaphore.js'
import { noTenant, serverRef, type TenantRef, tenantRef } from '../../../lib/identity/tenant-ref.js'

/** A semaphore, the order of admitted owners, and a function that releases one of them. */
function gateOf (t: Test, max: number, timeoutMs = 60_000) {
  const gate = new FairSemaphore(max, timeoutMs)
  t.teardown(() => gate.close())
  const inside: { name: string, account: Account }[] = []
  const passed: string[] = []
  return {
    gate,
    passed,
    enter (key: TenantRef, name: string = key, refused = () => {
      passed.push(`${name} refused`)
    }) {
      gate.acquire(key, (account) => {
        passed.push(name)
        inside.push({ name, account })
      }, refused)
    },
    leave (name = inside[0]?.name) {
      const [left] = inside.splice(inside.findIndex((one) => one.name === name), 1)
      gate.release(left!.account)
    }
  }
}

test('waiting owners are served in turn, the server itself first', async (t) => {
  const { gate, passed, enter, leave } = gateOf(t, 1)
  for (const name of ['a1', 'a2', 'a3']) enter(tenantRef('a'), name)
  enter(tenantRef('b'), 'b1')
  enter(noTenant, 'no tenant')
  enter(tenantRef('b'), 'b2')
  enter(serverRef, 'own')
  t.equal(gate.waiting, 6)
  for (let left = 0; left < 6; left++) leave()
  t.strictSame(passed, ['a1', 'own', 'b1', 'no tenant', 'a2', 'b2', 'a3'])
  leave()
  t.equal(gate.waiting, 0)
})

test('an account that returns a place waits behind those that already wait, although its next request came before theirs', async (t) => {
  const { passed, enter, leave } = gateOf(t, 2)
  for (const hostile of ['a', 'b']) for (const turn of [1, 2, 3]) enter(tenantRef(hostile), `${hostile}${turn}`)
  for (const other of ['c', 'd']) enter(tenantRef(other))
  leave('a1')
  leave('b1')
  t.strictSame(passed, ['a1', 'b1', 'c', 'd'])
  leave('c')
  leave('d')
  t.strictSame(passed.slice(4), ['a2', 'b2'])
})

test('one tenant never holds all connections, several tenants share them, and none stays unused', async (t) => {
  for (const [max, most] of [[1, 1], [2, 1], [4, 3], [5, 4], [10, 8], [100, 80]] as const) {
    const { passed, enter } = gateOf(t, max)
    for (let count = 0; count < 2 * max; count++) enter(tenantRef('a'))
    t.equal(passed.length, most, `${most} of ${max}`)
  }
  const { passed, enter, leave } = gateOf(t, 10)
  for (const tenant of ['a', 'b']) for (let count = 0; count < 20; count++) enter(tenantRef(tenant))
  t.strictSame(passed, [...Array(8).fill('a'), 'b'])
  for (let left = 0; left < 4; left++) leave('a')
  t.equal(passed.filter((tenant) => tenant === 'b').length, 4, 'connections that the greedy tenant releases go to the other until both hold the same number')
})

test('a call that waits too long is rejected, and all waiting calls are when the semaphore closes', async (t) => {
  const { gate, passed, enter, leave } = gateOf(t, 1, 1)
  enter(tenantRef('a'))
  await new Promise<void>((resolve) => enter(tenantRef('b'), 'b', resolve))
  t.equal(gate.waiting, 0)
  enter(tenantRef('c'))
  gate.close()
  t.strictSame(passed, ['a', 'c refused'])
  leave()
  enter(tenantRef('b'))
  t.strictSame(passed, ['a', 'c refused', 'b'])
})

test("an account's waiters share its place one by one, in order of arrival, until one cannot share", async (t) => {
  const gate = new FairSemaphore<TenantRef, string>(1, 60_000)
  const accounts: Account<TenantRef, string>[] = []
  const enter = (tenant: TenantRef, shared?: string) => gate.acquire(tenant, (account) => accounts.push(account), () => {}, shared)
  const [a, b] = [tenantRef('a'), tenantRef('b')]
  enter(a)
  enter(b, 'b1')
  for (const shared of ['a1', 'a2', undefined, 'a3']) enter(a, shared)
  const [place] = accounts
  t.strictSame([gate.join(place!), gate.join(place!), gate.join(place!)], ['a1', 'a2', undefined])
  t.equal(gate.waiting, 3)
  for (let served = 0; served < 3; served++) gate.release(accounts[served]!)
  t.strictSame(accounts.map(({ key }) => key), [a, b, a, a], 'those that shared are not served again')
  t.equal(gate.waiting, 0)
})

test('at most as many places as the limit are taken, a tenant leaves one of them, and a higher limit serves those that wait', async (t) => {
  const { gate, passed, enter, leave } = gateOf(t, 10)
  gate.limitTo(4)
  for (let count = 0; count < 9; count++) enter(tenantRef('a'))
  t.equal(passed.length, 3)
  for (const tenant of ['b', 'c']) enter(tenantRef(tenant))
  t.strictSame(passed.slice(3), ['b'])
  leave('b')
  t.strictSame(passed.slice(4), ['c'])
  gate.limitTo(6)
  t.strictSame(passed.slice(5), ['a', 'a'])
  gate.limitTo(2)
  for (let left = 0; left < 4; left++) leave()
  t.equal(passed.length, 7, 'a released place stays free while two are taken')
  gate.limitTo(100)
  for (let count = 0; count < 20; count++) enter(tenantRef(`d${count}`))
  t.equal(passed.length, 15, 'all ten places are taken')
})
