import { type Kysely, sql } from 'kysely'
import pg from 'pg'
import { type Test, test } from 'tap'
import type { SystemTables } from '../../../lib/database/system-tables.js'
import { platformRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { openEngine, withoutTenant } from './open.js'
import { openProxy } from './proxy.js'

/** An engine with four connections, and a lock that statements wait for until it is released. */
async function openLocked (t: Test) {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 4 } } })
  const lock = new pg.Client({ connectionString })
  await lock.connect()
  await lock.query('select pg_advisory_lock(1)')
  return { engine, lock }
}

test('a tenant with slow statements delays no other tenant', async (t) => {
  const { engine, lock } = await openLocked(t)
  let done = 0
  // It does not count as a read: slow reads would wait for their turn before they wait for a connection.
  const text = 'with locked(t) as materialized (select pg_advisory_xact_lock_shared(1)::text) select t from locked'
  const slow = Array.from({ length: 40 }, () =>
    engine.text({ text }, [], { tenant: tenantRef('a') }).then(() => {
      done++
    }))
  for (let round = 0; round < 3; round++) {
    t.equal(await engine.text({ text: "select 'b'" }, [], { tenant: tenantRef('b') }), 'b')
    t.equal(await engine.text({ text: "select 'withoutTenant'" }, [], withoutTenant), 'withoutTenant')
    t.same(await engine.kysely.selectNoFrom(({ val }) => val(1).as('n')).execute(), [{ n: 1 }])
  }
  t.equal(done, 0, 'before any of them is done')
  t.equal(engine.status().waiting, 37)
  await lock.end()
  await Promise.all(slow)
  t.equal(engine.status().waiting, 0)
})

test("one tenant's reads and writes of system tables do not delay others", async (t) => {
  const { engine, lock } = await openLocked(t)
  let done = 0
  const wait = async (db: Kysely<SystemTables>) => {
    await sql`select pg_advisory_xact_lock_shared(1)::text`.execute(db)
  }
  const slow = Array.from({ length: 40 }, (_, index) =>
    (index % 2 === 0
      ? wait(engine.kyselyFor(tenantRef('a')))
      : engine.events.change({ topic: 'config', tenant: 'a' }, wait)).then(() => {
      done++
    }))
  const one = engine.kysely.selectNoFrom(({ val }) => val(1).as('n'))
  for (let round = 0; round < 3; round++) {
    t.same(await one.execute(), [{ n: 1 }], 'the lookups of others')
    t.equal(await engine.events.change({ topic: 'config', tenant: 'b' }, async () => 'b'), 'b')
    t.equal(await engine.events.change({ topic: 'tenant', tenant: 'a' }, async () => 'a'), 'a', 'the platform suspends the tenant')
  }
  t.equal(done, 0, 'before any of them is done')
  await lock.end()
  await Promise.all(slow)
})

test('a statement gets a released connection while its own one is still opening', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const proxy = await openProxy(t, connectionString)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString: proxy.connectionString, pool: { max: 2 } } })
  t.match(engine.status(), { total: 1, idle: 1 })
  const lock = new pg.Client({ connectionString })
  await lock.connect()
  await lock.query('select pg_advisory_lock(1)')
  const slow = engine.text({ text: 'select pg_advisory_xact_lock_shared(1)::text' }, [], { tenant: tenantRef('a') })
  const drop = proxy.hold()
  const quick = engine.text({ text: "select 'b'" }, [], { tenant: tenantRef('b') })
  while (engine.status().total < 2) await new Promise((resolve) => setImmediate(resolve))
  await lock.end()
  await slow
  t.equal(await quick, 'b')
  drop()
})

test('a statement or transaction whose caller leaves while it waits does not run', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { sql: 'create sequence runs' })
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 1 } } })
  const lock = new pg.Client({ connectionString })
  await lock.connect()
  await lock.query('select pg_advisory_lock(1)')
  const slow = engine.text({ text: 'select pg_advisory_xact_lock_shared(1)::text' }, [], { tenant: tenantRef('a') })
  let isWanted = true
  const options = { tenant: tenantRef('a'), isWanted: () => isWanted }
  const run = { text: "select nextval('runs')::text" }
  const waiting = Promise.allSettled(
    Array.from(
      { length: 2000 },
      (_, index) => index % 2 === 0 ? engine.text(run, [], options) : engine.transaction(options, (session) => session.text(run, []))
    )
  )
  const others = engine.text({ text: "select 'b'" }, [], { tenant: tenantRef('b') })
  isWanted = false
  await lock.end()
  await slow
  for (const ended of await waiting) {
    if (ended.status === 'fulfilled' || ended.reason.code !== 'TENANTRY_STOPPING') t.fail(String(ended.status))
  }
  t.equal(await others, 'b')
  t.equal(engine.status().waiting, 0)
  t.match(await query('select is_called from runs'), [{ is_called: false }])
})

test('a request that gets no connection within acquireTimeoutMs is rejected and leaves the queue', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 1, acquireTimeoutMs: 1000 } } })
  const lock = new pg.Client({ connectionString })
  await lock.connect()
  await lock.query('select pg_advisory_lock(1)')
  const slow = engine.text({ text: 'select pg_advisory_xact_lock_shared(1)::text' }, [], { tenant: tenantRef('a') })
  // The statement holds the only connection until the lock is released: only the timeout ends these.
  const waiting = [tenantRef('a'), tenantRef('b'), platformRef].map((tenant) => engine.text({ text: "select 'x'" }, [], { tenant }))
  for (const ended of await Promise.allSettled(waiting)) {
    t.match(ended, { status: 'rejected', reason: { code: 'TENANTRY_DATABASE_BUSY', headers: { 'retry-after': '1' } } })
  }
  t.equal(engine.status().waiting, 0)
  await lock.end()
  await slow
  t.equal(await engine.text({ text: "select 'x'" }, [], { tenant: tenantRef('b') }), 'x')
})
