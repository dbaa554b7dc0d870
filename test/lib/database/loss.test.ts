import { sql } from 'kysely'
import pg from 'pg'
import { test } from 'tap'
import type { Engine } from '../../../lib/database/engine.js'
import { createEngine } from '../../../lib/database/index.js'
import { catalogue } from '../../../lib/errors.js'
import { noTenant, type TenantRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { postgresDatabase, postgresServer } from '../../helpers/postgres.js'
import { openEngine, rejection, withoutTenant } from './open.js'
import { openProxy } from './proxy.js'

const one = { name: 'one', text: "select '1'" }

/** Callers that query without a pause. Returns the codes of their errors. */
function load (engine: Engine, callers: number): { stop(): Promise<Set<unknown>> } {
  const stopping = new AbortController()
  const codes = new Set<unknown>()
  const note = (error: unknown): void => {
    codes.add(error instanceof Error && 'code' in error ? error.code : error)
  }
  const done = Promise.all(Array.from({ length: callers }, async (_, index) => {
    while (!stopping.signal.aborted) {
      if (index % 3 === 0) {
        await engine.transaction(withoutTenant, async (session) => {
          await session.text(one, [])
          await session.text(one, [])
        }).catch(note)
      } else if (index % 3 === 1) await engine.kysely.selectNoFrom(({ val }) => val(1).as('n')).execute().catch(note)
      else await engine.text(one, [], withoutTenant).catch(note)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }))
  return {
    async stop () {
      stopping.abort()
      await done
      return codes
    }
  }
}

/** Resolves at the first success. */
async function answered (engine: Engine): Promise<number> {
  const start = Date.now()
  while (await engine.text(one, [], withoutTenant).catch(() => null) === null) await new Promise((resolve) => setTimeout(resolve, 10))
  return Date.now() - start
}

test('connections killed under load fail only the waiting calls', async (t) => {
  const { connectionString, disconnect } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString } })
  const callers = load(engine, 20)
  await answered(engine)
  for (let round = 0; round < 3; round++) t.ok(await disconnect() > 0)
  await answered(engine)
  t.same([...await callers.stop()].filter((code) => code !== catalogue.databaseUnavailable.code), [])
  t.equal(await engine.text(one, [], withoutTenant), '1')
})

test('a server that stops under load causes 503, and the engine recovers within 2 s of its return', async (t) => {
  const server = await postgresServer(t)
  const warnings: string[] = []
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString: server.connectionString },
    log: { info () {}, warn: (_object, message) => warnings.push(message) }
  })
  await Promise.all(Array.from({ length: 5 }, () => engine.text(one, [], withoutTenant)))
  for (const stop of [() => server.stop(), () => server.kill()]) {
    const callers = load(engine, 20)
    await answered(engine)
    await stop()
    t.match(await rejection(engine.text(one, [], withoutTenant)), {
      code: catalogue.databaseUnavailable.code,
      statusCode: 503,
      headers: { 'retry-after': '1' }
    })
    await t.rejects(engine.ping(1000), { code: catalogue.databaseUnavailable.code })
    await server.start()
    t.ok(await answered(engine) < 2000)
    t.same([...await callers.stop()].filter((code) => code !== catalogue.databaseUnavailable.code), [])
  }
  await engine.ping(1000)
})

test('a connection that breaks during a transaction ends only that transaction', async (t) => {
  const { connectionString, disconnect } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString } })
  t.match(
    await rejection(engine.transaction(withoutTenant, async (session) => {
      await session.text(one, [])
      await disconnect()
      await session.text(one, [])
    })),
    { code: catalogue.databaseUnavailable.code }
  )
  t.equal(await engine.text(one, [], withoutTenant), '1')
  t.strictSame(engine.status().waiting, 0)
})

test('connections that were lost without a sign are given up, while a slow statement and an idle transaction go on', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const proxy = await openProxy(t, connectionString)
  const postgres = { connectionString: proxy.connectionString, pool: { max: 4, statementTimeoutMs: 600_000 } }
  const engine = await openEngine(t, { provider: 'postgres', postgres })
  const three = () => Promise.allSettled(Array.from({ length: 3 }, () => engine.text({ text: "select pg_sleep(0.1)::text || '1'" }, [], withoutTenant)))
  await three()

  proxy.silence()
  for (const outcome of await three()) t.match(outcome, { status: 'rejected', reason: { code: catalogue.databaseUnavailable.code } })
  const slow = engine.text({ text: "select pg_sleep(5)::text || 'slow'" }, [], withoutTenant)
  t.equal(
    await engine.transaction(withoutTenant, async (session) => {
      await session.text(one, [])
      t.equal(await slow, 'slow')
      return await session.text(one, [])
    }),
    '1'
  )
})

test('a session of a standby ends at its first refused write, and the next write reaches the primary', async (t) => {
  const { name, connectionString, query, admin, disconnect } = await postgresDatabase(t)
  await query('create table rows (n integer)')
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 1 } } })
  const insert = { text: "insert into rows values (1) returning '1'" }
  const writes = [
    () => engine.text(insert, [], withoutTenant),
    () => engine.transaction(withoutTenant, (session) => session.text(insert, [])),
    () => sql`insert into rows values (1)`.execute(engine.kysely)
  ]
  for (const write of writes) {
    await admin(`alter database ${name} set default_transaction_read_only = on`)
    await disconnect()
    await answered(engine)
    await admin(`set transaction_read_only = off; alter database ${name} reset default_transaction_read_only`)
    t.match(await rejection(write()), { code: catalogue.databaseUnavailable.code })
    await write()
  }
})

test('a session of a standby ends with its statement once another session has reached the primary', async (t) => {
  const { name, connectionString, query, admin, disconnect } = await postgresDatabase(t)
  await query('create table rows (n integer)')
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString } })
  const insert = () => engine.text({ text: "insert into rows values (1) returning '1'" }, [], withoutTenant)
  const mode = { text: "select current_setting('transaction_read_only')" }
  await admin(`alter database ${name} set default_transaction_read_only = on`)
  await disconnect()
  await answered(engine)
  await engine.transaction(withoutTenant, async (session) => {
    t.equal(await session.text(mode, []), 'on')
    await rejection(insert())
    await admin(`set transaction_read_only = off; alter database ${name} reset default_transaction_read_only`)
    await insert()
  })
  t.equal(await engine.text(mode, [], withoutTenant), 'off')
})

test('a pool without free connections is reported as a busy database and does not hang', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 2, acquireTimeoutMs: 1000 } } })
  const holding = new Set<() => void>()
  const hold = (tenant: TenantRef) =>
    engine.transaction({ tenant }, async (session) => {
      await session.text(one, [])
      await new Promise<void>((resolve) => holding.add(resolve))
    })
  const held = [hold(noTenant), hold(tenantRef('a'))]
  t.match(await rejection(engine.text(one, [], withoutTenant)), {
    code: catalogue.databaseBusy.code,
    statusCode: 503,
    headers: { 'retry-after': '1' }
  })
  t.match(await rejection(engine.transaction(withoutTenant, async () => {})), { code: catalogue.databaseBusy.code })
  t.match(await rejection(engine.kysely.selectNoFrom(({ val }) => val(1).as('n')).execute()), { code: catalogue.databaseBusy.code })
  for (const release of holding) release()
  await Promise.all(held)
  t.equal(await engine.text(one, [], withoutTenant), '1')
})

test('a server without free connections is reported as a busy database', async (t) => {
  const server = await postgresServer(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString: server.connectionString, pool: { max: 2 } } })
  await engine.text(one, [], withoutTenant)
  const clients: pg.Client[] = []
  t.teardown(() => Promise.all(clients.map((client) => client.end())))
  for (;;) {
    const client = new pg.Client({ connectionString: server.connectionString })
    if (!await client.connect().then(() => true, () => false)) break
    clients.push(client)
  }
  const held = engine.transaction(withoutTenant, async (session) => {
    await session.text(one, [])
    t.match(await rejection(engine.text(one, [], { tenant: tenantRef('a') })), { code: catalogue.databaseBusy.code })
  })
  await held
})

test('an unreachable database fails the opening of the engine, and no connection stays open', async (t) => {
  const at = (connectionString: string) => rejection(createEngine({ provider: 'postgres', postgres: { connectionString } }))
  t.match(await at('postgres://nobody@127.0.0.1:1/nothing'), { code: catalogue.databaseUnavailable.code, cause: { code: 'ECONNREFUSED' } })
  t.match(await at('postgres://nobody@localhost:1/nothing'), { code: catalogue.databaseUnavailable.code })
  const { connectionString } = await postgresDatabase(t)
  t.match(await at(connectionString.replace(/[^/]*$/, 'missing')), { code: catalogue.databaseUnavailable.code, cause: { code: '3D000' } })
  for (const preparedStatements of [true, false]) {
    t.match(await rejection(createEngine({ provider: 'postgres', postgres: { connectionString, ssl: true, preparedStatements } })), {
      code: catalogue.databaseUnavailable.code,
      cause: { message: 'The server does not support SSL connections' }
    })
  }
  await t.rejects(createEngine({ provider: 'postgres' }), /needs the section "postgres"/)
})
