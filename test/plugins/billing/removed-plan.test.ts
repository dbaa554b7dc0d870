/** Subscriptions to a plan that the document of a server lacks: it was removed, or another server has added it already. */
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createPlans } from '../../../lib/plans/plans.js'
import { providerNames } from '../../../plugins/billing/providers/provider.js'
import { fakeClock } from '../../helpers/clock.js'
import { postgresSection } from '../../helpers/postgres.js'
import { at, eventOf, productPlans, snapshotOf } from './month.js'
import { audited, open } from './tenants.js'
import { alone } from './worlds.js'

const gold = 'prod_gold'

test('servers with two documents agree on the plan of a subscription', async (t) => {
  const engine = await postgresSection(t)
  const clock = fakeClock(at(5).getTime())
  const later = await open(t, {
    engine,
    clock,
    tenants: { acme: 'free' },
    plans: createPlans({ gold: { price: { monthly: 49 } } }),
    saleOf: (ids) => ids.includes(gold) ? { plan: 'gold', cycle: 'monthly' } : productPlans(ids)
  })
  const former = await open(t, { engine, clock })
  const bought = snapshotOf({ id: 'sub_acme', tenant: tenantRef('acme'), productIds: [gold] })
  await later.billing.receive('payprov', eventOf(bought))
  for (const { billing } of [former, later, former, later]) {
    t.match(await billing.subscription('acme'), { plan: 'gold', status: 'active', currentPeriodEnd: at(30).toISOString() })
  }
  await former.billing.receive('payprov', eventOf({ ...bought, asOf: at(6), cancelAtPeriodEnd: true }))
  t.equal((await former.app.tenants.get('acme'))?.plan, 'gold')
  t.match(await former.billing.inForce('acme'), { plan: 'gold', cycle: 'monthly', snapshot: { id: 'sub_acme' } })
  t.same((await audited(former.app)).filter((line) => line.includes('billing.plan')), ['acme billing.plan gold'])
  await former.billing.receive('payprov', eventOf({ ...bought, asOf: at(7), status: 'canceled', endedAt: at(7) }))
  clock.forward(at(8).getTime() - clock.now())
  t.match(await later.billing.subscription('acme'), { plan: 'free', status: 'canceled' })
})

for (const name of providerNames) {
  test(`${name}: an upgrade from a plan that the document lacks changes the subscription now, without a second purchase`, async (t) => {
    const { world, as, sales, query } = await alone(t, name)
    const ask = as('acme')
    const upgrade = (targetPlan: string) => ask('POST /billing/upgrade', { body: { targetPlan, billingCycle: 'monthly' } })
    const id = world.subscribe('acme', world.sell({ name: 'Gold', amount: 4900, currency: 'usd', cycle: 'monthly' }))
    t.equal((await ask('POST /billing/subscription/sync')).status, 200)
    await query("update tenantry.billing_subscriptions set plan = 'gold', cycle = 'monthly'")
    t.match(await ask('POST /billing/subscription/sync'), { status: 200, body: { subscription: { plan: 'gold', status: 'active' } } })
    t.match(await upgrade('free'), { status: 200, body: { checkoutUrl: null, session: { id, plan: 'free' } } })
    world.advance(60_000)
    world.forget()
    t.match(await upgrade('pro'), { status: 200, body: { checkoutUrl: null, session: { id, plan: 'pro', amount: 2900 } } })
    t.notOk(world.calls.some(({ path }) => path.includes('checkout')), 'no checkout')
    t.match((await ask('GET /billing/subscription')).body, { subscription: { plan: 'pro', cancelAtPeriodEnd: false } })
    const provider = await world.open()
    t.match(await provider.subscriptions(tenantRef('acme')), [{ id, productIds: [sales.pro_monthly.product, sales.pro_monthly.price] }])
  })
}
