/** Upgrades that the provider has done, while the database fails. */
import { test } from 'tap'
import { providerNames } from '../../../plugins/billing/providers/provider.js'
import { signToken } from '../../helpers/tokens.js'
import { caller } from '../../http/caller.js'
import { alone } from './worlds.js'

for (const name of providerNames) {
  test(`${name}: a change that cannot be stored is answered as done, and a sync stores it`, async (t) => {
    const { world, apps: [app], sales, query, logged } = await alone(t, name)
    const subscription = world.subscribe('acme', sales.pro_monthly)
    const ask = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme' }) })
    t.equal((await ask('POST /billing/subscription/sync')).status, 200)
    const charged = world.charges(subscription)
    await query(`create function refuse () returns trigger language plpgsql as $$ begin raise 'refused' using errcode = '57014'; end $$;
      create trigger refuse before insert or update on tenantry.billing_subscriptions for each row when (new.plan = 'team') execute function refuse();
      create trigger refuse before insert on tenantry.audit_log for each row when (new.action = 'billing.upgrade') execute function refuse()`)
    t.match(await ask('POST /billing/upgrade', { body: { targetPlan: 'team', billingCycle: 'monthly' } }), {
      status: 200,
      body: { success: true, checkoutUrl: null, session: { id: subscription, plan: 'team', amount: 9900 } }
    })
    t.equal(world.charges(subscription), charged + 1)
    const errors = logged?.filter((line) => line.includes('"level":50')).join('')
    t.match(errors, /"tenant":"acme".*could not be stored/)
    t.match(errors, /"target":"team_monthly".*"details":\{"change":.*an entry of the audit log could not be written/)

    await query('drop function refuse cascade')
    world.advance(60_000)
    t.equal((await ask('POST /billing/subscription/sync')).status, 200)
    t.equal((await ask('GET /tenant/info')).body['plan'], 'team')
  })
}
