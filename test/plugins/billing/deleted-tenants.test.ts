/** A deleted tenant, and a tenant with its id. */
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { providerNames } from '../../../plugins/billing/providers/provider.js'
import { payprovWorld } from '../../helpers/payprov/index.js'
import { replaceTenant } from '../../helpers/succession.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller, refused } from '../../http/caller.js'
import { at, bareEvent, eventOf, snapshotOf } from './month.js'
import { audited, open, rowsOf } from './tenants.js'
import { alone } from './worlds.js'

const minute = 60_000 // ms

for (const name of providerNames) {
  test(`${name}: a later tenant does not buy as the customer of a deleted one`, async (t) => {
    const { world, apps: [app] } = await alone(t, name)
    const buy = async (email: string) => {
      // Issued after the deletion, in whole seconds.
      const iat = Math.floor(Date.now() / 1000) + 1
      const ask = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'gone', sub: 'ada', email, iat }) })
      const { body, text } = await ask('POST /billing/upgrade', { body: { targetPlan: 'pro', billingCycle: 'monthly' } })
      return world.pay(String(Object(body['session'])['id'] ?? t.fail(text)))
    }
    const earlier = await buy('pay@earlier.example')
    world.advance(minute)
    await app.tenants.delete('gone')
    world.advance(minute)
    await app.tenants.create({ id: 'gone', name: 'Another', plan: 'free' })
    const later = await buy('pay@later.example')
    const found = await (await world.open()).subscriptions(tenantRef('gone'))
    const customerOf = (subscription: string) => found.find(({ id }) => id === subscription)?.customerId
    t.ok(customerOf(earlier))
    t.ok(customerOf(later))
    t.not(customerOf(later), customerOf(earlier))
  })
}

test('an upgrade of a deleted tenant neither changes nor buys a subscription of a later tenant', async (t) => {
  const { world, apps: [app], sales } = await alone(t, 'payprov')
  const { sync } = app.billing
  let later = ''
  Object.assign(app.billing, {
    async sync (tenant: string) {
      await sync(tenant)
      await replaceTenant(app, tenant)
      world.advance(minute)
      if (tenant === 'changer') later = world.subscribe(tenant, sales.pro_monthly)
      world.forget()
      return await sync(tenant)
    }
  })
  for (const [tenant, targetPlan] of [['changer', 'free'], ['changer', 'team'], ['buyer', 'pro']] as const) {
    const ask = caller(t, app, {
      token: signToken({ role: 'admin', tenant_id: tenant, sub: 'ada', iat: Math.floor(Date.now() / 1000) + 1 })
    })
    refused(t, await ask('POST /billing/upgrade', { body: { targetPlan, billingCycle: 'monthly' } }), 404, 'TENANT_UNKNOWN')
    t.same(world.calls.filter(({ method }) => method !== 'GET'), [], `${tenant} ${targetPlan}`)
  }
  const [found] = await (await world.open()).subscriptions(tenantRef('changer'))
  t.match(found, { id: later, cancelAtPeriodEnd: false })
})

test('a cancellation whose audit entry failed has one after the next attempt', async (t) => {
  const { world, apps: [app], sales, query } = await alone(t, 'payprov')
  const ask = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'gone' }) })
  world.subscribe('gone', sales.pro_monthly)
  t.equal((await ask('POST /billing/upgrade', { body: { targetPlan: 'free', billingCycle: 'monthly' } })).status, 200)
  const subscription = world.subscribe('gone', sales.pro_monthly)
  await query(`create sequence entries;
    create function refuse_first () returns trigger language plpgsql as $$ begin
      if nextval('entries') = 1 then raise 'refused'; end if;
      return new;
    end $$;
    create trigger refuse_first before insert on tenantry.audit_log for each row
      when (new.tenant_id = '' and new.action = 'billing.subscription') execute function refuse_first()`)
  await app.tenants.delete('gone')
  await until('the first attempt has failed', async () => {
    const retried = await query(`update tenantry_queue.job set start_after = now()
      where state = 'retry' and start_after > now() and data ->> 'task' = 'billing.depart' returning id`)
    return retried.length === 1
  })
  await until('the job is done', async () =>
    (await query("select from tenantry_queue.job where state = 'completed' and data ->> 'task' = 'billing.depart'")).length === 1)
  t.match(
    await query("select target, details from tenantry.audit_log where tenant_id = '' and action = 'billing.subscription'"),
    [{ target: subscription, details: { deletedTenant: 'gone', cancelAtPeriodEnd: true, periodEnd: String } }],
    'and one that the tenant canceled itself has none'
  )
})

test('a provider or a subscription that fails keeps no other subscription of a deleted tenant running', async (t) => {
  const former = await payprovWorld(t)
  const { apps: [app], query, sales, world } = await alone(t, 'altprov', { others: { payprov: { apiKey: 'revoked', baseUrl: former.baseUrl } } })
  const [earlier, later] = [world.subscribe('gone', sales.pro_monthly), world.subscribe('gone', sales.team_monthly)]
  const found = (await (await world.open()).subscriptions(tenantRef('gone'))).map(({ id }) => id)
  t.same([...found].sort(), [earlier, later].sort())
  await query(`create function refuse_first () returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
    create trigger refuse_first before insert on tenantry.audit_log for each row
      when (new.action = 'billing.subscription' and new.target = '${found[0]}') execute function refuse_first()`)
  await app.tenants.delete('gone')
  await until('the first attempt has failed', async () =>
    (await query("select from tenantry_queue.job where state = 'retry' and data ->> 'task' = 'billing.depart'")).length === 1)
  t.ok(former.calls.length > 0, 'the former provider was asked, and refused the key')
  t.same(
    await query("select target from tenantry.audit_log where tenant_id = '' and action = 'billing.subscription'"),
    [{ target: found[1] }]
  )
  t.ok((await (await world.open()).subscriptions(tenantRef('gone'))).every(({ cancelAtPeriodEnd }) => cancelAtPeriodEnd))
})

test('the log names every subscription of a deleted tenant that could not be canceled', async (t) => {
  const former = await payprovWorld(t)
  const { apps: [app], logged = [], query, sales, world } = await alone(t, 'altprov', {
    others: { payprov: { apiKey: 'revoked', baseUrl: former.baseUrl } }
  })
  const subscriptions = [world.subscribe('gone', sales.pro_monthly), world.subscribe('gone', sales.team_monthly)]
  await query(`create function refuse () returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
    create trigger refuse before insert on tenantry.audit_log for each row when (new.action = 'billing.subscription') execute function refuse()`)
  await app.tenants.delete('gone')
  await until('the first attempt has failed', async () =>
    (await query("select from tenantry_queue.job where state = 'retry' and data ->> 'task' = 'billing.depart'")).length === 1)
  const failed = logged.map((line): { level: number, msg: string, provider?: string, subscription?: string } => JSON.parse(line))
    .filter(({ msg }) => msg === 'subscriptions of a deleted tenant could not be canceled')
  t.same(
    failed.map(({ level, provider, subscription }) => [level, provider, subscription ?? '']).sort(),
    [...subscriptions.map((subscription) => [40, 'altprov', subscription]), [40, 'payprov', '']].sort()
  )
})

/** A tenant with the id of a deleted one, which has a subscription at the provider. */
async function recreated (t: Test) {
  const opened = await open(t, { tenants: { acme: 'free' } })
  const { app, billing } = opened
  const own = snapshotOf({ id: 'sub_old' })
  await billing.receive('payprov', eventOf(own))
  await app.tenants.delete('acme')
  const early = bareEvent(at(28, 60), own.id, 'paid')
  t.equal(await billing.receive('payprov', early), 'unclaimed')
  await sql`update tenantry.deleted_tenants set deleted_at = ${at(28)} where id = 'acme'`.execute(app.db)
  await app.tenants.create({ id: 'acme', name: 'acme' })
  const payments = async () => (await audited(app)).filter((line) => line.startsWith('acme billing.payment'))
  return { ...opened, own, payments }
}

test("payments of a deleted tenant's subscription are not in the audit log of a later tenant", async (t) => {
  const { app, billing, provider, warnings, own, payments } = await recreated(t)
  t.equal(await billing.settleDue(), 1, 'one arrived before the later tenant existed')
  const refund = bareEvent(at(29), own.id, 'refunded')
  t.equal(await billing.receive('payprov', refund), 'unclaimed')
  t.equal(await billing.receive('payprov', refund), 'duplicate')
  t.match(warnings.at(-1), { level: 40, tenant: tenantRef('acme'), subscription: own.id, event: refund.id })
  provider.respond = async () => [own]
  t.match(await billing.sync('acme'), { plan: 'free', paymentMethod: 'none' })
  t.match(await rowsOf(app, 'acme'), { subscriptions: { length: 0 } })

  const customer = bareEvent(at(29), own.id, 'paid', { tenant: null })
  await billing.receive('payprov', eventOf(snapshotOf({ id: 'sub_new', startedAt: at(28, 120) })))
  t.equal(await billing.receive('payprov', customer), 'unclaimed', 'nor if both have one customer at the provider')
  t.equal(await billing.receive('payprov', bareEvent(at(29), null, 'refunded', { customerId: 'cus_old' })), 'unclaimed')
  t.same(await payments(), [])
  await billing.sync('acme')
  t.equal(await billing.settleDue(), 0)
  t.equal((await audited(app)).filter((line) => line.startsWith(' billing.event_unclaimed')).length, 4)
})

test("a payment that arrives before the first state of a later tenant's subscription counts with that state", async (t) => {
  const { billing, provider, payments } = await recreated(t)
  const [heard, asked] = [bareEvent(at(28, 180), 'sub_new', 'paid'), bareEvent(at(28, 240), 'sub_newer', 'paid')]
  for (const event of [heard, asked]) t.equal(await billing.receive('payprov', event), 'unclaimed')
  t.same(await payments(), [])
  await billing.receive('payprov', eventOf(snapshotOf({ id: 'sub_new', startedAt: at(28, 120) })))
  t.same(await payments(), [`acme billing.payment ${heard.payment?.id}`])
  provider.respond = async () => [snapshotOf({ id: 'sub_newer', startedAt: at(28, 120) })]
  t.equal(await billing.settleDue(), 1, 'the provider is asked about the other one')
  t.same(await payments(), [heard, asked].map(({ payment }) => `acme billing.payment ${payment?.id}`))
  t.equal(await billing.receive('payprov', heard), 'duplicate')
})
