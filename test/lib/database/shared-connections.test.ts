/** Statements that are sent together on one connection. */
import pg from 'pg'
import { type Test, test } from 'tap'
import type { Engine, Statement, TextOptions } from '../../../lib/database/engine.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { advisoryWaits } from '../../helpers/locks.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { openEngine } from './open.js'
import { openProxy } from './proxy.js'

const a: TextOptions = { tenant: tenantRef('a') }
const b: TextOptions = { tenant: tenantRef('b') }
const quick: Statement = { text: 'select $1::text' }
const longer: Statement = { text: "select $1::text || ''" }

/**
 * An engine whose statements take no time until `clock.step` sets the milliseconds between two looks at the clock. `together()` returns the
 * largest number of statements that were sent at once since its last call.
 */
async function openQuick (t: Test, { preparedStatements = true, max = 1, step = 0 } = {}) {
  const { connectionString } = await postgresDatabase(t)
  const proxy = await openProxy(t, connectionString)
  const postgres = { connectionString: proxy.connectionString, pool: { max }, preparedStatements }
  const engine = await openEngine(t, { provider: 'postgres', postgres })
  const clock = { ms: 1000, step }
  t.intercept(performance, 'now', {
    value () {
      clock.ms += clock.step
      return clock.ms
    }
  })
  let most = 0
  proxy.onSent = (text) => {
    most = Math.max(most, text.split('S\0\0\0\x04').length - 1)
    return false
  }
  const together = (): number => {
    const sent = most
    most = 0
    return sent
  }
  // After its first run, a read is known to be quick.
  await engine.text(quick, ['1'], a)
  return { engine, proxy, together, clock, connectionString }
}

test("behind a quick read, a tenant's waiting statements are sent with it, at most three together", async (t) => {
  const { engine, together } = await openQuick(t)
  const results = await Promise.all(Array.from({ length: 8 }, (_, index) => engine.text(quick, [String(index)], a)))
  t.strictSame(results, ['0', '1', '2', '3', '4', '5', '6', '7'])
  t.equal(together(), 3)
  t.match(engine.status(), { waiting: 0, idle: 1 })
})

test('statements that are sent together are separate transactions', async (t) => {
  const { engine, together } = await openQuick(t)
  await engine.text({ text: 'create table written (n integer)' }, [], a)
  const ended = await Promise.allSettled([
    engine.text(quick, ['first'], a),
    engine.text(quick, ['\0'], a),
    engine.text({ text: 'insert into written values (1)' }, [], a),
    engine.text(quick, ['last'], a)
  ])
  t.equal(together(), 3)
  t.match(ended, [{ value: 'first' }, { status: 'rejected', reason: { code: 'TENANTRY_INVALID_VALUE' } }, { value: null }, { value: 'last' }])
  t.equal(await engine.text({ text: 'select count(*)::text from written' }, [], a), '1')
  t.match(engine.status(), { waiting: 0, idle: 1 })
})

test("neither another tenant's statement nor a transaction is sent behind a read", async (t) => {
  const { engine, together } = await openQuick(t)
  const both = [engine.text(quick, ['a'], a), engine.text(quick, ['b'], b), engine.transaction(a, (session) => session.text(quick, ['a']))]
  t.strictSame(await Promise.all(both), ['a', 'b', 'a'])
  t.equal(together(), 1)
})

test('statements are sent behind a quick write, and one that fails does not affect the others', async (t) => {
  const { engine, together } = await openQuick(t)
  await engine.text({ text: 'create table written (n integer unique)' }, [], a)
  const write = { text: 'insert into written values ($1) returning n::text' }
  await engine.text(write, ['1'], a)
  const ended = await Promise.allSettled([...['2', '1', '3'].map((value) => engine.text(write, [value], a)), engine.text(quick, ['last'], a)])
  t.equal(together(), 3)
  t.match(ended, [{ value: '2' }, { status: 'rejected', reason: { code: 'TENANTRY_CONFLICT' } }, { value: '3' }, { value: 'last' }])
  t.equal(await engine.text({ text: "select string_agg(n::text, ' ' order by n) from written" }, [], a), '1 2 3')
})

test('nothing is sent behind a longer write, a longer read, or a read whose caller left', async (t) => {
  const { engine, together, clock } = await openQuick(t)
  await engine.text({ text: 'create table written (n integer)' }, [], a)
  const write = { text: 'insert into written values ($1)' }
  clock.step = 2
  for (const statement of [write, longer]) await engine.text(statement, ['1'], a)
  clock.step = 0
  for (const statement of [write, longer]) {
    await Promise.all([engine.text(statement, ['1'], a), engine.text(quick, ['2'], a)])
    t.equal(together(), 1)
  }
  const left = engine.text(quick, ['3'], { ...a, isWanted: () => false }).catch(({ code }) => code)
  t.strictSame(await Promise.all([engine.text(quick, ['1'], a), left, engine.text(quick, ['4'], a)]), ['1', 'TENANTRY_STOPPING', '4'])
  t.match(engine.status(), { waiting: 0, idle: 1 })
})

test('when the connection breaks, all statements that were sent together are rejected, and the next ones run', async (t) => {
  const { engine, proxy } = await openQuick(t)
  proxy.onSent = (text) => text.includes('breaks')
  const ended = await Promise.allSettled(['1', 'breaks', '3', '4'].map((value) => engine.text(quick, [value], a)))
  for (const one of ended.slice(0, 3)) t.match(one, { status: 'rejected', reason: { code: 'TENANTRY_DATABASE_UNAVAILABLE' } })
  t.match(ended[3], { value: '4' })
  t.match(engine.status(), { waiting: 0 })
  t.equal(await engine.text(quick, ['5'], a), '5')
})

test('behind a transaction pooler, each statement is sent alone', async (t) => {
  const { engine, together } = await openQuick(t, { preparedStatements: false })
  for (let round = 0; round < 20; round++) await Promise.all([engine.text(quick, ['1'], a), engine.text(quick, ['2'], a)])
  t.equal(together(), 1)
})

test('when PostgreSQL ends the session of a statement, those behind it are rejected, and the next ones run', async (t) => {
  const { engine } = await openQuick(t)
  const ends = { text: "select case $1 when 'ends' then pg_terminate_backend(pg_backend_pid())::text else $1 end" }
  await engine.text(ends, ['runs'], a)
  const ended = await Promise.allSettled([engine.text(ends, ['ends'], a), ...['2', '3', '4'].map((value) => engine.text(quick, [value], a))])
  t.match(ended[0], { status: 'rejected', reason: { code: 'TENANTRY_DATABASE_UNAVAILABLE' } })
  t.match(ended[3], { value: '4' })
  t.match(engine.status(), { waiting: 0 })
  t.equal(await engine.text(quick, ['5'], a), '5')
})

test('after the end of a session, none of its statements counts as running', async (t) => {
  const { engine } = await openQuick(t)
  const ends = { text: "select case $1 when 'ends' then pg_terminate_backend(pg_backend_pid())::text else $1 end" }
  await engine.text(ends, ['runs'], a)
  await Promise.allSettled(['ends', '2', '3'].map((value) => engine.text(ends, [value], a)))
  const timers = t.capture(globalThis, 'setTimeout', setTimeout)
  await engine.close()
  t.notOk(timers().some(({ args: [, ms] }) => ms === 500), 'closing waits for none')
})

const locked: Statement = { text: 'with locked as materialized (select pg_advisory_xact_lock_shared($1::bigint)) select 1::text from locked' }

const tenants = Array.from({ length: 10 }, (_, index): TextOptions => ({ tenant: tenantRef(`t${index}`) }))

/** Each tenant runs the statement, in turn and alone, so that it is known to be short. */
async function runInTurn (engine: Engine, statement: Statement): Promise<void> {
  for (const tenant of tenants) await engine.text(statement, ['1'], tenant)
}

/** Holds the lock of `locked` until `end`. `waiting` is the number of sessions that wait for it. */
async function openLock (connectionString: string) {
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query('select pg_advisory_lock(1)')
  return {
    async waiting (): Promise<number> {
      const { rows } = await client.query(advisoryWaits)
      return rows[0].n
    },
    end: () => client.end()
  }
}

/** Statements of ten tenants that wait for the lock; each of the quickest took `step` milliseconds or more. */
async function openWaiting (t: Test, step: number) {
  const { engine, clock, connectionString } = await openQuick(t, { max: 10, step })
  await runInTurn(engine, locked)
  clock.step = 0
  const lock = await openLock(connectionString)
  const all = [...tenants, ...tenants].map((tenant) => engine.text(locked, ['1'], tenant))
  return {
    waiting: lock.waiting,
    async end () {
      await lock.end()
      await Promise.all(all)
    }
  }
}

test('short statements use three connections at a time', async (t) => {
  const { waiting, end } = await openWaiting(t, 0)
  while (await waiting() < 3);
  for (let look = 0; look < 10; look++) t.equal(await waiting(), 3)
  await end()
})

test('short statements use more than three connections if even the quickest take long', async (t) => {
  const { waiting, end } = await openWaiting(t, 0.2)
  while (await waiting() <= 3);
  await end()
})

test('statements that are not known to be short do not use the connections of short ones', async (t) => {
  const { engine, connectionString } = await openQuick(t, { max: 10 })
  const lock = await openLock(connectionString)
  const all = tenants.map((tenant) => engine.text(locked, ['1'], tenant))
  while (await lock.waiting() <= 3);
  await lock.end()
  await Promise.all(all)
})

test('transactions do not use the connections of short statements', async (t) => {
  const { engine } = await openQuick(t, { max: 10 })
  await runInTurn(engine, quick)
  const results = await Promise.all(tenants.slice(0, 6).map((tenant) =>
    engine.transaction(tenant, async (session) => {
      await session.rows({ text: 'select 1' })
      return await engine.text(quick, ['2'], tenant)
    })
  ))
  t.equal(results.length, 6)
})

test('short statements that wait for a lock do not stop those of other tenants', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 10 } } })
  const [first, second, third] = tenants
  await runInTurn(engine, locked)
  const lock = await openLock(connectionString)
  let ended = 0
  const late = [first!, first!, first!, first!, second!, second!].map((tenant) =>
    engine.text(locked, ['1'], tenant).then(() => {
      ended++
    })
  )
  for (let round = 0; round < 20; round++) t.equal(await engine.text(quick, ['3'], third!), '3')
  t.equal(ended, 0)
  await lock.end()
  await Promise.all(late)
})
