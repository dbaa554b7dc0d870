import { sql } from 'kysely'
import pg from 'pg'
import { type Test, test } from 'tap'
import type { Engine } from '../../../lib/database/engine.js'
import type { Topic } from '../../../lib/database/events.js'
import type { PostgresOptions } from '../../../lib/database/postgres.js'
import { atOnce } from '../../helpers/at-once.js'
import { freePort } from '../../helpers/free-port.js'
import { postgresDatabase, postgresServer } from '../../helpers/postgres.js'
import { runProgram } from '../../helpers/program.js'
import { until } from '../../helpers/until.js'
import { onEachEngine, openEngine, rejection } from './open.js'
import { openProxy } from './proxy.js'

/** The events that a server receives, and functions to wait for them. */
function hearing (engine: Pick<Engine, 'events'>, topics: readonly Topic[] = ['tenant', 'config', 'secrets', 'roles', 'api-keys']) {
  const heard: string[] = []
  let look = (): void => {}
  const note = (text: string): void => {
    heard.push(text)
    look()
  }
  for (const topic of topics) engine.events.on(topic, (tenant) => note(`${topic} ${tenant}`))
  engine.events.onGap(() => note('gap'))
  return {
    heard,
    /** Resolves when this event arrives. */
    until: (text: string) =>
      new Promise<void>((resolve) => {
        look = () => {
          if (heard.includes(text)) resolve()
        }
        look()
      })
  }
}

/** A server that receives the events of its database's other servers. */
async function openListening (t: Test, postgres: PostgresOptions) {
  const warnings: string[] = []
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres,
    migrate: 'auto',
    log: { info () {}, warn: (_object, message) => warnings.push(message) }
  })
  await engine.listen()
  return { engine, warnings, ...hearing(engine) }
}

const addTenant = (engine: Engine, id: string) =>
  engine.events.change({ topic: 'tenant', tenant: id }, async (transaction) => {
    await transaction.insertInto('tenantry.tenants').values({ id, name: id }).execute()
    return id
  })

test('a change is announced after the commit, and before its promise resolves', (t) =>
  onEachEngine(t, async (t, engine) => {
    await engine.migration.apply()
    const { heard } = hearing(engine, ['tenant', 'config'])
    t.equal(await addTenant(engine, 'a'), 'a')
    t.strictSame(heard, ['tenant a'])
    t.match(await engine.kysely.selectFrom('tenantry.tenants').select('id').execute(), [{ id: 'a' }])
  }))

test('rejected work is rolled back and not announced, and errors come from the catalogue', (t) =>
  onEachEngine(t, async (t, engine) => {
    await engine.migration.apply()
    const { heard } = hearing(engine)
    await addTenant(engine, 'a')
    const reason = new Error('no')
    t.equal(
      await rejection(engine.events.change({ topic: 'tenant', tenant: 'b' }, async (transaction) => {
        await transaction.insertInto('tenantry.tenants').values({ id: 'b', name: 'b' }).execute()
        throw reason
      })),
      reason
    )
    t.match(await rejection(addTenant(engine, 'a')), { code: 'TENANTRY_CONFLICT' })
    t.match(await rejection(engine.events.change({ topic: 'tenant', tenant: '*' }, async () => {})), /not a valid tenant id/)
    t.strictSame(heard, ['tenant a'])
    t.match(await engine.kysely.selectFrom('tenantry.tenants').select('id').execute(), [{ id: 'a' }])
  }))

// They wait for lost connections to be re-established.
test('events reach other servers on PostgreSQL', (t) =>
  atOnce(t, {
    'every server of a database receives a change once, and nothing that was rolled back': isHeardByAll,
    'a connection that the database ends is re-established, and a gap is reported': isMadeAgain,
    'a silent connection is detected, and changes missed meanwhile are a gap': isNoticed,
    'a server starts without notifications if they are unavailable, and receives them later': startsWithout,
    'an address without notifications is reported once, and all caches are cleared repeatedly': isReportedOnce,
    'a change whose commit got no response is announced to its own server too': tellsItself,
    'a change that is committed after all, when notifications were lost meanwhile, is announced to its own server': tellsItselfLater,
    'close ends the connection, and an open one keeps no process alive': closes
  }))

async function isHeardByAll (t: Test): Promise<void> {
  const { connectionString, query } = await postgresDatabase(t)
  const left = await openListening(t, { connectionString })
  const right = await openListening(t, { connectionString, preparedStatements: false })
  await addTenant(left.engine, 'a')
  await rejection(left.engine.events.change({ topic: 'tenant', tenant: 'b' }, async () => {
    throw new Error('no')
  }))
  for (
    const payload of [
      '',
      'x',
      '{',
      'null',
      '[]',
      '{"topic":"tenant"}',
      '{"topic":"tenant","tenant":"*","from":"x","number":1}',
      '{"topic":"constructor","tenant":"a","from":"x","number":1}',
      `{"topic":"tenant","tenant":"a","from":"${'x'.repeat(2000)}","number":1}`
    ]
  ) {
    await query("select pg_notify('tenantry', $1)", [payload])
  }
  await right.engine.events.change({ topic: 'config', tenant: 'a' }, async (transaction) => {
    await sql`select 1`.execute(transaction)
  })
  await Promise.all([left.until('config a'), right.until('config a')])
  // Earlier events would have arrived before these.
  await addTenant(left.engine, 'c')
  await right.until('tenant c')
  t.strictSame(left.heard, ['tenant a', 'config a', 'tenant c'])
  t.strictSame(right.heard, ['tenant a', 'config a', 'tenant c'])
}

test('a failing listener silences no other, and a removed one receives nothing', (t) =>
  onEachEngine(t, async (t, engine) => {
    await engine.migration.apply()
    const heard: string[] = []
    const ends = [
      engine.events.on('tenant', () => {
        throw new Error('no')
      }),
      engine.events.on('tenant', async () => {
        throw new Error('no')
      }),
      engine.events.on('tenant', (tenant) => heard.push(tenant))
    ]
    await addTenant(engine, 'a')
    for (const end of ends) end()
    await addTenant(engine, 'b')
    t.strictSame(heard, ['a'])
  }))

async function isMadeAgain (t: Test): Promise<void> {
  const server = await postgresServer(t)
  const { connectionString } = server
  const [left, right] = [await openListening(t, { connectionString }), await openListening(t, { connectionString })]
  t.strictSame(left.heard, [])
  const ended = await server.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tenantry notices'")
  t.equal(ended.length, 2)
  await Promise.all([left.until('gap'), right.until('gap')])
  await addTenant(left.engine, 'a')
  await right.until('tenant a')

  right.heard.length = 0
  await server.kill()
  t.match(await rejection(addTenant(left.engine, 'b')), { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
  await server.start()
  await right.until('gap')
  while (await addTenant(left.engine, 'b').catch(() => null) === null) await right.engine.ping(1000).catch(() => {})
  await right.until('tenant b')
  t.match(right.warnings[0], /was lost: reconnecting/)
}

async function isNoticed (t: Test): Promise<void> {
  const { connectionString } = await postgresDatabase(t)
  const proxy = await openProxy(t, connectionString)
  const left = await openListening(t, { connectionString: proxy.connectionString })
  const right = await openListening(t, { connectionString })
  proxy.silence()
  // A busy machine may have lost the connection before.
  left.heard.length = 0
  await addTenant(right.engine, 'a')
  await left.until('gap')
  t.notOk(left.heard.includes('tenant a'))
  let changes = 0
  // It may also lose the new one.
  await until('a later change is heard', async () => {
    await addTenant(right.engine, `b${++changes}`)
    return left.heard.some((text) => text.startsWith('tenant b'))
  })
  t.match(left.warnings.join(), /was lost: reconnecting/)
}

async function startsWithout (t: Test): Promise<void> {
  const { connectionString } = await postgresDatabase(t)
  const port = await freePort()
  const proxy = await openProxy(t, connectionString, port)
  proxy.close()
  const left = await openListening(t, { connectionString, notifyConnectionString: proxy.connectionString })
  t.match(left.warnings, [/was lost: reconnecting/])
  await addTenant(left.engine, 'a')
  t.strictSame(left.heard, ['tenant a'], 'its own')
  await openProxy(t, connectionString, port)
  await left.until('gap')
  t.equal(left.warnings.length, 1)
  const right = await openListening(t, { connectionString })
  await addTenant(right.engine, 'b')
  await left.until('tenant b')
}

async function isReportedOnce (t: Test): Promise<void> {
  const [database, other] = [await postgresDatabase(t), await postgresDatabase(t)]
  const left = await openListening(t, { connectionString: database.connectionString, notifyConnectionString: other.connectionString })
  await left.until('gap')
  left.heard.length = 0
  await left.until('gap')
  t.match(left.warnings, [/Set postgres\.notifyConnectionString/])
  t.equal(left.warnings.length, 1)
}

async function tellsItself (t: Test): Promise<void> {
  const { connectionString } = await postgresDatabase(t)
  const proxy = await openProxy(t, connectionString)
  const left = await openListening(t, { connectionString: proxy.connectionString, notifyConnectionString: connectionString })
  const right = await openListening(t, { connectionString })
  proxy.onSent = (text) => text.includes('commit')
  t.match(await rejection(addTenant(left.engine, 'a')), { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
  t.strictSame(left.heard[0], 'tenant a')
  proxy.onSent = () => false
  await right.until('tenant a')
}

async function tellsItselfLater (t: Test): Promise<void> {
  const { connectionString, query } = await postgresDatabase(t)
  const proxy = await openProxy(t, connectionString)
  const left = await openListening(t, { connectionString: proxy.connectionString, notifyConnectionString: connectionString })
  // Its commit waits for this lock.
  await query(
    `create function wait() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock_shared(1); return null; end $$;
    create constraint trigger wait after insert on tenantry.tenants deferrable initially deferred for each row execute function wait()`
  )
  const lock = new pg.Client({ connectionString })
  await lock.connect()
  await lock.query('select pg_advisory_lock(1)')
  proxy.onSent = (text) => text.includes('commit')
  t.match(await rejection(addTenant(left.engine, 'a')), { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
  proxy.onSent = () => false
  left.heard.length = 0
  await query(
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'tenantry notices'"
  )
  await left.until('gap')
  t.strictSame(await query('select id from tenantry.tenants'), [], 'a read still returns the old value')
  t.strictSame(left.heard, ['gap'])
  await lock.end()
  await left.until('tenant a')
  t.strictSame(await query('select id from tenantry.tenants'), [{ id: 'a' }])
}

async function closes (t: Test): Promise<void> {
  const { connectionString, query } = await postgresDatabase(t)
  const { engine } = await openListening(t, { connectionString })
  await engine.close()
  const count =
    "select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name = 'tenantry notices'"
  t.strictSame(await query(count), [{ n: 0 }])
  const [silent, closed] = [openListeningProgram(connectionString), openListeningProgram('postgres://nobody@127.0.0.1:1/nothing')]
  t.match(await silent, { code: 0, output: 'open\n' })
  t.match(await closed, { code: 0, output: /was lost: reconnecting\nopen\n/ })

  function openListeningProgram (address: string) {
    return runProgram(t, 'test/lib/database/notice-listener.ts', { DATABASE: address })
  }
}
