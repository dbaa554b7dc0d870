import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { createEngine } from '../../../lib/database/index.js'
import { planSql } from '../../../lib/database/migrations/plan.js'
import { noFigures } from '../../../plugins/usage/counts.js'
import { maxAmount } from '../../../plugins/usage/metrics.js'
import { createUsage } from '../../../plugins/usage/service.js'
import { createUsageStore, type UsageStore } from '../../../plugins/usage/store.js'
import { fakeClock } from '../../helpers/clock.js'
import { forEachEngine, postgresDatabase, postgresSection, postgresServer } from '../../helpers/postgres.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { until } from '../../helpers/until.js'
import { ledgerOf, open, type Opened } from './app.js'

// One app for each engine, in which each test has its own tenants.
test('the ledger', (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine, {
      now: fakeClock().now,
      tenants: { acme: 'free', globex: 'free', sums: 'much', leaver: 'much', stayer: 'much' }
    })
    await t.test('a write whose response was lost counts once, also with later counts', (t) => countsOnce(t, opened))
    await t.test("sums are capped at JSON's largest exact number; freed storage is floored at zero", (t) => endsExactly(t, opened))
    await t.test('figures belong to a tenant created in the same millisecond', (t) => isOfThatMillisecond(t, opened))
    await t.test("a deleted tenant's figures are removed, do not return with a late write, and do not count for a later tenant with its id", (t) =>
      isGone(t, opened))
  }))

async function countsOnce (t: Test, { app }: Opened): Promise<void> {
  const clock = fakeClock()
  const real = createUsageStore(app.engine)
  const faults: ('before' | 'after' | null)[] = []
  const store: UsageStore = {
    ...real,
    async write (...batch) {
      const fault = faults.shift() ?? null
      if (fault === 'before') throw new Error('the statement was not sent')
      const written = await real.write(...batch)
      if (fault === 'after') throw new Error('the response was lost')
      return written
    }
  }
  const service = createUsage({ engine: app.engine, tenants: app.tenants, plans: app.plans, log: app.log, now: clock.now, store })
  let sum = 0
  for (const [round, fault] of (['after', null, 'before', 'after', 'after', 'before', null, 'after', null, null] as const).entries()) {
    faults.push(fault)
    service.record('acme', 'api_calls', round + 1)
    sum += round + 1
    await (fault === null ? service.flush() : t.rejects(service.flush(), /the response was lost|the statement was not sent/))
  }
  await Promise.all([service.flush(), service.flush(), service.flush()])
  t.same(await ledgerOf(app), { 'acme api_calls 2026-06': sum, 'acme api_calls 2026-06-01': sum })

  service.record('globex', 'bandwidth_bytes', 7)
  faults.push('after')
  await t.rejects(service.flush(), /the response was lost|the statement was not sent/)
  await service.take('globex', 'rooms').catch(() => {})
  service.give('globex', 'rooms')
  await service.flush()
  t.match(await ledgerOf(app), { 'globex bandwidth_bytes 2026-06': 7 })
  t.match((await service.report('globex')).usage.websocket.rooms, { current: 0 }, 'gauges of a repeated write are still written')
  await service.close()
}

async function endsExactly (t: Test, { app, as }: Opened): Promise<void> {
  for (let round = 0; round < 3; round++) {
    app.usage.record('sums', 'bandwidth_bytes', maxAmount)
    app.usage.record('sums', 'bandwidth_bytes', maxAmount - 1)
    await app.usage.flush()
  }
  t.equal((await ledgerOf(app))['sums bandwidth_bytes 2026-06'], maxAmount)
  for (let round = 0; round < 2; round++) await (await app.usage.reserve('sums', 'storage_bytes', maxAmount)).settle(maxAmount)
  const response = await as('sums')('GET /usage/summary')
  t.match(response.text, `"storage_bytes":${maxAmount},`)
  await app.usage.free('sums', 'storage_bytes', maxAmount - 5)
  t.equal((await ledgerOf(app))['sums storage_bytes total'], 5)
  await Promise.all([1, 2, 3, 4].map((amount) => app.usage.free('sums', 'storage_bytes', amount)))
  t.equal((await ledgerOf(app))['sums storage_bytes total'], 0)
  await (await app.usage.reserve('sums', 'storage_bytes', 3)).settle(3)
  t.equal((await app.usage.summary('sums')).storage_bytes, 3)
  for (const amount of [-1, 0.5, NaN, 2 ** 53]) {
    t.throws(() => app.usage.record('sums', 'api_calls', amount), TypeError)
    await t.rejects(app.usage.free('sums', 'storage_bytes', amount), TypeError)
  }
}

async function isOfThatMillisecond (t: Test, { app }: Opened): Promise<void> {
  const at = Date.parse('2026-05-01T12:00:00.123Z')
  const micros = { first: '123000', last: '123999', before: '122999', after: '124000' }
  for (const [id, fraction] of Object.entries(micros)) {
    await sql`insert into tenantry.tenants (id, name, created_at) values (${id}, ${id}, ${`2026-05-01T12:00:00.${fraction}Z`}::timestamptz)`
      .execute(app.db)
  }
  const tenants = Object.keys(micros)
  const figures = {
    ...noFigures,
    day: '2026-06-01',
    tenants,
    since: tenants.map(() => at),
    calls: tenants.map(() => 1),
    bandwidth: tenants.map(() => 0)
  }
  const store = createUsageStore(app.engine)
  t.equal(await store.write('00000000-0000-0000-0000-000000000001', { number: 1, figures }, []), true)
  t.equal(await store.write('00000000-0000-0000-0000-000000000001', { number: 1, figures }, []), false)
  t.same(await ledgerOf(app, tenants), {
    'first api_calls 2026-06': 1,
    'first api_calls 2026-06-01': 1,
    'last api_calls 2026-06': 1,
    'last api_calls 2026-06-01': 1
  })
}

async function isGone (t: Test, { app }: Opened): Promise<void> {
  // It writes on request instead of every second: the test decides what one second contains.
  const usage = createUsage({ engine: app.engine, tenants: app.tenants, plans: app.plans, log: app.log, now: fakeClock().now })
  const use = async () => {
    usage.record('leaver', 'api_calls', 5)
    usage.record('stayer', 'api_calls', 1)
    await usage.take('leaver', 'connections')
    await usage.flush()
    return await usage.reserve('leaver', 'llm_tokens', 100)
  }
  const reservation = await use()
  usage.record('leaver', 'api_calls', 50)
  await app.tenants.delete('leaver')
  usage.give('leaver', 'connections')
  await usage.flush()
  await reservation.settle(100)
  await usage.free('leaver', 'storage_bytes', 3)
  const left = { 'stayer api_calls 2026-06': 1, 'stayer api_calls 2026-06-01': 1 }
  t.same(await ledgerOf(app, ['leaver', 'stayer']), left)
  await t.rejects(usage.reserve('leaver', 'storage_bytes', 1), { code: 'TENANTRY_TENANT_UNKNOWN' })
  await t.rejects(usage.take('leaver', 'rooms'), { code: 'TENANTRY_TENANT_UNKNOWN' })
  await t.rejects(usage.report('leaver'), { code: 'TENANTRY_TENANT_UNKNOWN' })

  await app.tenants.create({ id: 'leaver', name: 'leaver', plan: 'seven' })
  await usage.take('leaver', 'connections')
  await usage.take('leaver', 'connections')
  usage.record('leaver', 'api_calls', 2)
  await app.tenants.delete('leaver')
  await app.tenants.create({ id: 'leaver', name: 'leaver', plan: 'seven' })
  usage.record('leaver', 'api_calls', 1)
  await usage.flush()
  t.notOk(
    (await ledgerOf(app))['leaver api_calls 2026-06'],
    "the previous tenant's counts are dropped, with those added within the second"
  )
  t.match(await usage.report('leaver'), { usage: { websocket: { connections: { current: 0 } } } })
  await usage.take('leaver', 'connections')
  t.match(await usage.report('leaver'), { usage: { websocket: { connections: { current: 1 } } } })
  for (let index = 0; index < 2; index++) usage.give('leaver', 'connections')
  t.match(
    await usage.report('leaver'),
    { usage: { websocket: { connections: { current: 1 } } } },
    'gauges that the previous tenant had open do not affect this one'
  )
  usage.give('leaver', 'connections')
  t.match(await usage.report('leaver'), { usage: { websocket: { connections: { current: 0 } } } })
  usage.record('leaver', 'api_calls', 3)
  t.equal((await usage.summary('leaver')).api_calls, 3)
  await usage.close()
}

test('servers that write the same tenants concurrently do not deadlock', async (t) => {
  const { app } = await open(t, await postgresSection(t), { now: fakeClock().now })
  await sql`insert into tenantry.tenants (id, name) select 't' || i, 't' from generate_series(0, 499) i`.execute(app.db)
  const parts = { engine: app.engine, tenants: { get: () => null }, plans: app.plans, log: app.log, now: fakeClock().now }
  const createdAt = (await app.db.selectFrom('tenantry.tenants').select('created_at').executeTakeFirstOrThrow()).created_at
  const request = (service: ReturnType<typeof createUsage>, index: number) =>
    service.request({ ...scopeTenant(`t${index}`), name: 't', plan: 'free', status: 'active', createdAt }, 1)
  const [one, other] = [createUsage(parts), createUsage(parts)]
  for (let round = 0; round < 20; round++) {
    for (let index = 0; index < 500; index++) {
      request(one, index)
      request(other, 499 - index)
    }
    await Promise.all([one.flush(), other.flush()])
  }
  const { rows } =
    await sql`select api_calls::int as calls, bandwidth_bytes::int as bytes, count(*)::int as tenants from tenantry.usage_requests group by 1, 2`
      .execute(app.db)
  t.same(rows, [{ calls: 40, bytes: 40, tenants: 500 }])
  await Promise.all([one.close(), other.close()])
})

test('requests counted before they had their own rows are migrated, by the script too', async (t) => {
  const { connectionString, query, admin } = await postgresDatabase(t, { empty: true, role: 'owner' })
  const engine = await createEngine({ provider: 'postgres', postgres: { connectionString } })
  t.teardown(() => engine.close())
  const plan = await engine.migration.plan()
  await query(planSql({ ...plan, migrations: plan.migrations.filter(({ name }) => !name.endsWith('_usage_requests')) }))
  await admin("insert into tenantry.tenants (id, name) values ('acme', 'a'), ('globex', 'g')")
  await admin(
    `insert into tenantry.usage_counters values ('acme', 'api_calls', '2026-06-01', 5), ('acme', 'bandwidth_bytes', '2026-06-01', 70), ('acme', 'api_calls', '2026-06-02', ${maxAmount}),
    ('acme', 'llm_tokens', '2026-06-01', 9), ('globex', 'bandwidth_bytes', '2026-06-02', 3), ('globex', 'storage_bytes', 'total', 4)`
  )
  await query(planSql(await engine.migration.plan()))
  t.same(await engine.pendingMigrations(), [])
  t.same(
    await admin(
      'select tenant_id, day, api_calls::text as calls, bandwidth_bytes::text as bytes from tenantry.usage_requests order by 1, 2'
    ),
    [
      { tenant_id: 'acme', day: '2026-06-01', calls: '5', bytes: '70' },
      { tenant_id: 'acme', day: '2026-06-02', calls: String(maxAmount), bytes: '0' },
      { tenant_id: 'globex', day: '2026-06-02', calls: '0', bytes: '3' }
    ]
  )
  t.same(await admin('select counter, amount::int as amount from tenantry.usage_counters order by 1'), [{
    counter: 'llm_tokens',
    amount: 9
  }, { counter: 'storage_bytes', amount: 4 }], 'other counters stay')
})

test('during a database outage figures wait, and are written afterwards', async (t) => {
  const server = await postgresServer(t)
  const lines: string[] = []
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString: server.connectionString } }, {
    now: fakeClock().now,
    tenants: { acme: 'much' },
    onLog: (line) => lines.push(line)
  })
  app.usage.record('acme', 'api_calls', 1)
  const [settled, released] = [await app.usage.reserve('acme', 'llm_tokens', 10), await app.usage.reserve('acme', 'llm_tokens', 1000)]
  await app.usage.take('acme', 'rooms')
  await app.usage.take('acme', 'rooms')
  await server.stop()
  for (let round = 0; round < 3; round++) {
    app.usage.record('acme', 'api_calls', 10)
    await t.rejects(app.usage.flush(), { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
  }
  await settled.settle(15)
  await released.release()
  await app.usage.free('acme', 'storage_bytes', 1)
  app.usage.give('acme', 'rooms')
  await t.rejects(app.usage.reserve('acme', 'llm_tokens', 1), { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
  await t.rejects(app.usage.take('acme', 'connections'), { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
  await t.rejects(app.usage.summary('acme'), { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
  await server.start()
  // Automatically, within a few heartbeats.
  await until('usage is written again', async () => (await ledgerOf(app).catch(() => null))?.['acme llm_tokens 2026-06'] === 15)
  t.match(await app.usage.summary('acme'), { api_calls: 31, llm_tokens: 15 })
  t.match(await app.usage.report('acme'), { usage: { websocket: { rooms: { current: 1 }, connections: { current: 0 } } } })
  const { rows } = await sql`select from tenantry.usage_reservations`.execute(app.db)
  t.equal(rows.length, 0, 'nothing is reserved any more')
  t.ok(lines.filter((line) => line.includes('usage cannot be written')).length <= 1, 'it is logged once')
})
