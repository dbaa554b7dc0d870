/** Statements that are sent together on one connection. */
import { type Test, test } from 'tap'
import type { Statement, TextOptions } from '../../../lib/database/engine.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { openEngine } from './open.js'
import { openProxy } from './proxy.js'

const a: TextOptions = { tenant: tenantRef('a') }
const b: TextOptions = { tenant: tenantRef('b') }
const quick: Statement = { text: 'select $1::text' }
const longer: Statement = { text: "select $1::text || ''" }

/**
 * An engine with one connection, whose statements take no time until `clock.step` sets the milliseconds between two looks at the clock.
 * `together()` returns the largest number of statements that were sent at once since its last call.
 */
async function openOne (t: Test, preparedStatements = true) {
  const { connectionString } = await postgresDatabase(t)
  const proxy = await openProxy(t, connectionString)
  const postgres = { connectionString: proxy.connectionString, pool: { max: 1 }, preparedStatements }
  const engine = await openEngine(t, { provider: 'postgres', postgres })
  const clock = { ms: 1000, step: 0 }
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
  return { engine, proxy, together, clock }
}

test("behind a quick read, a tenant's waiting statements are sent with it, at most three together", async (t) => {
  const { engine, together } = await openOne(t)
  const results = await Promise.all(Array.from({ length: 8 }, (_, index) => engine.text(quick, [String(index)], a)))
  t.strictSame(results, ['0', '1', '2', '3', '4', '5', '6', '7'])
  t.equal(together(), 3)
  t.match(engine.status(), { waiting: 0, idle: 1 })
})

test('statements that are sent together are separate transactions', async (t) => {
  const { engine, together } = await openOne(t)
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
  const { engine, together } = await openOne(t)
  const both = [engine.text(quick, ['a'], a), engine.text(quick, ['b'], b), engine.transaction(a, (session) => session.text(quick, ['a']))]
  t.strictSame(await Promise.all(both), ['a', 'b', 'a'])
  t.equal(together(), 1)
})

test('statements are sent behind a quick write, and one that fails does not affect the others', async (t) => {
  const { engine, together } = await openOne(t)
  await engine.text({ text: 'create table written (n integer unique)' }, [], a)
  const write = { text: 'insert into written values ($1) returning n::text' }
  await engine.text(write, ['1'], a)
  const ended = await Promise.allSettled([...['2', '1', '3'].map((value) => engine.text(write, [value], a)), engine.text(quick, ['last'], a)])
  t.equal(together(), 3)
  t.match(ended, [{ value: '2' }, { status: 'rejected', reason: { code: 'TENANTRY_CONFLICT' } }, { value: '3' }, { value: 'last' }])
  t.equal(await engine.text({ text: "select string_agg(n::text, ' ' order by n) from written" }, [], a), '1 2 3')
})

test('nothing is sent behind a longer write, a longer read, or a read whose caller left', async (t) => {
  const { engine, together, clock } = await openOne(t)
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
  const { engine, proxy } = await openOne(t)
  proxy.onSent = (text) => text.includes('breaks')
  const ended = await Promise.allSettled(['1', 'breaks', '3', '4'].map((value) => engine.text(quick, [value], a)))
  for (const one of ended.slice(0, 3)) t.match(one, { status: 'rejected', reason: { code: 'TENANTRY_DATABASE_UNAVAILABLE' } })
  t.match(ended[3], { value: '4' })
  t.match(engine.status(), { waiting: 0 })
  t.equal(await engine.text(quick, ['5'], a), '5')
})

test('behind a transaction pooler, each statement is sent alone', async (t) => {
  const { engine, together } = await openOne(t, false)
  for (let round = 0; round < 20; round++) await Promise.all([engine.text(quick, ['1'], a), engine.text(quick, ['2'], a)])
  t.equal(together(), 1)
})

test('when PostgreSQL ends the session of a statement, those behind it are rejected, and the next ones run', async (t) => {
  const { engine } = await openOne(t)
  const ends = { text: "select case $1 when 'ends' then pg_terminate_backend(pg_backend_pid())::text else $1 end" }
  await engine.text(ends, ['runs'], a)
  const ended = await Promise.allSettled([engine.text(ends, ['ends'], a), ...['2', '3', '4'].map((value) => engine.text(quick, [value], a))])
  t.match(ended[0], { status: 'rejected', reason: { code: 'TENANTRY_DATABASE_UNAVAILABLE' } })
  t.match(ended[3], { value: '4' })
  t.match(engine.status(), { waiting: 0 })
  t.equal(await engine.text(quick, ['5'], a), '5')
})

test('after the end of a session, none of its statements counts as running', async (t) => {
  const { engine } = await openOne(t)
  const ends = { text: "select case $1 when 'ends' then pg_terminate_backend(pg_backend_pid())::text else $1 end" }
  await engine.text(ends, ['runs'], a)
  await Promise.allSettled(['ends', '2', '3'].map((value) => engine.text(ends, [value], a)))
  const timers = t.capture(globalThis, 'setTimeout', setTimeout)
  await engine.close()
  t.notOk(timers().some(({ args: [, ms] }) => ms === 500), 'closing waits for none')
})
