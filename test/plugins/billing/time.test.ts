/** The effect of time on subscriptions: they are evaluated on reads and by the scheduler, which may query the provider. */
import { sql } from 'kysely'
import { test } from 'tap'
import { failure } from '../../../lib/errors.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { fakeClock } from '../../helpers/clock.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { at, bareEvent, day, eventOf, products, snapshotOf } from './month.js'
import { addTenant, audited, fakeProvider, open, rowsOf } from './tenants.js'

const tenantOf = (id: string) => ({ id: `sub_${id}`, tenant: tenantRef(id), customerId: `cus_${id}` })
const clockAt = (days: number) => fakeClock(at(days).getTime())
const minute = 60_000 // ms

test('a tenant without a subscription, or without a provider, stays unchanged', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app, billing } = await open(t, { engine, tenants: { acme: 'team' }, clock: clockAt(5), provider: null })
    const expected = {
      plan: 'team',
      status: 'active',
      startDate: at(-1),
      renewalDate: new Date('2026-07-01T00:00:00Z'),
      currentPeriodEnd: new Date('2026-07-01T00:00:00Z'),
      cancelAtPeriodEnd: false,
      paymentMethod: 'none'
    }
    t.same(await billing.subscription('acme'), expected)
    t.equal(await billing.inForce('acme'), null)
    await t.rejects(billing.subscription('nobody'), { code: 'TENANTRY_TENANT_UNKNOWN' })
    await t.rejects(billing.inForce('nobody'), { code: 'TENANTRY_TENANT_UNKNOWN' })
    await t.rejects(billing.sync('acme'), { code: 'TENANTRY_BILLING_NOT_CONFIGURED' })
    t.match(await rowsOf(app, 'acme'), { memory: { length: 0 }, subscriptions: { length: 0 } }, 'nothing is written')

    await billing.receive('payprov', eventOf(snapshotOf({ ...tenantOf('acme'), paymentMethod: null })))
    t.same(await billing.subscription('acme'), {
      plan: 'pro',
      status: 'active',
      startDate: at(0),
      renewalDate: at(30),
      currentPeriodEnd: at(30),
      cancelAtPeriodEnd: false,
      paymentMethod: 'unknown'
    })
    t.match(await billing.inForce('acme'), {
      plan: 'pro',
      cycle: 'monthly',
      provider: 'payprov',
      snapshot: { id: 'sub_acme', tenant: tenantRef('acme'), productIds: [products.pro_monthly], asOf: at(0).toISOString() }
    })
  }))

test('a period that has ended is evaluated when the subscription is read, without any webhook', async (t) => {
  const clock = clockAt(27)
  const { app, billing, provider } = await open(t, {
    tenants: { acme: 'free', late: 'free', lost: 'free', late2: 'free' },
    clock
  })
  const planOf = async (id: string) => (await app.tenants.get(id))?.plan
  const records = {
    acme: snapshotOf({ ...tenantOf('acme'), cancelAtPeriodEnd: true }),
    late: snapshotOf({ ...tenantOf('late'), status: 'past_due', pastDueSince: at(26) }),
    lost: snapshotOf(tenantOf('lost')),
    late2: snapshotOf({ ...tenantOf('late2'), status: 'past_due', pastDueSince: at(26) })
  }
  for (const snapshot of Object.values(records)) await billing.receive('payprov', eventOf(snapshot))
  provider.respond = async (tenant) => Object.values(records).filter((snapshot) => snapshot.tenant === tenant)

  clock.forward(2 * day)
  for (const id of Object.keys(records)) t.match(await billing.subscription(id), { plan: 'pro', currentPeriodEnd: at(30).toISOString() })
  t.same(provider.calls, [], 'the provider is not queried during the period')
  clock.forward(day)
  t.match(await billing.subscription('acme'), {
    plan: 'free',
    status: 'canceled',
    cancelAtPeriodEnd: true,
    currentPeriodEnd: at(30).toISOString()
  })
  t.equal(await billing.inForce('acme'), null)
  t.equal(await planOf('acme'), 'free', 'on all servers')
  t.match(await billing.subscription('lost'), { plan: 'pro', status: 'active', renewalDate: at(30).toISOString() })
  t.same(
    provider.calls.map(({ tenant, customers }) => [tenant, customers]),
    [['acme', ['cus_acme']], ['lost', ['cus_lost']]],
    'the provider was queried once'
  )
  for (let read = 0; read < 3; read++) await billing.subscription('lost')
  t.equal(provider.calls.length, 2, 'not at every read')
  clock.forward(minute)
  await billing.subscription('lost')
  t.equal(provider.calls.length, 3)

  // The renewal, without a webhook.
  records.lost = { ...records.lost, periodStart: at(30), periodEnd: at(60), asOf: at(30) }
  clock.forward(minute)
  t.match(await billing.subscription('lost'), { plan: 'pro', renewalDate: at(60).toISOString() })
  clock.forward(minute)
  await billing.subscription('lost')
  t.equal(provider.calls.length, 4, 'then it is not queried any more')

  clock.forward(3 * day)
  records.late2 = { ...records.late2, status: 'active', pastDueSince: null, periodEnd: at(60), asOf: at(32) }
  t.match(await billing.subscription('late'), { plan: 'free', status: 'past_due' }, 'seven days without a payment')
  t.match(await billing.subscription('late2'), { plan: 'pro', status: 'active', renewalDate: at(60).toISOString() }, 'the payment, without a webhook')
  t.equal(await planOf('late2'), 'pro')
  t.notOk((await audited(app)).includes('late2 billing.plan free'), 'the plan was not withdrawn meanwhile')
  await billing.receive('payprov', eventOf({ ...records.late, status: 'active', pastDueSince: null, periodEnd: at(60), asOf: at(34) }))
  t.match(await billing.subscription('late'), { plan: 'pro', status: 'active' }, 'it recovers')
})

test('after a clock that was a year ahead is correct again, the provider is queried about an ended period', async (t) => {
  const clock = clockAt(5)
  const { billing, provider } = await open(t, { tenants: { acme: 'free' }, clock })
  let record = snapshotOf(tenantOf('acme'))
  provider.respond = async () => [record]
  await billing.receive('payprov', eventOf(record))
  clock.forward(365 * day)
  t.match(await billing.subscription('acme'), { plan: 'free' })
  t.equal(provider.calls.length, 1)
  clock.forward(-365 * day)
  t.match(await billing.subscription('acme'), { plan: 'pro' })
  clock.forward(26 * day)
  record = { ...record, periodStart: at(30), periodEnd: at(60), asOf: at(30) }
  t.strictSame((await billing.subscription('acme')).renewalDate, at(60))
})

test('a failing provider withdraws nothing: the known state counts, and the provider is retried', async (t) => {
  const clock = clockAt(29)
  const { app, billing, provider, warnings } = await open(t, { tenants: { acme: 'free' }, clock })
  await billing.receive('payprov', eventOf(snapshotOf(tenantOf('acme'))))
  provider.respond = async () => {
    throw failure('providerTimeout')
  }
  clock.forward(2 * day)
  const before = await rowsOf(app, 'acme')
  await t.rejects(billing.sync('acme'), { code: 'TENANTRY_PROVIDER_TIMEOUT' })
  t.match(await rowsOf(app, 'acme'), { ...Object(before), memory: [{ plan: 'pro', pulled_at: null, tried_at: at(31).toISOString() }] })
  clock.forward(minute)
  t.match(await billing.subscription('acme'), { plan: 'pro', status: 'active' })
  t.match(warnings, [{ level: 40, tenant: tenantRef('acme'), err: { code: 'TENANTRY_PROVIDER_TIMEOUT' } }])
  t.equal(await billing.settleDue(), 0, 'the scheduler waits five minutes')
  clock.forward(5 * minute)
  t.equal(await billing.settleDue(), 1)
  t.equal(provider.calls.length, 3)
  clock.forward(6 * day)
  await billing.settleDue()
  t.equal((await app.tenants.get('acme'))?.plan, 'free', 'a renewal is unknown after seven days')
  t.match(await billing.subscription('acme'), { plan: 'free', status: 'canceled' })
  provider.respond = async () => [snapshotOf({ ...tenantOf('acme'), periodStart: at(30), periodEnd: at(60), asOf: at(30) })]
  t.match(await billing.sync('acme'), { plan: 'pro', status: 'active' })
  t.match(await rowsOf(app, 'acme'), {
    memory: [{ plan: 'pro', due_at: at(60).toISOString(), pulled_at: new Date(clock.now()).toISOString() }]
  })
})

test('the scheduler settles unread states, each tenant on one of two servers, and continues after a failure', async (t) => {
  const engine = await postgresSection(t)
  const clock = clockAt(29)
  const ids = Array.from({ length: 30 }, (_, index) => `t${index}`)
  const here = await open(t, { engine, clock, tenants: Object.fromEntries(ids.map((id) => [id, 'free'])) })
  const there = await open(t, { engine, clock })
  for (const [index, id] of ids.entries()) {
    await here.billing.receive('payprov', eventOf(snapshotOf({ ...tenantOf(id), cancelAtPeriodEnd: index % 2 === 0 })))
  }
  for (const { provider } of [here, there]) {
    provider.respond = async (tenant) => {
      if (tenant === 't1') throw failure('providerFailed')
      return []
    }
  }
  t.equal(await here.billing.settleDue(), 0, "before the period's end there is nothing to do")
  clock.forward(day + 1)
  const done = await Promise.all([here, there, here, there].map(({ billing }) => billing.settleDue()))
  t.equal(done.reduce((sum, count) => sum + count), ids.length)
  t.same([...here.provider.calls, ...there.provider.calls].map(({ tenant }) => tenant).sort(), [...ids].sort(), 'the provider was queried once for each')
  const { rows } = await sql`select plan, count(*)::int as count from tenantry.tenants group by plan order by plan`.execute(here.app.db)
  t.same(rows, [{ plan: 'free', count: 15 }, { plan: 'pro', count: 15 }])
  t.equal((await there.app.tenants.get('t0'))?.plan, 'free')
  t.equal(await here.billing.settleDue(), 0)

  // A server that ended in the middle of it: its tenants are processed again.
  await sql`update tenantry.billing_tenants set due_at = ${new Date(clock.now() + 1)} where tenant_id = 't3'`.execute(here.app.db)
  clock.forward(1)
  t.equal(await there.billing.settleDue(AbortSignal.abort()), 0)
  t.equal(await there.billing.settleDue(), 0)
  clock.forward(5 * minute)
  t.equal(await there.billing.settleDue(), 2, 'including the one whose provider had failed')
})

test('a state that events leave ambiguous is settled by querying the provider', async (t) => {
  const { app, billing, provider, clock } = await open(t, {
    tenants: { tied: 'free', paid: 'free', gone: 'free' },
    clock: clockAt(5)
  })
  const tied = snapshotOf({ ...tenantOf('tied'), asOf: at(1) })
  await billing.receive('payprov', eventOf(tied))
  await billing.receive('payprov', eventOf({ ...tied, productIds: [products.team_monthly] }))
  for (const id of ['paid', 'gone']) await billing.receive('payprov', bareEvent(at(2), `sub_${id}`, 'paid', { tenant: tenantRef(id) }))
  const found = [{ ...tied, asOf: at(1) }, snapshotOf({ ...tenantOf('paid'), asOf: at(2) })]
  provider.respond = async (tenant) => found.filter((one) => one.tenant === tenant)
  t.equal(await billing.settleDue(), 3)
  for (const id of ['tied', 'paid']) t.match(await billing.subscription(id), { plan: 'pro', status: 'active' })
  t.match(await rowsOf(app, 'tied'), { subscriptions: [{ unsure: false }] })
  t.match(await rowsOf(app, 'gone'), { tenant: [{ plan: 'free' }], subscriptions: { length: 0 } }, 'a subscription that the provider does not know is forgotten')
  clock.forward(2 * 60 * minute)
  t.equal(await billing.settleDue(), 0)
  t.equal(provider.calls.length, 3)
})

test('after a payment event during a request to the provider, the provider is queried again', async (t) => {
  const { app, billing, provider } = await open(t, { tenants: { acme: 'free' }, clock: clockAt(5) })
  await billing.receive('payprov', bareEvent(at(2), 'sub_acme', 'failed'))
  provider.respond = async () => {
    await billing.receive('payprov', bareEvent(at(3), 'sub_acme', 'paid'))
    return []
  }
  await billing.sync('acme')
  t.match(await rowsOf(app, 'acme'), { subscriptions: [{ id: 'sub_acme', asked_at: at(3).toISOString() }] })
})

test('a subscription of the previous provider counts until it ends, and both providers are queried', async (t) => {
  const [before, chosen] = [fakeProvider('altprov'), fakeProvider('payprov')]
  const { billing } = await open(t, {
    tenants: { acme: 'free', globex: 'free' },
    clock: clockAt(5),
    provider: chosen,
    providers: [before, chosen]
  })
  await billing.receive('altprov', eventOf(snapshotOf({ ...tenantOf('acme'), productIds: [products.team_monthly] })))
  await billing.receive('payprov', eventOf(snapshotOf(tenantOf('acme'))))
  t.match(await billing.inForce('acme'), { provider: 'altprov', plan: 'team' })
  before.respond =
    async () => [snapshotOf({ ...tenantOf('acme'), productIds: [products.team_monthly], status: 'canceled', endedAt: at(4), asOf: at(4) })]
  chosen.respond = async () => {
    throw failure('providerFailed')
  }
  await t.rejects(billing.sync('acme'), { code: 'TENANTRY_PROVIDER_FAILED' })
  t.match(await billing.inForce('acme'), { provider: 'payprov', plan: 'pro' }, 'the response of one of them counts')
  chosen.respond = async () => []
  await billing.sync('globex')
  t.equal(before.calls.length, 1, 'a provider without a customer for the tenant is not queried')
})

test('a sync does not depend on the previous provider once the subscriptions there have ended', async (t) => {
  const [before, chosen] = [fakeProvider('altprov'), fakeProvider('payprov')]
  const { app, billing } = await open(t, { tenants: { acme: 'free' }, clock: clockAt(5), provider: chosen, providers: [before, chosen] })
  before.respond = async () => {
    throw failure('providerFailed')
  }
  const own = tenantOf('acme')
  await billing.receive('altprov', eventOf(snapshotOf({ ...own, status: 'canceled', endedAt: at(1), asOf: at(1) })))
  await billing.receive('altprov', eventOf(snapshotOf({ ...own, id: 'sub_unpaid', status: 'incomplete' })))
  await billing.receive('altprov', bareEvent(at(2), own.id, 'refunded'))
  t.match(await billing.sync('acme'), { plan: 'free', status: 'canceled' })
  t.equal(before.calls.length, 0)
  t.equal(chosen.calls.length, 1)
  await billing.receive('altprov', bareEvent(at(3), 'sub_unpaid', 'paid'))
  await t.rejects(billing.sync('acme'), { code: 'TENANTRY_PROVIDER_FAILED' }, 'a payment may have begun one')
  t.match(await rowsOf(app, 'acme'), { subscriptions: [{ id: own.id }, { id: 'sub_unpaid', asked_at: at(3).toISOString() }] })
  await billing.receive('altprov', eventOf(snapshotOf({ ...own, id: 'sub_unpaid', status: 'past_due', asOf: at(4) })))
  await t.rejects(billing.sync('acme'), { code: 'TENANTRY_PROVIDER_FAILED' }, 'and one that runs may have changed')
  t.equal(before.calls.length, 2)
})

test('the plans of products are remembered after they are removed from the map', async (t) => {
  const { app, billing, warnings } = await open(t, { tenants: { acme: 'free' }, clock: clockAt(5) })
  const odd = { ...tenantOf('acme'), productIds: ['prod_of_yesterday'] }
  await billing.receive('payprov', eventOf(snapshotOf(odd)))
  t.match(await billing.subscription('acme'), { plan: 'free', status: 'active' })
  t.match(warnings, [{ tenant: tenantRef('acme'), subscription: 'sub_acme', products: ['prod_of_yesterday'] }])
  await sql`update tenantry.billing_subscriptions set plan = 'team', cycle = 'monthly'`.execute(app.db)
  await billing.receive('payprov', eventOf(snapshotOf({ ...odd, asOf: at(1), cancelAtPeriodEnd: true })))
  t.match(await billing.subscription('acme'), { plan: 'team', cancelAtPeriodEnd: true })
  await billing.receive('payprov', eventOf(snapshotOf({ ...odd, asOf: at(2), productIds: ['prod_of_nobody'] })))
  t.match(await billing.subscription('acme'), { plan: 'free' }, 'other products are unknown')
})

test('records are removed after 90 days', async (t) => {
  const { app, billing, clock } = await open(t, { tenants: { acme: 'free' }, clock: clockAt(5) })
  const count = async () =>
    (await sql`select (select count(*)::int from tenantry.billing_events) as events, (select count(*)::int from tenantry.billing_unclaimed) as unclaimed`
      .execute(app.db)).rows[0]
  await billing.receive('payprov', eventOf(snapshotOf(tenantOf('acme'))))
  await billing.receive('payprov', eventOf(snapshotOf(tenantOf('nobody'))))
  clock.forward(90 * day - 1)
  await billing.settleDue()
  t.same(await count(), { events: 1, unclaimed: 1 })
  clock.forward(1)
  await billing.settleDue()
  t.same(await count(), { events: 0, unclaimed: 0 })
  await addTenant(app, 'nobody')
  t.match(await billing.subscription('nobody'), { plan: 'free' })
})
