/** A deleted tenant, and a tenant with its id. */
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { providerNames } from '../../../plugins/billing/providers/provider.js'
import { payprovWorld } from '../../helpers/payprov/index.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'
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
  const { apps: [app], query, sales, world } = await alone(t, 'altprov', { payprov: { apiKey: 'revoked', baseUrl: former.baseUrl } })
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
