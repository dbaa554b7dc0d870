import { test, type Test } from 'tap'
import { sql, type Kysely } from 'kysely'
import pg from 'pg'
import type { SystemTables } from '../../../lib/database/system-tables.js'
import { FairGate, type Party } from '../../../lib/database/fair-gate.js'
import { nobody, openEngine } from './open.js'
import { postgresDatabase } from '../../helpers/postgres.js'

/** A gate, who has passed it in which order, and a way for one of them to leave. */
function gateOf (t: Test, max: number, timeoutMs = 60_000) {
  const gate = new FairGate(max, timeoutMs)
  t.teardown(() => gate.close())
  const inside: { name: string, party: Party }[] = []
  const passed: string[] = []
  return {
    gate,
    passed,
    enter (key: string | null | undefined, name = String(key), refused = () => { passed.push(`${name} refused`) }) {
      gate.enter(key, (party) => {
        passed.push(name)
        inside.push({ name, party })
      }, refused)
    },
    leave (name = inside[0]?.name) {
      const [left] = inside.splice(inside.findIndex((one) => one.name === name), 1)
      gate.leave(left!.party)
    }
  }
}

test('whoever waits is served in turn, the server itself first', async (t) => {
  const { gate, passed, enter, leave } = gateOf(t, 1)
  for (const name of ['a1', 'a2', 'a3']) enter('a', name)
  enter('b', 'b1')
  enter(null, 'nobody')
  enter('b', 'b2')
  enter(undefined, 'own')
  t.equal(gate.waiting, 6)
  for (let left = 0; left < 6; left++) leave()
  t.strictSame(passed, ['a1', 'own', 'a2', 'b1', 'nobody', 'a3', 'b2'])
  leave()
  t.equal(gate.waiting, 0)
})

test('one tenant never has all connections, several share them, and all are used', async (t) => {
  for (const [max, most] of [[1, 1], [2, 1], [4, 3], [5, 4], [10, 8], [100, 80]] as const) {
    const { passed, enter } = gateOf(t, max)
    for (let count = 0; count < 2 * max; count++) enter('a')
    t.equal(passed.length, most, `${most} of ${max}`)
  }
  const { passed, enter, leave } = gateOf(t, 10)
  for (const tenant of ['a', 'b']) for (let count = 0; count < 20; count++) enter(tenant)
  t.strictSame(passed, [...Array(8).fill('a'), 'b'])
  for (let left = 0; left < 4; left++) leave('a')
  t.equal(passed.filter((tenant) => tenant === 'b').length, 4, 'what the greedy one gives back is the other\'s until both have the same')
})

test('whoever waits too long is refused, and everybody when the gate closes', async (t) => {
  const { gate, passed, enter, leave } = gateOf(t, 1, 1)
  enter('a')
  await new Promise<void>((resolve) => enter('b', 'b', resolve))
  t.equal(gate.waiting, 0)
  enter('c')
  gate.close()
  t.strictSame(passed, ['a', 'c refused'])
  leave()
  enter('b')
  t.strictSame(passed, ['a', 'c refused', 'b'])
})

test('a tenant with slow statements keeps no other waiting', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 4 } } })
  const lock = new pg.Client({ connectionString })
  await lock.connect()
  await lock.query('select pg_advisory_lock(1)')
  let done = 0
  const slow = Array.from({ length: 40 }, () => engine.text({ text: 'select pg_advisory_xact_lock_shared(1)::text' }, [], { tenantId: 'a' }).then(() => { done++ }))
  for (let round = 0; round < 3; round++) {
    t.equal(await engine.text({ text: "select 'b'" }, [], { tenantId: 'b' }), 'b')
    t.equal(await engine.text({ text: "select 'nobody'" }, [], nobody), 'nobody')
    t.same(await engine.kysely.selectNoFrom(({ val }) => val(1).as('n')).execute(), [{ n: 1 }])
  }
  t.equal(done, 0, 'before any of them is done')
  t.equal(engine.status().waiting, 37)
  await lock.end()
  await Promise.all(slow)
  t.equal(engine.status().waiting, 0)
})

test('what a tenant reads and writes of the system tables keeps nobody else waiting', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 4 } } })
  const lock = new pg.Client({ connectionString })
  await lock.connect()
  await lock.query('select pg_advisory_lock(1)')
  let done = 0
  const wait = async (db: Kysely<SystemTables>) => { await sql`select pg_advisory_xact_lock_shared(1)::text`.execute(db) }
  const slow = Array.from({ length: 40 }, (_, index) => (index % 2 === 0
    ? wait(engine.kyselyFor('a'))
    : engine.events.change({ topic: 'config', tenant: 'a' }, wait)).then(() => { done++ }))
  const one = engine.kysely.selectNoFrom(({ val }) => val(1).as('n'))
  for (let round = 0; round < 3; round++) {
    t.same(await one.execute(), [{ n: 1 }], 'the look-ups of others')
    t.equal(await engine.events.change({ topic: 'config', tenant: 'b' }, async () => 'b'), 'b')
    t.equal(await engine.events.change({ topic: 'tenant', tenant: 'a' }, async () => 'a'), 'a', 'the platform closes the tenant')
  }
  t.equal(done, 0, 'before any of them is done')
  await lock.end()
  await Promise.all(slow)
})
