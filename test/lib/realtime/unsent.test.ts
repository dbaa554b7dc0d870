/** Bounds of unread messages. */
import { type Test, test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createUnsentBytes, drain, littleUnsentBytes } from '../../../lib/realtime/unsent.js'

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

test('a connection has at most 1 MB of unsent bytes, and the connections of a tenant 64 MB', async (t) => {
  const all = createUnsentBytes()
  const connections = Array.from({ length: 70 }, () => all.of(tenantRef('acme')))
  const [first, second] = connections
  t.equal(first?.admits(1_048_577, 1), false)
  first?.release()
  t.equal(connections.filter((connection) => connection.admits(1_000_000, 10)).length, 67, 'refused ones count what they have')
  for (let again = 0; again < 2; again++) t.equal(second?.admits(1_000_000, 10), false)
  t.equal(second?.admits(5_536, 60_000), true, 'little is always sent')
  t.equal(second?.admits(65_536, 60_000), false)
  t.equal(all.of(tenantRef('globex')).admits(1_000_000, 10), true, 'another tenant has its own')
  for (const { release } of connections) release()
  t.equal(first?.admits(1_000_000, 10), true)
})

test('a large message counts, also to a connection without unsent bytes', async (t) => {
  const all = createUnsentBytes()
  const connections = Array.from({ length: 70 }, () => all.of(tenantRef('acme')))
  t.equal(connections.filter((connection) => connection.admits(0, 1_000_000)).length, 67)
  for (const connection of connections) connection.update(0)
  t.equal(connections.filter((connection) => connection.admits(0, 1_000_000)).length, 67, 'what the network has taken does not count')
})

test('beyond the bytes of all tenants, only those with more than an equal share are refused', async (t) => {
  const all = createUnsentBytes()
  const connect = (tenant: string, count: number) => Array.from({ length: count }, () => all.of(tenantRef(tenant)).admits(1_000_000, 10))
  for (const tenant of ['a', 'b', 'c', 'd']) t.ok(connect(tenant, 67).every((isAdmitted) => isAdmitted))
  t.same(connect('e', 53), Array.from({ length: 53 }, () => true))
  t.same(connect('e', 1), [false])
  t.same(connect('f', 1), [true])
})
