import { test } from 'tap'
import { createEngine } from '../../../lib/database/index.js'
import { createServer } from '../../../lib/server.js'
import { startPgBouncer } from '../../helpers/pgbouncer.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { bearer, testSecret } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { openEngine, rejection, withoutTenant } from './open.js'

const tables = { notes: { columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } }, tenantScoped: true } } as const
const count = { text: 'select count(*)::text from notes' }

test('a start through a transaction pooler that would lose session settings is rejected', async (t) => {
  const { connectionString: direct } = await postgresDatabase(t, { role: 'owner' })
  const { connectionString } = await startPgBouncer(t, direct, 'transaction')
  for (const rowLevelSecurity of [false, true]) {
    t.match(await rejection(createEngine({ provider: 'postgres', postgres: { connectionString, rowLevelSecurity } })), {
      message: /transaction pooler.*"preparedStatements": false/
    })
    const engine = await openEngine(t, {
      provider: 'postgres',
      postgres: { connectionString, rowLevelSecurity, preparedStatements: false },
      tables,
      migrate: 'auto'
    })
    t.strictSame(await engine.pendingMigrations(), [], 'migrations run through the pooler')
  }
})

test('migrations of existing tables run through a transaction pooler', async (t) => {
  const { connectionString: direct } = await postgresDatabase(t, {
    role: 'owner',
    sql: "create table notes (id int primary key, tenant_id text not null); insert into notes values (1, 'a')"
  })
  const { connectionString } = await startPgBouncer(t, direct, 'transaction')
  const declared = {
    notes: {
      ...tables.notes,
      columns: { ...tables.notes.columns, title: { type: 'text', unique: true }, key: { type: 'uuid', notNull: true, default: 'uuid()' } }
    }
  } as const
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString, preparedStatements: false },
    tables: declared,
    migrate: 'auto'
  })
  t.strictSame((await engine.migration.plan()).migrations, [])
  t.equal(await engine.text({ text: 'select count(key)::text from notes' }, [], withoutTenant), '1')
})

test('statements wait for a connection in use while the database accepts no further ones', async (t) => {
  const { name, connectionString, admin, disconnect } = await postgresDatabase(t, { role: 'owner' })
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString, preparedStatements: false, pool: { max: 20, acquireTimeoutMs: 60_000 } },
    tables,
    migrate: 'auto'
  })
  const statements = (text: string) =>
    Promise.all(Array.from({ length: 50 }, () => engine.text({ text }, [], withoutTenant).then(() => 'done', (error: unknown) => error)))
  await admin(`alter database ${name} connection limit 4`)
  t.same([...new Set(await statements('select pg_sleep(0.02)::text'))], ['done'])

  await admin(`alter database ${name} connection limit 0`)
  const waiting = statements('select pg_sleep(60)::text')
  await until('a statement runs', async () => (await admin("select from pg_stat_activity where query like '%pg_sleep(60)%'")).length > 1)
  await disconnect()
  for (const error of await waiting) t.match(error, { code: /^TENANTRY_DATABASE_(UNAVAILABLE|BUSY)$/ })
})

test('a session pooler is accepted', async (t) => {
  const { connectionString: direct } = await postgresDatabase(t, { role: 'owner' })
  const pooler = await startPgBouncer(t, direct, 'session')
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString: pooler.connectionString },
    tables,
    migrate: 'auto'
  })
  t.equal(await engine.text(count, [], withoutTenant), '0')
})

test('behind a pooler that loses session settings, requests fail instead of finding no rows', async (t) => {
  const database = await postgresDatabase(t, { role: 'owner' })
  const pooler = await startPgBouncer(t, database.connectionString, 'session')
  const lines: { msg: string, err?: { message: string } }[] = []
  const app = createServer({
    databaseProvider: 'postgres',
    postgres: { connectionString: pooler.connectionString, pool: { max: 4 } },
    migrate: 'auto',
    jwt: { secret: testSecret },
    rateLimit: { enabled: false },
    tables,
    plugins: { secrets: false, webhooks: false },
    routes: [
      { path: '/notes/:id', method: 'get', requireAuth: true, queries: [{ table: 'notes', operation: 'select', id: '{{params.id}}' }] }
    ]
  }, {
    env: {},
    logger: {
      level: 'warn',
      stream: {
        write: (line: string) => {
          lines.push(JSON.parse(line))
        }
      }
    }
  })
  t.teardown(() => app.close())
  await app.ready()
  await database.admin("insert into notes (id, tenant_id, title) values (1, 'a', 'x')")
  const read = () => app.inject({ url: '/notes/1', headers: bearer({ tenant_id: 'a' }) })
  t.equal((await read()).statusCode, 200)

  // The pooler switches to transaction pooling, and opens its sessions anew.
  await pooler.poolMode('transaction')
  await pooler.command('reconnect')
  await database.disconnect()
  const statuses = new Map<number, number>()
  const saysWhy = () =>
    lines.some(({ msg }) =>
      /has lost its setting app\.tenant_id: a pooler.*postgres\.preparedStatements and postgres\.rowLevelSecurity/.test(msg)
    )
  // On a busy machine most requests may fail for lack of a connection.
  for (let round = 0; round < 100 || (round < 1000 && !saysWhy()); round++) {
    if (round % 10 === 0) await pooler.command('reconnect')
    for (const { statusCode } of await Promise.all([read(), read(), read(), read()])) {
      statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1)
    }
  }
  t.strictSame([...statuses.keys()].filter((status) => status !== 200 && status !== 503), [])
  t.ok((statuses.get(503) ?? 0) > 0, 'settings were lost')
  t.ok(saysWhy(), 'the log contains the reason')
})

test('a setting that ended with its transaction is rejected like a missing one', async (t) => {
  const database = await postgresDatabase(t, { role: 'owner' })
  await openEngine(t, { provider: 'postgres', postgres: { connectionString: database.connectionString }, tables, migrate: 'auto' })
  await database.admin("insert into notes (id, tenant_id) values (1, 'a')")
  t.match(await rejection(database.query('select * from notes')), { code: '42704', message: /"app\.tenant_id"/ })
  t.match(await rejection(database.query("begin; set local app.tenant_id = 'a'; select * from notes; commit; select * from notes")), {
    code: '42704',
    message: /app\.tenant_id \(empty\)/
  })
  t.match(await rejection(database.query("set app.tenant_id = ''; insert into notes (id, tenant_id) values (2, '')")), { code: '42704' })
  t.strictSame(await database.query("set app.tenant_id = '/platform'; select * from notes"), [])
})

test('policies of an earlier version are replaced, on the tables of the server and of the application', async (t) => {
  const database = await postgresDatabase(t, { role: 'owner' })
  const open = () =>
    openEngine(t, { provider: 'postgres', postgres: { connectionString: database.connectionString }, tables, migrate: 'auto' })
  await open()
  const old = "((select current_setting('app.tenant_id', true)) in (tenant_id, '*'))"
  const changed = ['notes', 'tenantry.webhook_events', 'tenantry_queue.job']
  for (const table of changed) {
    await database.admin(
      ['isolation', 'access'].map((name) => `alter policy tenantry_${name} on ${table} using ${old} with check ${old}`).join(';')
    )
  }
  const rules =
    'select polrelid::regclass::text as name, pg_get_expr(polqual, polrelid) as rule, pg_get_expr(polwithcheck, polrelid) as check from pg_policy order by 1, polname'
  t.equal((await database.query(rules)).filter(({ rule }) => String(rule).includes('SELECT')).length, 6)
  const engine = await open()
  t.strictSame((await engine.migration.plan()).migrations, [])
  const fresh = await postgresDatabase(t, { role: 'owner' })
  await openEngine(t, { provider: 'postgres', postgres: { connectionString: fresh.connectionString }, tables, migrate: 'auto' })
  t.strictSame(await database.query(rules), await fresh.query(rules))
})
