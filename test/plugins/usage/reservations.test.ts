import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { databaseUnavailable } from '../../../lib/database/failures.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { builtInPlans } from '../../../lib/plans/plans.js'
import { createReservations, maxUncertain } from '../../../plugins/usage/reservations.js'
import { createUsageStore, sweepUsage } from '../../../plugins/usage/store.js'
import { type FakeClock, fakeClock } from '../../helpers/clock.js'
import { forEachEngine, postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { admitted, instanceSilentFor, ledgerOf, open } from './app.js'

const MB = 1_048_576

const counters = [['llm_tokens', 1, '2026-06'], ['ai_cost', 1_000_000, '2026-06'], ['storage_bytes', MB, 'total']] as const

// One app for each engine, in which each test has its own tenants.
test('reservations', (t) =>
  forEachEngine(t, async (t, engine) => {
    const clock = fakeClock()
    const { app } = await open(t, engine, {
      now: clock.now,
      tenants: {
        acme: 'much',
        globex: 'seven',
        booked: 'seven',
        unused: 'seven',
        hundred: 'seven',
        other: 'seven',
        nothing: 'none',
        big: 'much'
      }
    })
    await t.test("a dead instance's reservations are resolved once; if it returns it finishes them itself", (t) => resolves(t, app))
    await t.test('the used amount is booked once, whether it is more or less than was reserved', (t) => books(t, app, clock))
    await t.test('of a hundred concurrent reservations a plan with room for seven admits seven; released ones make room again', (t) => admits(t, app))
  }))

async function resolves (t: Test, app: FastifyInstance): Promise<void> {
  const store = createUsageStore(app.engine)
  const reserve = (amount: number) => Promise.all(counters.map(([counter]) => app.usage.reserve('acme', counter, amount)))
  const [more, less, released] = [await reserve(10), await reserve(100), await reserve(1000)]
  await reserve(10_000)
  await app.usage.reserve('globex', 'storage_bytes', 7 * MB)
  const moveTo = (instance: string) => sql`update tenantry.usage_reservations set instance_id = ${instance}::uuid`.execute(app.db)
  t.equal(await store.resolve(), 0, 'none while it is alive')
  await moveTo(await instanceSilentFor(app, 25))
  t.equal(await store.resolve(), 0, 'silent for 25 s')
  await moveTo(await instanceSilentFor(app, 31))
  t.equal(
    (await Promise.all([store.resolve(), store.resolve()])).reduce((sum, count) => sum + count),
    13,
    'silent for 31 s, and two check at a time'
  )
  t.equal(await store.resolve(), 0)
  const day = (counter: string, amount: number) => ({ [`acme ${counter} 2026-06`]: amount, [`acme ${counter} 2026-06-01`]: amount })
  t.same(
    await ledgerOf(app),
    { ...day('llm_tokens', 11_110), ...day('ai_cost', 11_110) },
    'tokens and cost as reserved, no storage'
  )
  t.equal(await admitted(t, [app.usage.reserve('globex', 'storage_bytes', 7 * MB)]), 1, 'storage has its room again')

  await Promise.all(more.map((reservation) => reservation.settle(15)))
  await Promise.all(less.map((reservation) => reservation.settle(60)))
  await Promise.all(released.map((reservation) => reservation.release()))
  const left = 15 + 60 + 10_000
  t.same(await ledgerOf(app), { ...day('llm_tokens', left), ...day('ai_cost', left), 'acme storage_bytes total': 75 })
  t.equal(await store.resolve(), 0)
  const kept = async () => (await sql`select from tenantry.usage_reservations where booked is not null`.execute(app.db)).rows.length
  t.equal(await kept(), 4)
  await sql`update tenantry.usage_reservations set resolved_at = resolved_at - interval '25 hours'`.execute(app.db)
  await sweepUsage(app.db, Date.now())
  t.equal(await kept(), 0, 'after a day the instance is given up')
}

async function books (t: Test, app: FastifyInstance, clock: FakeClock): Promise<void> {
  const used = () => ledgerOf(app, ['booked', 'unused'])
  clock.forward(Date.parse('2026-06-30T23:59:00Z') - clock.now())
  const reservation = await app.usage.reserve('booked', 'llm_tokens', 5)
  for (const amount of [-1, 0.5, NaN]) await t.rejects(reservation.settle(amount), TypeError)
  await Promise.all([reservation.settle(2), reservation.settle(2), reservation.release(), reservation.settle(7)])
  await reservation.release()
  t.same(await used(), { 'booked llm_tokens 2026-06': 2, 'booked llm_tokens 2026-06-30': 2 })
  const next = await app.usage.reserve('booked', 'llm_tokens', 5)
  clock.forward(120_000)
  t.equal(await admitted(t, [app.usage.reserve('booked', 'llm_tokens', 7)]), 1, 'a new month has its full amount')
  await next.settle(50)
  t.same(
    await used(),
    { 'booked llm_tokens 2026-06': 52, 'booked llm_tokens 2026-06-30': 52 },
    'it counts for the day of the reservation'
  )
  clock.forward(-120_000)
  t.equal(await admitted(t, [app.usage.reserve('booked', 'llm_tokens', 1)]), 0, 'a clock that is set back finds the month unchanged')
  await (await app.usage.reserve('unused', 'llm_tokens', 7)).settle(0)
  t.equal(await admitted(t, [app.usage.reserve('unused', 'llm_tokens', 7)]), 1)

  await app.tenants.update('booked', { plan: 'much' })
  t.equal(await admitted(t, [app.usage.reserve('booked', 'llm_tokens', 1000)]), 1, 'a changed plan applies at once')
  await app.tenants.update('booked', { plan: 'eight' })
  t.equal(await admitted(t, [app.usage.reserve('booked', 'llm_tokens', 1)]), 0)
  await sql`update tenantry.tenants set plan = 'of another server' where id = 'unused'`.execute(app.db)
  const { llmTokensPerMonth } = app.plans.of('free').limits.ai
  const rest = await app.usage.reserve('unused', 'llm_tokens', llmTokensPerMonth - 7)
  t.equal(await admitted(t, [app.usage.reserve('unused', 'llm_tokens', 1)]), 0, "a plan that this server does not know has free's limits")
  await rest.release()
}

async function admits (t: Test, app: FastifyInstance): Promise<void> {
  for (const [counter, one, period] of counters) {
    const attempts = Array.from({ length: 100 }, () => app.usage.reserve('hundred', counter, one))
    t.equal(await admitted(t, attempts), 7, counter)
    const reservations = (await Promise.allSettled(attempts)).flatMap((result) => result.status === 'fulfilled' ? [result.value] : [])
    await Promise.all(reservations.slice(0, 3).map((reservation) => reservation.release()))
    await Promise.all(reservations.slice(3, 5).map((reservation) => reservation.settle(one)))
    t.equal((await ledgerOf(app))[`hundred ${counter} ${period}`], 2 * one, 'the used amount')
    t.equal(await admitted(t, Array.from({ length: 20 }, () => app.usage.reserve('hundred', counter, one))), 3, 'the released amount')
    t.equal(
      await admitted(t, [app.usage.reserve('other', counter, 7 * one), app.usage.reserve('other', counter, 1)]),
      1,
      'another tenant is not affected'
    )
    t.equal(await admitted(t, [app.usage.reserve('other', counter, 8 * one), app.usage.reserve('nothing', counter, 1)]), 0)
    t.equal(await admitted(t, [app.usage.reserve('big', counter, 2 ** 53 - 1), app.usage.reserve('big', counter, 2 ** 53 - 1)]), 2)
  }
}

test('a rejection names the limit, and the plan to upgrade to', async (t) => {
  const { app } = await open(t, await postgresSection(t), { tenants: { acme: 'seven', globex: 'none', free: 'free', top: 'enterprise' } })
  const refusal = (tenant: string, counter: typeof counters[number][0], amount: number) =>
    app.usage.reserve(tenant, counter, amount).then(() => t.fail('it was admitted'), (error) => error)
  t.match(await refusal('acme', 'llm_tokens', 8), {
    statusCode: 402,
    message: 'The plan "seven" includes 7 tokens of language models per month',
    extras: { allowed: false, upgrade: { plan: 'eight', limit: 8 } }
  })
  t.match(
    await refusal('acme', 'llm_tokens', 9),
    { extras: { upgrade: { plan: 'much', limit: -1 } } },
    'the lowest with room for all of it'
  )
  t.match(await refusal('acme', 'storage_bytes', 7 * MB + 1), {
    message: 'The plan "seven" includes 7 MB of files',
    extras: { upgrade: { plan: 'eight', limit: 8 } }
  })
  t.match(await refusal('free', 'storage_bytes', 201 * MB), {
    message: 'The plan "free" includes 200 MB of files',
    extras: { upgrade: { plan: 'much', limit: -1 } }
  })
  t.match(await refusal('globex', 'ai_cost', 1_500_000), {
    message: 'The plan "none" includes 0 USD for language models per month',
    extras: { upgrade: { plan: 'seven', limit: 7 } }
  })
  for (const amount of [0, -1, 1.5, NaN, 2 ** 53, Infinity]) {
    await t.rejects(app.usage.reserve('acme', 'llm_tokens', amount), TypeError, String(amount))
  }
  await t.rejects(app.usage.reserve('nobody', 'llm_tokens', 1), { code: 'TENANTRY_TENANT_UNKNOWN' })
})

test("two servers together admit the plan's amount", async (t) => {
  const engine = await postgresSection(t)
  const { app: here } = await open(t, engine, { tenants: { acme: 'seven' } })
  const { app: there } = await open(t, engine)
  for (const [counter, one] of counters) {
    t.equal(
      await admitted(
        t,
        Array.from({ length: 100 }, (_none, index) => (index % 2 === 0 ? here : there).usage.reserve('acme', counter, one))
      ),
      7,
      counter
    )
  }
})

test('a server that stops cleanly leaves no reservation, and no row of its own', async (t) => {
  const engine = await postgresSection(t)
  const { app: here } = await open(t, engine, { tenants: { acme: 'much' }, now: fakeClock().now })
  const { app: there } = await open(t, engine, { now: fakeClock().now })
  for (const [counter] of counters) await there.usage.reserve('acme', counter, 7)
  await there.usage.take('acme', 'connections')
  there.usage.record('acme', 'api_calls', 3)
  await there.close()
  t.same(await ledgerOf(here), {
    'acme ai_cost 2026-06': 7,
    'acme ai_cost 2026-06-01': 7,
    'acme api_calls 2026-06': 3,
    'acme api_calls 2026-06-01': 3,
    'acme llm_tokens 2026-06': 7,
    'acme llm_tokens 2026-06-01': 7
  })
  await here.usage.flush()
  const { rows: [rows] } =
    await sql`select (select count(*)::int from tenantry.usage_reservations) as reservations, (select count(*)::int from tenantry.usage_gauges) as gauges, (select count(*)::int from tenantry.usage_instances) as instances`
      .execute(here.db)
  t.match(rows, { reservations: 0, gauges: 0 })
  t.ok(Number(Object(rows).instances) <= 1)
})

test('reservations that an outage refuses take a bounded part of the memory', async (t) => {
  const { app } = await open(t, await postgresSection(t), { now: fakeClock().now, tenants: {} })
  const reservations = createReservations({
    store: {
      async reserve () {
        throw databaseUnavailable()
      },
      async settle () {}
    },
    instance: '',
    plans: builtInPlans,
    registered: () => {},
    notices: { reached: () => {} },
    now: Date.now,
    log: app.log
  })
  for (let made = 0; made <= maxUncertain; made++) await reservations.reserve(tenantRef('acme'), 'llm_tokens', 1).catch(() => {})
  t.equal(reservations.late, maxUncertain)
  await reservations.settleLate()
  t.equal(reservations.late, 0, 'they are released when the database is back')
})

test('reservations work with row-level security, under a role that obeys it', async (t) => {
  const { connectionString, admin } = await postgresDatabase(t, { role: 'owner' })
  const { app, as } = await open(t, { provider: 'postgres', postgres: { connectionString, rowLevelSecurity: true } }, {
    now: fakeClock().now,
    tenants: { acme: 'seven', globex: 'seven' }
  })
  for (const [counter, one] of counters) {
    t.equal(await admitted(t, Array.from({ length: 20 }, () => app.usage.reserve('acme', counter, one))), 7)
    await (await app.usage.reserve('globex', counter, one)).settle(one)
  }
  t.equal(await admitted(t, Array.from({ length: 20 }, () => app.usage.take('acme', 'rooms'))), 7)
  t.match(await as('globex')('GET /billing/usage'), { status: 200, body: { usage: { fileStorage: { storage: { current: MB } } } } })
  t.match((await as('globex')('GET /usage/summary')).body, { llm_tokens: 1, api_calls: 1 })
  const policies = await admin("select count(*)::int as count from pg_policies where tablename like 'usage_%'")
  t.same(policies, [{ count: 10 }])
})
