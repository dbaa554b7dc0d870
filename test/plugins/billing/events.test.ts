/** Events of a payment provider: each counts once, for its tenant alone, whole or not at all. */
import { test } from 'tap'
import { sql } from 'kysely'
import { postgresDatabase } from '../../helpers/postgres.js'
import { until } from '../../helpers/instances.js'
import { maxOrphans } from '../../../plugins/billing/orphan-events.js'
import { at, bareEvent, day, eventOf, products, snapshotOf } from './month.js'
import { addTenant, audited, open, rowsOf } from './tenants.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'

const tenantOf = (id: string) => ({ id: `sub_${id}`, tenant: tenantRef(id), customerId: `cus_${id}` })

test('one event that comes twenty times at once to two servers counts once', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const here = await open(t, engine, { tenants: { acme: 'free', globex: 'free' } })
  const there = await open(t, engine, { clock: here.clock })
  const event = eventOf(snapshotOf(tenantOf('acme')))
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? here : there).billing.receive('payprov', event))
  )
  t.same(outcomes.sort(), ['applied', ...Array.from({ length: 19 }, () => 'duplicate')])
  t.same(await audited(here.app), ['acme billing.subscription sub_acme', 'acme billing.plan pro'])
  t.equal(
    await here.billing.receive('payprov', {
      ...event,
      snapshot: snapshotOf({ ...tenantOf('acme'), asOf: at(20), productIds: [products.team_monthly] })
    }),
    'duplicate',
    'whatever it holds'
  )
  t.equal(
    await here.billing.receive('altprov', eventOf(snapshotOf({ ...tenantOf('acme'), asOf: at(-1) }))),
    'applied',
    'the same subscription of another provider is another one'
  )
  t.equal(await here.billing.receive('payprov', eventOf(snapshotOf({ ...tenantOf('acme'), asOf: at(-1), status: 'past_due' }))), 'stale')
  t.match(
    await rowsOf(here.app, 'globex'),
    { tenant: [{ plan: 'free' }], memory: [], subscriptions: [] },
    'the other tenant has nothing of it'
  )
})

test('a change of plan is announced to every server, and nothing else is', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const { app: here, billing } = await open(t, engine, { tenants: { acme: 'free' } })
  const { app: there } = await open(t, engine)
  const heard: string[] = []
  t.teardown(there.events.on('tenant', (tenant) => {
    heard.push(tenant)
  }))
  const planThere = async () => (await there.tenants.get('acme'))?.plan
  t.equal(await planThere(), 'free', 'it is remembered')
  const own = tenantOf('acme')
  for (
    const [asOf, changes, plan] of [
      [at(0), {}, 'pro'],
      [at(1), { productIds: [products.team_monthly] }, 'team'],
      [at(2), { status: 'canceled', endedAt: at(2) }, 'free']
    ] as const
  ) {
    await billing.receive('payprov', eventOf(snapshotOf({ ...own, ...changes, asOf })))
    t.equal((await here.tenants.get('acme'))?.plan, plan, 'at once where the event came')
    const { milliseconds } = await until(t, `${plan} on the other server`, async () => await planThere() === plan)
    t.comment(milliseconds)
  }
  t.same(heard, ['acme', 'acme', 'acme'])
  // What changes no plan is told to nobody: what comes after it is heard before it would be.
  const again = { ...own, id: 'sub_again', startedAt: at(3) }
  await billing.receive('payprov', eventOf(snapshotOf({ ...again, status: 'incomplete', asOf: at(3) })))
  await billing.receive('payprov', bareEvent(at(3), 'sub_again', 'failed'))
  await here.events.change({ topic: 'tenant', tenant: tenantRef('globex') }, async () => {})
  await until(t, 'the last notice', async () => heard.includes('globex'))
  t.same(heard, ['acme', 'acme', 'acme', 'globex'])
})

test('what the platform sets stands until the subscriptions give something else', async (t) => {
  const { app, billing } = await open(t, { provider: 'embedded' }, { tenants: { acme: 'free', sold: 'scale', old: 'scale' } })
  const own = tenantOf('acme')
  const planOf = async (id: string) => (await app.tenants.get(id))?.plan
  await billing.receive('payprov', eventOf(snapshotOf({ ...own, asOf: at(0) })))
  t.equal(await planOf('acme'), 'pro')
  await app.tenants.update('acme', { plan: 'scale' })
  await billing.receive('payprov', eventOf(snapshotOf({ ...own, asOf: at(1), cancelAtPeriodEnd: true })))
  await billing.receive('payprov', eventOf(snapshotOf({ ...own, asOf: at(2), status: 'past_due', pastDueSince: at(29) })))
  t.equal(await planOf('acme'), 'scale', 'the subscription gives what it gave')
  t.match(await billing.subscription('acme'), { plan: 'scale', status: 'past_due' })
  await billing.receive('payprov', eventOf(snapshotOf({ ...own, asOf: at(3), productIds: [products.team_monthly] })))
  t.equal(await planOf('acme'), 'team', 'it gives another plan')
  await billing.receive(
    'payprov',
    eventOf(snapshotOf({ ...own, asOf: at(4), productIds: [products.team_monthly], status: 'canceled', endedAt: at(4) }))
  )
  t.equal(await planOf('acme'), 'free', 'it ends')
  await app.tenants.update('acme', { plan: 'enterprise' })
  await billing.receive('payprov', bareEvent(at(5), own.id, 'refunded'))
  t.equal(await planOf('acme'), 'enterprise')
  t.match(
    await billing.subscription('acme'),
    { plan: 'enterprise', status: 'active', paymentMethod: 'none' },
    'and it is none of a provider'
  )

  await billing.receive('payprov', eventOf(snapshotOf({ ...tenantOf('sold'), status: 'incomplete' })))
  t.equal(await planOf('sold'), 'scale', 'a checkout that nobody paid takes nothing')
  await billing.receive(
    'payprov',
    eventOf(snapshotOf({ ...tenantOf('old'), startedAt: at(-60), status: 'canceled', endedAt: at(-40), periodEnd: at(-30) }))
  )
  t.equal(await planOf('old'), 'scale', 'nor does one that had ended before the tenant was there')
})

test('an event whose tenant is not there is kept and reported, and counts when there is one', async (t) => {
  const { app, billing, warnings } = await open(t, { provider: 'embedded' })
  const events = ['later', 'synced'].map((id) => eventOf(snapshotOf(tenantOf(id))))
  const odd = eventOf(snapshotOf({ ...tenantOf("*'\n"), id: 'sub_odd' }))
  const nobody = bareEvent(at(1), 'sub_later', 'paid', { tenant: null, customerId: null })
  for (const event of [...events, odd, nobody]) {
    t.equal(await billing.receive('payprov', event), 'unclaimed')
    t.equal(await billing.receive('payprov', event), 'duplicate', 'it is reported once')
  }
  t.match(
    warnings.map(({ level, tenant, event }) => ({ level, tenant, event })),
    [...events, odd, nobody].map(({ id, tenant }) => ({ level: 40, tenant, event: id }))
  )
  t.equal((await audited(app)).filter((line) => line.startsWith(' billing.event_unclaimed')).length, 4, "in the platform's log")
  t.equal(await billing.settleDue(), 0)

  await addTenant(app, 'later', 'free')
  t.equal(await billing.settleDue(), 1)
  t.match(await rowsOf(app, 'later'), {
    tenant: [{ plan: 'pro' }],
    subscriptions: [{ id: 'sub_later', asked_at: at(1).toISOString() }],
    unclaimed: []
  })
  t.same((await audited(app)).filter((line) => line.startsWith('later')), [
    'later billing.subscription sub_later',
    `later billing.payment ${nobody.payment?.id}`,
    'later billing.plan pro'
  ])
  await addTenant(app, 'synced', 'free')
  t.match(await billing.sync('synced'), { plan: 'pro', status: 'active' }, 'at a sync')
  t.equal(await billing.receive('payprov', { ...events[0] ?? odd }), 'duplicate', 'it has counted')
  t.equal(await billing.settleDue(), 0)

  // A full house, and one more.
  await sql`insert into tenantry.billing_unclaimed (provider, id, event, received_at) select 'payprov', 'n' || n, '{}', ${
    at(30)
  } from generate_series(1, ${maxOrphans}::int) n`.execute(app.db)
  for (let more = 0; more < 2; more++) t.equal(await billing.receive('payprov', eventOf(snapshotOf(tenantOf('nobody')))), 'unclaimed')
  const { rows } =
    await sql`select count(*)::int as count, count(*) filter (where tenant = 'nobody')::int as own from tenantry.billing_unclaimed`.execute(
      app.db
    )
  t.same(rows, [{ count: maxOrphans, own: 2 }], 'the oldest leave')
})

test('a tenant that is deleted has its events no more, and one of its id begins with nothing', async (t) => {
  const { app, billing, provider, clock, warnings } = await open(t, { provider: 'embedded' }, { tenants: { acme: 'free', globex: 'free' } })
  const own = snapshotOf(tenantOf('acme'))
  for (const id of ['acme', 'globex']) await billing.receive('payprov', eventOf(snapshotOf(tenantOf(id))))
  const other = await rowsOf(app, 'globex')
  await app.tenants.delete('acme')
  t.match(await rowsOf(app, 'acme'), { tenant: [], memory: [], subscriptions: [] })
  const { rows } = await sql`select tenant_id from tenantry.billing_events`.execute(app.db)
  t.same(rows, [{ tenant_id: 'globex' }])
  const renewal = eventOf({ ...own, asOf: at(30), periodStart: at(30), periodEnd: at(60) })
  t.equal(await billing.receive('payprov', renewal), 'unclaimed')
  t.equal(await billing.receive('payprov', bareEvent(at(30), own.id, 'paid', { tenant: null })), 'unclaimed', 'nobody knows whose it is')

  await sql`update tenantry.deleted_tenants set deleted_at = ${at(30, 60)} where id = 'acme'`.execute(app.db)
  await app.tenants.create({ id: 'acme', name: 'acme' })
  await billing.settleDue()
  provider.answer = async () => [own]
  t.match(await billing.sync('acme'), { plan: 'free', paymentMethod: 'none' }, 'not even by what the provider has of it')
  t.equal(await billing.receive('payprov', eventOf({ ...own, asOf: at(31) })), 'unclaimed')
  t.match(warnings.at(-1), { tenant: tenantRef('acme'), msg: /a deleted tenant/ })
  t.match(await rowsOf(app, 'acme'), { tenant: [{ plan: 'free' }], subscriptions: [] })
  clock.forward(day)
  t.equal(
    await billing.receive('payprov', eventOf({ ...own, id: 'sub_new', startedAt: at(31), periodEnd: at(61), asOf: at(31) })),
    'applied',
    'but by what it subscribes to itself'
  )
  t.equal((await app.tenants.get('acme'))?.plan, 'pro')
  t.same(await rowsOf(app, 'globex'), other)
})

test('an event that cannot be written leaves nothing, and counts when it comes again', async (t) => {
  const { app, billing } = await open(t, { provider: 'embedded' }, { tenants: { acme: 'free' } })
  const before = await rowsOf(app, 'acme')
  const event = eventOf(snapshotOf(tenantOf('acme')))
  await sql`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$`.execute(app.db)
  // The last thing that is written.
  await sql`create trigger refuse before insert on tenantry.audit_log for each row execute function refuse()`.execute(app.db)
  await t.rejects(billing.receive('payprov', event))
  t.same(await rowsOf(app, 'acme'), before)
  t.equal((await app.tenants.get('acme'))?.plan, 'free')
  await sql`drop trigger refuse on tenantry.audit_log`.execute(app.db)
  t.equal(await billing.receive('payprov', event), 'applied')
  t.equal((await app.tenants.get('acme'))?.plan, 'pro')
})

test('what a provider tells of another tenant is not taken for an answer', async (t) => {
  const { app, billing, provider, warnings } = await open(t, { provider: 'embedded' }, { tenants: { acme: 'free', globex: 'free' } })
  provider.answer = async () => [snapshotOf(tenantOf('globex'))]
  t.match(await billing.sync('acme'), { plan: 'free' })
  await billing.record('payprov', 'acme', [snapshotOf(tenantOf('globex'))])
  t.match(await rowsOf(app, 'acme'), { subscriptions: [] })
  t.match(warnings, [{ tenant: tenantRef('acme'), named: 'globex' }, { named: 'globex' }])
  await billing.record('payprov', 'nobody', [snapshotOf(tenantOf('nobody'))])
  t.match(await rowsOf(app, 'nobody'), { subscriptions: [] }, 'nor is one of a tenant that is not there')
})

test('a payment that names a customer alone is that of the tenant that alone is this customer', async (t) => {
  const { app, billing } = await open(t, { provider: 'embedded' }, { tenants: { acme: 'free', globex: 'free', third: 'free' } })
  const payment = (customerId: string) => bareEvent(at(1), null, 'refunded', { tenant: null, customerId })
  const early = payment('cus_third')
  t.equal(await billing.receive('payprov', early), 'unclaimed')
  for (const [id, customerId] of [['acme', 'cus_both'], ['globex', 'cus_both'], ['third', 'cus_third']] as const) {
    await billing.receive('payprov', eventOf(snapshotOf({ id: `sub_${id}`, tenant: tenantRef(id), customerId })))
  }
  t.equal(await billing.receive('payprov', payment('cus_third')), 'applied')
  t.equal(await billing.receive('payprov', payment('cus_both')), 'unclaimed', 'of two tenants that are one customer nobody can tell')
  t.equal(await billing.settleDue(), 0)
  t.same((await audited(app)).filter((line) => line.includes('billing.payment')).map((line) => line.split(' ')[0]), ['third', 'third'])
})

test('a tenant keeps a hundred subscriptions that have ended, and those that have not', async (t) => {
  const { app, billing } = await open(t, { provider: 'embedded' }, { tenants: { acme: 'free' } })
  const ended = Array.from(
    { length: 105 },
    (_, index) => snapshotOf({ id: `sub_${index}`, status: 'canceled', startedAt: at(-1, index), endedAt: at(0) })
  )
  await billing.record('payprov', 'acme', [snapshotOf({ id: 'live', startedAt: at(-2), periodEnd: at(60) }), ...ended])
  const { rows } = await sql<{ id: string }>`select id from tenantry.billing_subscriptions where tenant_id = 'acme'`.execute(app.db)
  t.equal(rows.length, 101)
  t.ok(rows.some(({ id }) => id === 'live'))
  t.notOk(rows.some(({ id }) => ['sub_0', 'sub_4'].includes(id)), 'the oldest have left')
})

test('a time that is yet to come is not the last word for ever', async (t) => {
  const { billing, clock, provider } = await open(t, { provider: 'embedded' }, { tenants: { acme: 'free', globex: 'free', later: 'free' } })
  const far = new Date('9999-12-31T00:00:00Z')
  const own = tenantOf('acme')
  await billing.receive('payprov', eventOf(snapshotOf({ ...own, asOf: far, periodEnd: far })))
  t.equal((await billing.subscription('acme')).plan, 'pro')
  clock.forward(600_000)
  const ended = () => snapshotOf({ ...own, status: 'canceled', endedAt: new Date(clock.now()), asOf: new Date(clock.now()) })
  t.equal(await billing.receive('payprov', eventOf(ended())), 'applied')
  t.equal((await billing.subscription('acme')).plan, 'free')

  provider.answer = async () => [snapshotOf({ ...own, asOf: far, periodEnd: far })]
  t.match(await billing.sync('acme'), { plan: 'pro' }, 'nor is one that was asked for')
  clock.forward(600_000)
  provider.answer = async () => [ended()]
  t.match(await billing.sync('acme'), { plan: 'free' })

  await billing.receive(
    'payprov',
    eventOf(snapshotOf({ ...tenantOf('globex'), asOf: at(29), status: 'past_due', pastDueSince: far, periodEnd: far }))
  )
  t.match(await billing.subscription('globex'), { plan: 'pro', status: 'past_due' })
  clock.forward(8 * day)
  t.match(await billing.subscription('globex'), { plan: 'free' }, 'a payment cannot be missing from a later time on')
})

test("a subscription is one tenant's: the one that the last word names", async (t) => {
  const { billing, clock, provider, app, warnings } = await open(t, { provider: 'embedded' }, { tenants: { acme: 'free', globex: 'free' } })
  const plans = async () => [(await billing.subscription('acme')).plan, (await billing.subscription('globex')).plan]
  const told = (tenant: string, days: number, id = 'sub_1') =>
    eventOf(snapshotOf({ tenant: tenantRef(tenant), id, asOf: at(days), productIds: [products.team_monthly] }))
  await billing.receive('payprov', told('acme', 1))
  t.same(await plans(), ['team', 'free'])
  await billing.receive('payprov', told('globex', 2))
  t.same(await plans(), ['free', 'team'])
  t.match(warnings, [{ tenant: tenantRef('acme'), subscription: 'sub_1' }])
  await billing.receive('payprov', told('acme', 1))
  t.same(await plans(), ['free', 'team'], 'what is late says nothing')
  await billing.receive('payprov', bareEvent(at(3), 'sub_1', 'paid', { tenant: null, customerId: null }))
  t.same(
    (await audited(app)).slice(-1).map((line) => line.split(' ', 2)),
    [['globex', 'billing.payment']],
    "and what names nobody is the owner's"
  )
  await billing.receive('payprov', told('acme', 4))
  t.same(await plans(), ['team', 'free'], 'and back again')

  await billing.receive('payprov', told('globex', 6, 'sub_2'))
  await billing.receive('payprov', told('acme', 5, 'sub_2'))
  t.match(
    await rowsOf(app, 'acme'),
    { subscriptions: [{ id: 'sub_1', status: 'active' }, { id: 'sub_2', status: 'canceled' }] },
    'in whichever order they come'
  )

  clock.forward(day)
  provider.answer = async (tenant) => tenant === 'globex' ? [snapshotOf({ tenant: tenantRef(tenant), asOf: at(7), productIds: [products.team_monthly] })] : []
  await billing.sync('globex')
  t.same(await plans(), ['free', 'team'], 'a sync tells it as well')
})

test('deliveries for a tenant that is held leave the database to the others', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const { app, billing } = await open(t, { provider: 'postgres', postgres: { connectionString } }, {
    tenants: { acme: 'free', globex: 'free' }
  })
  let release = () => {}
  const holding = app.db.transaction().execute(async (transaction) => {
    await sql`select from tenantry.tenants where id = 'acme' for update`.execute(transaction)
    await new Promise<void>((resolve) => {
      release = resolve
    })
  })
  const deliveries = Array.from({ length: 40 }, () => billing.receive('payprov', eventOf(snapshotOf(tenantOf('acme')))))
  await until(
    t,
    'one that waits',
    async () => (await query("select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")).length > 0
  )
  t.equal(await billing.receive('payprov', eventOf(snapshotOf(tenantOf('globex')))), 'applied')
  t.equal(
    (await query("select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")).length,
    1,
    'one connection waits'
  )
  release()
  await holding
  t.equal((await Promise.all(deliveries)).filter((outcome) => outcome === 'applied').length, 1)
})
