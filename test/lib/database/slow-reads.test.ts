import pg from 'pg'
import { type Test, test } from 'tap'
import type { Engine, Session, Statement } from '../../../lib/database/engine.js'
import { type Place, SlowReads } from '../../../lib/database/slow-reads.js'
import { noTenant, tenantIdOf, type TenantRef } from '../../../lib/identity/tenant-ref.js'
import { advisoryWaits } from '../../helpers/locks.js'
import { startPgBouncer } from '../../helpers/pgbouncer.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { compile, scopeOf } from '../queries/helpers.js'
import { openEngine } from './open.js'

const a = tenantIdOf('a')
const b = tenantIdOf('b')
const c = tenantIdOf('c')
const slow = 'select a lot'
const quick = 'select a row'
const writes = ['insert into items values (1)', 'select 1 from items for update', 'with new as (insert into items values (1)) select 1']
const locked: Statement = { text: 'select pg_advisory_xact_lock_shared(1)::text', isRead: true }

const statementOf = (text: string): Statement => ({ text, isRead: !writes.includes(text) })

/** Statements of tenants on sixteen connections, with a clock that stands still between them. */
function statements (t: Test, timeoutMs = 60_000) {
  let now = 1000
  const reads = new SlowReads(16, timeoutMs, () => now)
  t.teardown(() => reads.close())
  const running: { tenant: TenantRef, text: string, place: Place }[] = []
  const refused: string[] = []
  const enter = (tenant: TenantRef, text: string) =>
    reads.enter(tenant, statementOf(text), (place) => {
      place?.began()
      running.push({ tenant, text, place })
    }, () => refused.push(text))
  const end = (ms: number, tenant: TenantRef, text: string) => {
    const [ended] = running.splice(running.findIndex((one) => one.tenant === tenant && one.text === text), 1)
    now += ms
    reads.ended(tenant, statementOf(text), ms, ended!.place)
  }
  const run = (ms: number, tenant: TenantRef, text: string) => {
    enter(tenant, text)
    end(ms, tenant, text)
  }
  return {
    reads,
    refused,
    run,
    end,
    enter (times: number, tenant: TenantRef, text: string) {
      for (let time = 0; time < times; time++) enter(tenant, text)
    },
    running: (tenant: TenantRef, text: string) => running.filter((one) => one.tenant === tenant && one.text === text).length,
    pass (ms: number) {
      now += ms
    }
  }
}

/** Places of first runs are handed on in microtasks. */
async function settled (): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

test("while another tenant uses the database, a tenant's slow reads run two at a time on sixteen connections", (t) => {
  const { run, enter, end, running } = statements(t)
  run(1, b, quick)
  run(1, b, slow)
  run(1, a, quick)
  run(50, a, slow)
  enter(5, a, slow)
  t.equal(running(a, slow), 2)
  enter(5, a, quick)
  t.equal(running(a, quick), 5, "the tenant's other statements do not wait")
  enter(5, b, slow)
  t.equal(running(b, slow), 5, 'for another tenant the same statement is not slow')
  end(50, a, slow)
  t.equal(running(a, slow), 2, 'the next one starts when one ends')
  t.end()
})

test("first runs of a tenant's reads begin one at a time", async (t) => {
  const { enter, end, running } = statements(t)
  enter(5, a, quick)
  enter(1, a, slow)
  t.equal(running(a, quick), 1)
  t.equal(running(a, slow), 0)
  end(1, a, quick)
  await settled()
  t.equal(running(a, quick), 4, 'a read that is known to be quick does not wait')
  t.equal(running(a, slow), 1)
  enter(1, a, 'insert into items values (1)')
  t.equal(running(a, 'insert into items values (1)'), 1, 'nor does a write')
})

test('a first run that is slow leaves the others their few places', async (t) => {
  const { run, enter, end, running } = statements(t)
  run(1, b, quick)
  enter(60, a, slow)
  end(50, a, slow)
  await settled()
  t.equal(running(a, slow), 2)
})

test('a first run that takes long is slow before it ends, and the next first run begins', async (t) => {
  const { run, enter, running, pass } = statements(t)
  run(1, b, quick)
  enter(4, a, slow)
  enter(1, a, quick)
  pass(50)
  while (running(a, quick) === 0) await new Promise((resolve) => setTimeout(resolve, 1))
  t.equal(running(a, slow), 3, 'the first run, and two in the places of slow reads')
})

test('slow reads of callers without a tenant are limited too', (t) => {
  const { run, enter, running } = statements(t)
  run(1, b, quick)
  run(50, noTenant, slow)
  enter(5, noTenant, slow)
  t.equal(running(noTenant, slow), 2)
  t.end()
})

test('a tenant that is alone runs all its slow reads at once', (t) => {
  const { run, enter, running, pass } = statements(t)
  run(50, a, slow)
  run(1, b, quick)
  run(50, a, slow)
  pass(300)
  enter(5, a, slow)
  t.equal(running(a, slow), 5)
  t.end()
})

test("a read is not slow if the other tenant's statements take as long, and a write never is", (t) => {
  const { run, enter, running } = statements(t)
  run(30, b, quick)
  run(50, a, slow)
  run(1, c, quick)
  for (const write of writes) run(50, a, write)
  for (const text of [slow, ...writes]) {
    enter(5, a, text)
    t.equal(running(a, text), 5, text)
  }
  t.end()
})

test('a read with a name that looks like a write is still a read', (t) => {
  for (const name of ['for update', 'for no key update', 'insert']) {
    let now = 1000
    const reads = new SlowReads(16, 60_000, () => now)
    t.teardown(() => reads.close())
    const { statement } = compile({ table: 'articles', operation: 'select', select: `id, "${name}":title` }).bind(scopeOf())
    const run = (tenant: TenantRef, ms: number, one: Statement) =>
      reads.enter(tenant, one, (place) => {
        now += ms
        reads.ended(tenant, one, ms, place)
      }, () => {})
    run(b, 1, { text: quick })
    run(a, 50, statement)
    let running = 0
    for (let time = 0; time < 5; time++) reads.enter(a, statement, () => running++, () => {})
    t.equal(running, 2, name)
  }
  t.end()
})

test('a slow read is forgotten after twenty fast runs', (t) => {
  const { run, enter, running } = statements(t)
  run(1, b, quick)
  run(50, a, slow)
  for (let time = 0; time < 20; time++) run(1, a, slow)
  enter(5, a, slow)
  t.equal(running(a, slow), 5)
  t.end()
})

test('a slow read is forgotten 30 s after its last slow run, also if it is never quick', (t) => {
  const { run, enter, running, pass } = statements(t)
  const begin = () => {
    run(1, b, quick)
    enter(5, a, slow)
    return running(a, slow)
  }
  run(1, b, quick)
  run(50, a, slow)
  for (let time = 0; time < 100; time++) run(8, a, slow)
  pass(29_000)
  t.equal(begin(), 2)
  pass(1000)
  t.equal(begin(), 7, 'the five new ones need no place')
  t.end()
})

test('the known reads of all tenants take at most 64 MB, and those of one tenant at most 1 MB', (t) => {
  const { reads, run, enter, running } = statements(t)
  const size = 100_000
  const readOf = (index: number) => `select ${String(index).padEnd(size)}`
  for (let index = 0; index < 100; index++) run(1, a, readOf(index))
  t.ok(reads.bytes <= 1_048_576, `${reads.bytes} of one tenant`)
  t.ok(reads.bytes > 9 * size)
  for (let tenant = 0; tenant < 100; tenant++) {
    for (let index = 0; index < 10; index++) run(1, tenantIdOf(`other-${tenant}`), readOf(index))
  }
  t.ok(reads.bytes <= 67_108_864, `${reads.bytes} of all tenants`)
  t.ok(reads.bytes > 60_000_000)
  const last = tenantIdOf('other-99')
  enter(5, last, readOf(9))
  t.equal(running(last, readOf(9)), 5, 'the latest reads are known')
  enter(5, a, readOf(99))
  t.equal(running(a, readOf(99)), 1, 'a forgotten read begins with a first run')
  t.end()
})

test('a slow read that waits too long is rejected, and so are reads that wait at the close', async (t) => {
  const { reads, run, enter, refused } = statements(t, 1)
  run(1, b, quick)
  run(50, a, slow)
  enter(3, a, slow)
  while (refused.length === 0) await new Promise((resolve) => setTimeout(resolve, 1))
  enter(1, a, slow)
  reads.close()
  t.strictSame(refused, [slow, slow])
})

test("in PostgreSQL a tenant's slow reads run one at a time, and one at a time in transactions", async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 10 } } })
  const lock = new pg.Client({ connectionString })
  await lock.connect()
  const waiting = async () => {
    const { rows } = await lock.query(advisoryWaits)
    return rows[0].n
  }
  const alone = () => engine.text(locked, [], { tenant: a })
  const inTransaction = () => engine.transaction({ tenant: a }, (session: Session) => session.text(locked, []))
  let longest = 0
  const other = async () => {
    const began = performance.now()
    await engine.text({ text: "select 'b'" }, [], { tenant: b })
    longest = Math.max(longest, performance.now() - began)
  }
  // Opens the connections beforehand, so that the statements start at once.
  await Promise.all(Array.from({ length: 8 }, inTransaction))

  // The first run, beside another tenant's statements, marks it as slow.
  await lock.query('select pg_advisory_lock(1)')
  const first = alone()
  const began = performance.now()
  do await other()
  while (performance.now() - began < Math.max(50, 8 * longest))
  await lock.query('select pg_advisory_unlock(1)')
  await first

  // A machine that stands still for 250 ms between two statements of the other tenant allows all of them: then once more.
  let together = 0
  for (let attempt = 0; attempt < 5 && together !== 2; attempt++) {
    await lock.query('select pg_advisory_lock(1)')
    const over = new AbortController()
    const beside = (async () => {
      while (!over.signal.aborted) await other()
    })()
    await other()
    const slow = [inTransaction, alone, inTransaction, alone].map((run) => run())
    while (await waiting() < 2);
    for (let round = 0; round < 10; round++) await other()
    together = await waiting()
    over.abort()
    await beside
    await lock.query('select pg_advisory_unlock(1)')
    await Promise.all(slow)
  }
  t.equal(together, 2)
  await lock.end()
})

/**
 * Transactions that hold all connections of a tenant begin a slow read while another read of the tenant waits for a connection. `outside`
 * starts this other read, and then calls `begin`.
 */
async function readsInTransactions (
  t: Test,
  engine: Engine,
  connectionString: string,
  transactions: number,
  outside: (begin: () => void) => Promise<unknown>
): Promise<void> {
  const lock = new pg.Client({ connectionString })
  await lock.connect()
  t.teardown(() => lock.end())
  const other = () => engine.text({ text: "select 'b'" }, [], { tenant: b })
  await lock.query('select pg_advisory_lock(1)')
  const first = engine.text(locked, [], { tenant: a })
  const end = performance.now() + 100
  while (performance.now() < end) await other()
  await lock.query('select pg_advisory_unlock(1)')
  await first

  await other()
  const results = await new Promise<unknown[]>((resolve, reject) => {
    let open = 0
    let begin = () => {}
    const begun = new Promise<void>((resolve) => {
      begin = resolve
    })
    const within = Array.from({ length: transactions }, () =>
      engine.transaction({ tenant: a }, async (session) => {
        await session.rows({ text: 'select 1' })
        if (++open === transactions) Promise.all([outside(begin), ...within]).then(resolve, reject)
        await begun
        return await session.text(locked, [])
      }))
  })
  t.equal(results.length, transactions + 1)
}

test('slow reads in transactions end while another one waits for their connections', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 10 } } })
  await readsInTransactions(t, engine, connectionString, 8, (begin) => {
    const read = engine.text(locked, [], { tenant: a })
    begin()
    return read
  })
})

test('slow reads in transactions end while another transaction waits for their sessions behind a pooler', async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const pooler = await startPgBouncer(t, connectionString, 'transaction', 2)
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: {
      connectionString: pooler.connectionString,
      notifyConnectionString: connectionString,
      preparedStatements: false,
      pool: { max: 10 }
    }
  })
  await readsInTransactions(t, engine, connectionString, 2, (begin) =>
    engine.transaction({ tenant: a }, (session) => {
      const read = session.text(locked, [])
      begin()
      return read
    }))
})

test('a read that became slow while it waited for a connection waits for its turn', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 10 } } })
  const [lock, later] = [new pg.Client({ connectionString }), new pg.Client({ connectionString })]
  await Promise.all([lock.connect(), later.connect()])
  // Others of the tenant are not sent behind a read of 2 ms.
  const locked = { text: 'select pg_advisory_xact_lock_shared(1)::text from pg_sleep(0.002)', isRead: true }
  const run = () => engine.text(locked, [], { tenant: a })
  const waiting = async () => {
    const { rows } = await lock.query(`${advisoryWaits} and mode = 'ShareLock'`)
    return rows[0].n
  }
  let longest = 0
  const other = async () => {
    const began = performance.now()
    await engine.text({ text: "select 'b'" }, [], { tenant: b })
    longest = Math.max(longest, performance.now() - began)
  }
  // No other tenant has used the database yet, so that the read is not slow, however long this run takes.
  await run()
  await lock.query('select pg_advisory_lock(1)')
  const all = Array.from({ length: 20 }, run)
  while (await waiting() < 8) await other()
  const held = later.query('select pg_advisory_lock(1)')
  const began = performance.now()
  do await other()
  while (performance.now() - began < Math.max(50, 8 * longest))
  await lock.query('select pg_advisory_unlock(1)')
  const over = new AbortController()
  const beside = (async () => {
    while (!over.signal.aborted) await other()
  })()
  await held
  while (await waiting() === 0);
  for (let round = 0; round < 10; round++) await other()
  t.equal(await waiting(), 1)
  over.abort()
  await beside
  await later.end()
  await lock.end()
  await Promise.all(all)
})
