/** Each adapter by itself: the plugin refuses such upgrades before it asks an adapter. */
import { type Test, test } from 'tap'
import { altprovServer } from '../../../helpers/altprov/index.js'
import type { World } from '../../../helpers/payment-world.js'
import { payprovWorld } from '../../../helpers/payprov/index.js'
import { is, one, rejected } from './conformance-checks.js'

const day = 86_400_000 // ms
const pro = { name: 'Pro', amount: 2900, currency: 'usd', cycle: 'monthly' } as const
const team = { name: 'Team', amount: 9900, currency: 'usd', cycle: 'monthly' } as const

test('payprov changes no product at once while a payment is missing', async (t) => {
  await changesWithoutPayment(t, await payprovWorld(t))
})

test('altprov changes no product at once while a payment is missing', async (t) => {
  await changesWithoutPayment(t, await altprovServer(t))
})

async function changesWithoutPayment (t: Test, world: World): Promise<void> {
  const provider = await world.open()
  const [small, large] = [world.sell(pro), world.sell(team)]
  const own = [small.product, small.price]
  const id = world.subscribe('debtor', small)
  world.advance(31 * day)
  for (const [change, status] of [['pastDue', 'past_due'], ['unpaid', 'unpaid']] as const) {
    world.change(id, change)
    world.forget()
    const error = await rejected(provider.changeProduct(id, large.product, 'now', `${status}-1`))
    is(t, error, 'providerRefused', status)
    t.match(error.message, /payment of the subscription is missing/, status)
    t.strictSame(world.calls.filter(({ method }) => method !== 'GET'), [], `${status}: nothing was changed`)
    t.match(await one(provider, 'debtor'), { status, productIds: own })
    t.equal(world.charges(id), 1, status)
  }
  t.match(await provider.changeProduct(id, large.product, 'period_end', 'later'), { productIds: own }, 'it credits nothing')
  world.change(id, 'recover')
  t.match(await provider.changeProduct(id, large.product, 'now', 'paid'), { status: 'active', productIds: [large.product, large.price] })
}
