/** Responses that `altprov` repeats for an idempotency key of an earlier request: they may be outdated. */
import { test } from 'tap'
import { catalogue } from '../../../../lib/errors.js'
import { tenantRef } from '../../../../lib/identity/tenant-ref.js'
import { altprovServer } from '../../../helpers/altprov/index.js'

const pro = { name: 'Pro', amount: 2900, currency: 'usd', cycle: 'monthly' } as const
const team = { name: 'Team', amount: 9900, currency: 'usd', cycle: 'monthly' } as const
const day = 86_400_000 // ms
const refused = { code: catalogue.providerRefused.code, message: /card was declined/ }

test('a change under a key of an earlier request is made unless the subscription has it', async (t) => {
  const world = await altprovServer(t)
  const provider = await world.open()
  const { account } = world
  const [small, large, third] = [world.sell(pro), world.sell(team), world.sell({ ...team, name: 'Third' })]

  await t.test('a cancellation', async (t) => {
    const id = world.subscribe('cancel', small)
    await provider.cancel(id, 'cancel-1')
    await provider.resume(id, 'cancel-2')
    world.forget()
    t.match(await provider.cancel(id, 'cancel-1'), { cancelAtPeriodEnd: true })
    t.equal(account.one('subscription', id).cancel_at_period_end, true)
    t.same(world.calls.map(({ method }) => method), ['GET', 'POST', 'GET', 'POST'])
    t.match(await provider.resume(id, 'cancel-2'), { cancelAtPeriodEnd: false })
    t.equal(account.one('subscription', id).cancel_at_period_end, false)
  })

  await t.test('a cancellation whose response was lost is not sent again', async (t) => {
    const id = world.subscribe('lost', small)
    world.misfortune('lost')
    world.forget()
    t.match(await provider.cancel(id, 'lost-1'), { cancelAtPeriodEnd: true })
    t.same(world.calls.map(({ method }) => method), ['GET', 'POST', 'POST', 'GET'])
  })

  await t.test('a change of the product now, which is charged once each time', async (t) => {
    const id = world.subscribe('now', small)
    await provider.changeProduct(id, large.product, 'now', 'now-1')
    await provider.changeProduct(id, small.product, 'now', 'now-2')
    t.equal(world.charges(id), 3)
    t.match(await provider.changeProduct(id, large.product, 'now', 'now-1'), { productIds: [large.product, large.price] })
    t.equal(account.one('subscription', id).items.data[0].price.id, large.price)
    t.equal(world.charges(id), 4)
  })

  await t.test("a change at the period's end, after it was withdrawn", async (t) => {
    const id = world.subscribe('withdrawn', large)
    await provider.changeProduct(id, small.product, 'period_end', 'withdrawn-1')
    await provider.resume(id, 'withdrawn-2')
    await provider.changeProduct(id, small.product, 'period_end', 'withdrawn-1')
    world.advance(31 * day)
    world.change(id, 'renew')
    t.match(await provider.subscriptions(tenantRef('withdrawn')), [{ productIds: [small.product, small.price] }])
  })

  await t.test("a change at the period's end, after it was replaced by another one", async (t) => {
    const id = world.subscribe('replaced', large)
    await provider.changeProduct(id, small.product, 'period_end', 'replaced-1')
    await provider.changeProduct(id, third.product, 'period_end', 'replaced-2')
    await provider.changeProduct(id, small.product, 'period_end', 'replaced-1')
    world.advance(31 * day)
    world.change(id, 'renew')
    t.match(await provider.subscriptions(tenantRef('replaced')), [{ productIds: [small.product, small.price] }])
  })

  await t.test('a change whose payment was declined before', async (t) => {
    const id = world.subscribe('declined', small)
    world.decline(true)
    await t.rejects(provider.changeProduct(id, large.product, 'now', 'declined-1'), refused)
    await t.rejects(provider.changeProduct(id, large.product, 'now', 'declined-1'), refused)
    world.decline(false)
    t.match(await provider.changeProduct(id, large.product, 'now', 'declined-1'), { productIds: [large.product, large.price] })
    t.equal(world.charges(id), 2)
  })
})

test('a checkout under a key of an earlier request is one that can be paid', async (t) => {
  const world = await altprovServer(t)
  const provider = await world.open()
  const { account } = world
  const input = {
    tenant: tenantRef('acme'),
    deletedAt: null,
    email: 'pay@acme.example',
    product: world.sell(pro).product,
    successUrl: 'https://app.example/done?session={CHECKOUT_ID}',
    cancelUrl: 'https://app.example/cancel',
    idempotencyKey: 'order-1'
  }

  await t.test('an open one is returned again, a paid one is not', async (t) => {
    const first = await provider.checkout(input)
    t.same(await provider.checkout(input), first)
    world.pay(first.id)
    const second = await provider.checkout(input)
    t.not(second.id, first.id)
    t.equal(account.one('checkout.session', second.id).status, 'open')
  })

  await t.test('its customer exists, and keeps the first address', async (t) => {
    account.searchLag = day
    const again = { ...input, tenant: tenantRef('again') }
    const first = await provider.checkout({ ...again, idempotencyKey: 'order-2' })
    const second = await provider.checkout({ ...again, email: 'other@acme.example', idempotencyKey: 'order-3' })
    const customerOf = (id: string) => account.one('checkout.session', id).customer
    t.equal(customerOf(first.id), customerOf(second.id))
    t.equal(account.one('customer', customerOf(first.id)).email, 'pay@acme.example')
    account.deleteCustomer(customerOf(first.id))
    const third = await provider.checkout({ ...again, idempotencyKey: 'order-3' })
    t.not(customerOf(third.id), customerOf(first.id))
  })
})
