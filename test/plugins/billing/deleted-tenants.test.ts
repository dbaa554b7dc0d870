/** A tenant with the id of a deleted one. */
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { providerNames } from '../../../plugins/billing/providers/provider.js'
import { signToken } from '../../helpers/tokens.js'
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
