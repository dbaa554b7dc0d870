/** Events of a payment provider: each counts once, only for its tenant, and completely or not at all. */
import { sql } from 'kysely'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { maxOrphans } from '../../../plugins/billing/orphan-events.js'
import { postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { at, bareEvent, day, eventOf, products, snapshotOf } from './month.js'
import { addTenant, audited, open, rowsOf } from './tenants.js'

const tenantOf = (id: string) => ({ id: `sub_${id}`, tenant: tenantRef(id), customerId: `cus_${id}` })

test('an event delivered twenty times at once to two servers counts once', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, { engine, tenants: { acme: 'free', globex: 'free' } })
  const there = await open(t, { engine, clock: here.clock })
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
    'whatever it contains'
  )
  t.equal(
    await here.billing.receive('altprov', eventOf(snapshotOf({ ...tenantOf('acme'), asOf: at(-1) }))),
    'applied',
    'the same subscription id of another provider is separate'
  )
  t.equal(await here.billing.receive('payprov', eventOf(snapshotOf({ ...tenantOf('acme'), asOf: at(-1), status: 'past_due' }))), 'stale')
  t.match(
    await rowsOf(here.app, 'globex'),
    { tenant: [{ plan: 'free' }], memory: { length: 0 }, subscriptions: { length: 0 } },
    'the other tenant has nothing of it'
  )
})

test('only a change of plan is announced to every server', async (t) => {
  const engine = await postgresSection(t)
  const { app: here, billing } = await open(t, { engine, tenants: { acme: 'free' } })
  const { app: there } = await open(t, { engine })
  const heard: string[] = []
  t.teardown(there.events.on('tenant', (tenant) => {
    heard.push(tenant)
  }))
  const planThere = async () => (await there.tenants.get('acme'))?.plan
  t.equal(await planThere(), 'free', 'it is cached')
  const own = tenantOf('acme')
  for (
    const [asOf, changes, plan] of [
      [at(0), {}, 'pro'],
      [at(1), { productIds: [products.team_monthly] }, 'team'],
      [at(2), { status: 'canceled', endedAt: at(2) }, 'free']
    ] as const
  ) {
    await billing.receive('payprov', eventOf(snapshotOf({ ...own, ...changes, asOf })))
    t.equal((await here.tenants.get('acme'))?.plan, plan, 'at once where the event arrived')
    await until(`${plan} on the other server`, async () => await planThere() === plan)
  }
  t.same(heard, ['acme', 'acme', 'acme'])
  // Other changes are not announced: a later announcement arrives before they would.
  const again = { ...own, id: 'sub_again', startedAt: at(3) }
  await billing.receive('payprov', eventOf(snapshotOf({ ...again, status: 'incomplete', asOf: at(3) })))
  await billing.receive('payprov', bareEvent(at(3), 'sub_again', 'failed'))
  await here.events.change({ topic: 'tenant', tenant: tenantRef('globex') }, async () => {})
  await until('the last notification', async () => heard.includes('globex'))
  t.same(heard, ['acme', 'acme', 'acme', 'globex'])
})

test('a plan that the platform sets stays until the subscriptions entitle to another one', async (t) => {
  const { app, billing } = await open(t, { tenants: { acme: 'free', sold: 'scale', old: 'scale' } })
  const own = tenantOf('acme')
  const planOf = async (id: string) => (await app.tenants.get(id))?.plan
  await billing.receive('payprov', eventOf(snapshotOf({ ...own, asOf: at(0) })))
  t.equal(await planOf('acme'), 'pro')
  await app.tenants.update('acme', { plan: 'scale' })
  await billing.receive('payprov', eventOf(snapshotOf({ ...own, asOf: at(1), cancelAtPeriodEnd: true })))
  await billing.receive('payprov', eventOf(snapshotOf({ ...own, asOf: at(2), status: 'past_due', pastDueSince: at(29) })))
  t.equal(await planOf('acme'), 'scale', 'the subscription still entitles to the same plan')
  t.match(await billing.subscription('acme'), { plan: 'scale', status: 'past_due' })
  await billing.receive('payprov', eventOf(snapshotOf({ ...own, asOf: at(3), productIds: [products.team_monthly] })))
  t.equal(await planOf('acme'), 'team', 'the subscription entitles to another plan')
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
    'and does not come from a provider'
  )

  await billing.receive('payprov', eventOf(snapshotOf({ ...tenantOf('sold'), status: 'incomplete' })))
  t.equal(await planOf('sold'), 'scale', 'an unpaid checkout takes away nothing')
  await billing.receive(
    'payprov',
    eventOf(snapshotOf({ ...tenantOf('old'), startedAt: at(-60), status: 'canceled', endedAt: at(-40), periodEnd: at(-30) }))
  )
  t.equal(await planOf('old'), 'scale', 'nor does a subscription that ended before the tenant existed')
})

test('an event of an unknown tenant is kept and reported, and counts once the tenant exists', async (t) => {
  const { app, billing, warnings } = await open(t)
  const events = ['later', 'synced'].map((id) => eventOf(snapshotOf(tenantOf(id))))
  const odd = eventOf(snapshotOf({ ...tenantOf("*'\n"), id: 'sub_odd' }))
  const unnamed = bareEvent(at(1), 'sub_later', 'paid', { tenant: null, customerId: null })
  for (const event of [...events, odd, unnamed]) {
    t.equal(await billing.receive('payprov', event), 'unclaimed')
    t.equal(await billing.receive('payprov', event), 'duplicate', 'it is reported once')
  }
  t.match(
    warnings.map(({ level, tenant, event }) => ({ level, tenant, event })),
    [...events, odd, unnamed].map(({ id, tenant }) => ({ level: 40, tenant, event: id }))
  )
  t.equal((await audited(app)).filter((line) => line.startsWith(' billing.event_unclaimed')).length, 4, "in the platform's log")
  t.equal(await billing.settleDue(), 0)

  await addTenant(app, 'later', 'free')
  t.equal(await billing.settleDue(), 1)
  t.match(await rowsOf(app, 'later'), {
    tenant: [{ plan: 'pro' }],
    subscriptions: [{ id: 'sub_later', asked_at: at(1).toISOString() }],
    unclaimed: { length: 0 }
  })
  t.same((await audited(app)).filter((line) => line.startsWith('later')), [
    'later billing.subscription sub_later',
    `later billing.payment ${unnamed.payment?.id}`,
    'later billing.plan pro'
  ])
  await addTenant(app, 'synced', 'free')
  t.match(await billing.sync('synced'), { plan: 'pro', status: 'active' }, 'at a sync')
  t.equal(await billing.receive('payprov', { ...events[0] ?? odd }), 'duplicate', 'it has counted')
  t.equal(await billing.settleDue(), 0)

  // The maximum number of kept events, and one more.
  await sql`insert into tenantry.billing_unclaimed (provider, id, event, received_at) select 'payprov', 'n' || n, '{}', ${
    at(30)
  } from generate_series(1, ${maxOrphans}::int) n`.execute(app.db)
  for (let more = 0; more < 2; more++) t.equal(await billing.receive('payprov', eventOf(snapshotOf(tenantOf('nobody')))), 'unclaimed')
  const { rows } =
    await sql`select count(*)::int as count, count(*) filter (where tenant = 'nobody')::int as own from tenantry.billing_unclaimed`.execute(
      app.db
    )
  t.same(rows, [{ count: maxOrphans, own: 2 }], 'the oldest are dropped')
})

test("a deleted tenant's events are deleted, and a new tenant with its id starts without them", async (t) => {
  const { app, billing, provider, clock, warnings } = await open(t, { tenants: { acme: 'free', globex: 'free' } })
  const own = snapshotOf(tenantOf('acme'))
  for (const id of ['acme', 'globex']) await billing.receive('payprov', eventOf(snapshotOf(tenantOf(id))))
  const other = await rowsOf(app, 'globex')
  await app.tenants.delete('acme')
  t.match(await rowsOf(app, 'acme'), { tenant: { length: 0 }, memory: { length: 0 }, subscriptions: { length: 0 } })
  const { rows } = await sql`select tenant_id from tenantry.billing_events`.execute(app.db)
  t.same(rows, [{ tenant_id: 'globex' }])
  const renewal = eventOf({ ...own, asOf: at(30), periodStart: at(30), periodEnd: at(60) })
  t.equal(await billing.receive('payprov', renewal), 'unclaimed')
  t.equal(await billing.receive('payprov', bareEvent(at(30), own.id, 'paid', { tenant: null })), 'unclaimed', 'its tenant is unknown')

  await sql`update tenantry.deleted_tenants set deleted_at = ${at(30, 60)} where id = 'acme'`.execute(app.db)
  await app.tenants.create({ id: 'acme', name: 'acme' })
  await billing.settleDue()
  provider.respond = async () => [own]
  t.match(await billing.sync('acme'), { plan: 'free', paymentMethod: 'none' }, "not even from the provider's subscriptions")
  t.equal(await billing.receive('payprov', eventOf({ ...own, asOf: at(31) })), 'unclaimed')
  t.match(warnings.at(-1), { tenant: tenantRef('acme'), msg: /a deleted tenant/ })
  t.match(await rowsOf(app, 'acme'), { tenant: [{ plan: 'free' }], subscriptions: { length: 0 } })
  clock.forward(day)
  t.equal(
    await billing.receive('payprov', eventOf({ ...own, id: 'sub_new', startedAt: at(31), periodEnd: at(61), asOf: at(31) })),
    'applied',
    'only with its own subscription'
  )
  t.equal((await app.tenants.get('acme'))?.plan, 'pro')
  t.same(await rowsOf(app, 'globex'), other)
})

test('an event that cannot be written leaves nothing, and counts on redelivery', async (t) => {
  const { app, billing } = await open(t, { tenants: { acme: 'free' } })
  const before = await rowsOf(app, 'acme')
  const event = eventOf(snapshotOf(tenantOf('acme')))
  await sql`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$`.execute(app.db)
  // The last statement of the write.
  await sql`create trigger refuse before insert on tenantry.audit_log for each row execute function refuse()`.execute(app.db)
  await t.rejects(billing.receive('payprov', event), /does not satisfy a constraint/)
  t.same(await rowsOf(app, 'acme'), before)
  t.equal((await app.tenants.get('acme'))?.plan, 'free')
  await sql`drop trigger refuse on tenantry.audit_log`.execute(app.db)
  t.equal(await billing.receive('payprov', event), 'applied')
  t.equal((await app.tenants.get('acme'))?.plan, 'pro')
})

test("a provider's response about another tenant is ignored", async (t) => {
  const { app, billing, provider, warnings } = await open(t, { tenants: { acme: 'free', globex: 'free' } })
  provider.respond = async () => [snapshotOf(tenantOf('globex'))]
  t.match(await billing.sync('acme'), { plan: 'free' })
  await billing.record('payprov', 'acme', [snapshotOf(tenantOf('globex'))])
  t.match(await rowsOf(app, 'acme'), { subscriptions: { length: 0 } })
  t.match(warnings, [{ tenant: tenantRef('acme'), named: 'globex' }, { named: 'globex' }])
  await billing.record('payprov', 'unknown', [snapshotOf(tenantOf('unknown'))])
  t.match(await rowsOf(app, 'unknown'), { subscriptions: { length: 0 } }, 'so is one about an unknown tenant')
})

test('a payment with only a customer belongs to the single tenant with this customer', async (t) => {
  const { app, billing } = await open(t, { tenants: { acme: 'free', globex: 'free', third: 'free' } })
  const payment = (customerId: string) => bareEvent(at(1), null, 'refunded', { tenant: null, customerId })
  const early = payment('cus_third')
  t.equal(await billing.receive('payprov', early), 'unclaimed')
  for (const [id, customerId] of [['acme', 'cus_both'], ['globex', 'cus_both'], ['third', 'cus_third']] as const) {
    await billing.receive('payprov', eventOf(snapshotOf({ id: `sub_${id}`, tenant: tenantRef(id), customerId })))
  }
  t.equal(await billing.receive('payprov', payment('cus_third')), 'applied')
  t.equal(await billing.receive('payprov', payment('cus_both')), 'unclaimed', 'a customer of two tenants is ambiguous')
  t.equal(await billing.settleDue(), 0)
  t.same((await audited(app)).filter((line) => line.includes('billing.payment')).map((line) => line.split(' ')[0]), ['third', 'third'])
})

test('a tenant keeps a hundred ended subscriptions, and all running ones', async (t) => {
  const { app, billing } = await open(t, { tenants: { acme: 'free' } })
  const ended = Array.from(
    { length: 105 },
    (_, index) => snapshotOf({ id: `sub_${index}`, status: 'canceled', startedAt: at(-1, index), endedAt: at(0) })
  )
  await billing.record('payprov', 'acme', [snapshotOf({ id: 'live', startedAt: at(-2), periodEnd: at(60) }), ...ended])
  const { rows } = await sql<{ id: string }>`select id from tenantry.billing_subscriptions where tenant_id = 'acme'`.execute(app.db)
  t.equal(rows.length, 101)
  t.ok(rows.some(({ id }) => id === 'live'))
  t.notOk(rows.some(({ id }) => ['sub_0', 'sub_4'].includes(id)), 'the oldest are dropped')
})

test('a snapshot with a future time does not block later ones', async (t) => {
  const { billing, clock, provider } = await open(t, { tenants: { acme: 'free', globex: 'free', later: 'free' } })
  const far = new Date('9999-12-31T00:00:00Z')
  const own = tenantOf('acme')
  await billing.receive('payprov', eventOf(snapshotOf({ ...own, asOf: far, periodEnd: far })))
  t.equal((await billing.subscription('acme')).plan, 'pro')
  clock.forward(600_000)
  const ended = () => snapshotOf({ ...own, status: 'canceled', endedAt: new Date(clock.now()), asOf: new Date(clock.now()) })
  t.equal(await billing.receive('payprov', eventOf(ended())), 'applied')
  t.equal((await billing.subscription('acme')).plan, 'free')

  provider.respond = async () => [snapshotOf({ ...own, asOf: far, periodEnd: far })]
  t.match(await billing.sync('acme'), { plan: 'pro' }, 'nor does one from a request')
  clock.forward(600_000)
  provider.respond = async () => [ended()]
  t.match(await billing.sync('acme'), { plan: 'free' })

  await billing.receive(
    'payprov',
    eventOf(snapshotOf({ ...tenantOf('globex'), asOf: at(29), status: 'past_due', pastDueSince: far, periodEnd: far }))
  )
  t.match(await billing.subscription('globex'), { plan: 'pro', status: 'past_due' })
  clock.forward(8 * day)
  t.match(await billing.subscription('globex'), { plan: 'free' }, 'the grace period does not start in the future')
})

test('a subscription belongs to the tenant in its latest snapshot', async (t) => {
  const { billing, clock, provider, app, warnings } = await open(t, { tenants: { acme: 'free', globex: 'free' } })
  const plans = async () => [(await billing.subscription('acme')).plan, (await billing.subscription('globex')).plan]
  const snapshotEvent = (tenant: string, days: number, id = 'sub_1') =>
    eventOf(snapshotOf({ tenant: tenantRef(tenant), id, asOf: at(days), productIds: [products.team_monthly] }))
  await billing.receive('payprov', snapshotEvent('acme', 1))
  t.same(await plans(), ['team', 'free'])
  await billing.receive('payprov', snapshotEvent('globex', 2))
  t.same(await plans(), ['free', 'team'])
  t.match(warnings, [{ tenant: tenantRef('acme'), subscription: 'sub_1' }])
  await billing.receive('payprov', snapshotEvent('acme', 1))
  t.same(await plans(), ['free', 'team'], 'an outdated snapshot has no effect')
  await billing.receive('payprov', bareEvent(at(3), 'sub_1', 'paid', { tenant: null, customerId: null }))
  t.same(
    (await audited(app)).slice(-1).map((line) => line.split(' ', 2)),
    [['globex', 'billing.payment']],
    'a snapshot without a tenant belongs to the owner'
  )
  await billing.receive('payprov', snapshotEvent('acme', 4))
  t.same(await plans(), ['team', 'free'], 'and back again')

  await billing.receive('payprov', snapshotEvent('globex', 6, 'sub_2'))
  await billing.receive('payprov', snapshotEvent('acme', 5, 'sub_2'))
  t.match(
    await rowsOf(app, 'acme'),
    { subscriptions: [{ id: 'sub_1', status: 'active' }, { id: 'sub_2', status: 'canceled' }] },
    'in any order of arrival'
  )

  clock.forward(day)
  provider.respond = async (tenant) => tenant === 'globex' ? [snapshotOf({ tenant: tenantRef(tenant), asOf: at(7), productIds: [products.team_monthly] })] : []
  await billing.sync('globex')
  t.same(await plans(), ['free', 'team'], 'a sync has the same effect')
})

test('deliveries for a locked tenant leave connections to the others', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const { app, billing } = await open(t, {
    engine: { provider: 'postgres', postgres: { connectionString } },
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
