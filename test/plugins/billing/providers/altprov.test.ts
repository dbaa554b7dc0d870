/** The payment provider `altprov` with a local server that speaks Stripe's protocol. */
import Stripe from 'stripe'
import { test } from 'tap'
import { catalogue, type ErrorName } from '../../../../lib/errors.js'
import { tenantRef } from '../../../../lib/identity/tenant-ref.js'
import { timeOf } from '../../../../plugins/billing/providers/altprov/client.js'
import type { ProviderEvent } from '../../../../plugins/billing/providers/provider.js'
import { altprovServer } from '../../../helpers/altprov/index.js'
import type { Subscription } from '../../../helpers/altprov/objects.js'
import { conformance } from './conformance.js'

const day = 86_400_000 // ms
const pro = { name: 'Pro', amount: 2900, currency: 'usd', cycle: 'monthly' } as const
const team = { name: 'Team', amount: 9900, currency: 'usd', cycle: 'monthly' } as const
const checkoutInput = {
  deletedAt: null,
  email: undefined,
  successUrl: 'https://app.example/done?session={CHECKOUT_ID}',
  cancelUrl: 'https://app.example/cancel'
} as const

const fails = (name: ErrorName, message?: RegExp) => ({ code: catalogue[name].code, ...message === undefined ? {} : { message } })

test('altprov passes the suite of all providers', async (t) => {
  await conformance(t, altprovServer)
})

test('a tenant is one customer of altprov', async (t) => {
  const world = await altprovServer(t)
  const provider = await world.open()
  const sold = world.sell(pro)
  const { account } = world

  await t.test('two checkouts create one customer, even though the search does not find it yet', async (t) => {
    account.searchLag = day
    const first = await provider.checkout({
      ...checkoutInput,
      tenant: tenantRef('acme'),
      email: 'pay@acme.example',
      product: sold.product,
      idempotencyKey: 'a'
    })
    await provider.checkout({ ...checkoutInput, tenant: tenantRef('acme'), email: 'other@acme.example', product: sold.product, idempotencyKey: 'b' })
    t.match(account.all('customer'), [{ metadata: { tenant_id: 'acme' } }])
    t.equal(account.all('customer').length, 1)
    t.match(account.all('checkout.session')[0], {
      success_url: 'https://app.example/done?session={CHECKOUT_SESSION_ID}',
      client_reference_id: 'acme',
      metadata: { tenant_id: 'acme' }
    })
    world.pay(first.id)
    account.searchLag = 0
    await provider.checkout({ ...checkoutInput, tenant: tenantRef('acme'), product: sold.product, idempotencyKey: 'c' })
    t.equal(account.all('customer').length, 1)
  })

  await t.test("the payer's address becomes the customer's", async (t) => {
    await provider.checkout({ ...checkoutInput, tenant: tenantRef('mail'), email: 'pay@mail.example', product: sold.product, idempotencyKey: 'd' })
    t.match(account.all('customer').find(({ metadata }) => metadata['tenant_id'] === 'mail'), { email: 'pay@mail.example' })
  })

  await t.test('a subscription that the search does not find yet is found through a known customer', async (t) => {
    const id = world.subscribe('late', sold)
    account.searchLag = day
    t.same(await provider.subscriptions(tenantRef('late')), [])
    t.match(await provider.subscriptions(tenantRef('late'), [account.one('subscription', id).customer]), [{ id, tenant: tenantRef('late') }])
    account.searchLag = 0
  })

  await t.test('a customer that the account does not have has no subscriptions', async (t) => {
    const id = world.subscribe('moved', sold)
    t.match(await provider.subscriptions(tenantRef('moved'), ['cus_ofAnotherAccount']), [{ id }])
  })

  await t.test("a customer's subscription without metadata belongs to the customer's tenant, one that names another tenant does not", async (t) => {
    const customer = account.addCustomer({ tenant_id: 'shared' })
    const price = account.one('price', sold.price)
    const own = account.addSubscription(customer.id, price)
    const other = account.addSubscription(customer.id, price, { metadata: { tenant_id: 'stranger' } })
    const invalid = account.addSubscription(customer.id, price, { metadata: { tenant_id: 'no tenant!' } })
    t.same((await provider.subscriptions(tenantRef('shared'))).map(({ id }) => id), [own.id])
    t.same((await provider.subscriptions(tenantRef('stranger'))).map(({ id }) => id), [other.id])
    t.match(await provider.cancel(invalid.id, 'e'), { tenant: null })
  })

  await t.test('an invalid tenant id is never used in a search', async (t) => {
    world.forget()
    await t.rejects(provider.subscriptions(tenantRef("x' OR metadata['tenant_id']:'acme")), fails('tenantInvalid'))
    t.same(world.calls, [])
  })

  await t.test('an idempotency key that was used with another product is rejected', async (t) => {
    await provider.checkout({ ...checkoutInput, tenant: tenantRef('acme'), product: sold.product, idempotencyKey: 'same' })
    await t.rejects(
      provider.checkout({ ...checkoutInput, tenant: tenantRef('acme'), product: world.sell(team).product, idempotencyKey: 'same' }),
      fails('providerRefused', /same parameters/)
    )
  })
})

test('a product of altprov has one price', async (t) => {
  const world = await altprovServer(t)
  const provider = await world.open()
  const { account } = world
  const input = { ...checkoutInput, tenant: tenantRef('acme'), idempotencyKey: 'a' }
  const { product, price } = world.sell(pro)
  const stored = account.one('product', product)
  const yearly = account.addPrice(product, { amount: 29_000, currency: 'usd', cycle: 'yearly' })

  await t.test('the default price is used, among any others', async (t) => {
    t.match(await provider.checkout({ ...input, product }), { amount: 2900 })
    t.match(await provider.checkout({ ...input, product: yearly, idempotencyKey: 'b' }), { amount: 29_000 })
  })

  await t.test('without a default, the only active recurring price is used', async (t) => {
    stored.default_price = null
    await t.rejects(provider.checkout({ ...input, product, idempotencyKey: 'c' }), fails('providerFailed'))
    account.one('price', price).active = false
    t.match(await provider.checkout({ ...input, product, idempotencyKey: 'd' }), { amount: 29_000 })
    account.one('price', yearly).active = false
    await t.rejects(provider.checkout({ ...input, product, idempotencyKey: 'e' }), fails('providerFailed'))
  })

  await t.test('a missing price is not found', async (t) => {
    await t.rejects(provider.checkout({ ...input, product: 'price_unknown', idempotencyKey: 'f' }), fails('notFound'))
    for (const other of ['', '..', 'a/b', '?']) {
      await t.rejects(provider.checkout({ ...input, product: other, idempotencyKey: 'g' }), fails('notFound'), other)
    }
  })
})

test('subscriptions of altprov can be changed', async (t) => {
  const world = await altprovServer(t)
  const provider = await world.open()
  const { account } = world
  const [small, large] = [world.sell(pro), world.sell(team)]

  await t.test('a change that cannot be paid changes nothing, and reports the reason', async (t) => {
    const id = world.subscribe('poor', small)
    account.declines = true
    await t.rejects(provider.changeProduct(id, large.product, 'now', 'a'), fails('providerRefused', /card was declined/))
    account.declines = false
    t.match(await provider.subscriptions(tenantRef('poor')), [{ status: 'active', productIds: [small.product, small.price] }])
  })

  await t.test("a change at the period's end keeps the subscription's trial, discounts and quantity", async (t) => {
    const id = world.subscribe('kept', large, { trialDays: 14 })
    const subscription = account.one('subscription', id)
    subscription.discounts = ['di_forever']
    subscription.items.data[0].quantity = 3
    await provider.changeProduct(id, small.product, 'period_end', 'b')
    const { phases } = account.one('subscription_schedule', subscription.schedule ?? '')
    t.match(phases, [
      { trial_end: subscription.trial_end, discounts: [{ discount: 'di_forever' }], items: [{ price: large.price, quantity: 3 }] },
      { trial_end: null, discounts: [{ discount: 'di_forever' }], items: [{ price: small.price, quantity: 3 }], proration_behavior: 'none' }
    ])
  })

  await t.test('a new planned change replaces the earlier one', async (t) => {
    const third = world.sell({ ...pro, name: 'Third' })
    const id = world.subscribe('anew', large)
    await provider.changeProduct(id, small.product, 'period_end', 'c')
    t.match(await provider.changeProduct(id, third.product, 'period_end', 'd'), { productIds: [large.product, large.price] })
    world.advance(31 * day)
    world.change(id, 'renew')
    t.match(await provider.subscriptions(tenantRef('anew')), [{ productIds: [third.product, third.price] }])
  })

  await t.test("a schedule's later phases and its end are planned changes, its last phase is none", async (t) => {
    const id = world.subscribe('phases', large)
    const subscription = account.one('subscription', id)
    const schedule = account.schedule(subscription)
    world.forget()
    t.equal(await provider.resume(id, 'p'), null)
    t.same(world.calls.map(({ method }) => method), ['GET', 'GET'], 'and is left as it is')
    schedule.end_behavior = 'cancel'
    t.match(await provider.resume(id, 'q'), { id })
    t.equal(subscription.schedule, null)
    Object.assign(account.schedule(subscription), { current_phase: null })
    t.match(await provider.resume(id, 'r'), { id }, 'a schedule that has not begun is planned')
    t.equal(subscription.schedule, null)
  })

  await t.test('a cancellation replaces a planned change, and a planned change replaces a cancellation', async (t) => {
    const id = world.subscribe('instead', large)
    await provider.changeProduct(id, small.product, 'period_end', 'e')
    t.match(await provider.cancel(id, 'f'), { cancelAtPeriodEnd: true })
    t.equal(account.one('subscription', id).schedule, null)
    t.match(await provider.changeProduct(id, small.product, 'period_end', 'g'), { cancelAtPeriodEnd: false })
  })

  await t.test('an end date from the portal is a cancellation, and can be revoked', async (t) => {
    const id = world.subscribe('portal', small)
    const subscription = account.one('subscription', id)
    const [{ current_period_end: end }] = subscription.items.data
    subscription.cancel_at = end
    t.match(await provider.subscriptions(tenantRef('portal')), [{ cancelAtPeriodEnd: true }])
    t.match(await provider.resume(id, 'h'), { cancelAtPeriodEnd: false })
    t.equal(subscription.cancel_at, null)
    subscription.cancel_at = end + 1
    t.match(await provider.subscriptions(tenantRef('portal')), [{ cancelAtPeriodEnd: false }])
  })

  await t.test('a subscription with several items is not changed: the item of the plan is unknown', async (t) => {
    const subscription = account.one('subscription', world.subscribe('several', small))
    const items: unknown[] = subscription.items.data
    items.push({ ...subscription.items.data[0], id: 'si_other' })
    await t.rejects(provider.changeProduct(subscription.id, large.product, 'now', 'k'), fails('providerRefused'))
    await t.rejects(provider.changeProduct(subscription.id, large.product, 'period_end', 'l'), fails('providerRefused'))
    t.equal(subscription.items.data[0].price.id, small.price)
    t.equal(subscription.schedule, null)
  })

  await t.test('a key that is in use is retried', async (t) => {
    const id = world.subscribe('locked', small)
    world.misfortune({ status: 409 })
    t.match(await provider.cancel(id, 'm'), { cancelAtPeriodEnd: true })
  })
})

test('webhooks of altprov are verified and parsed', async (t) => {
  const world = await altprovServer(t)
  const provider = await world.open()
  const { account } = world
  const sold = world.sell(pro)
  const id = world.subscribe('acme', sold)
  const subscription = account.one('subscription', id)
  const now = world.now()
  const read = (type: string, object: unknown): ProviderEvent | null => {
    const { body, headers } = world.stripeEvent(type, object)
    return provider.readWebhook(body, headers, now)
  }

  await t.test("signatures of the provider's SDK are valid", async (t) => {
    const { body } = world.event('updated', id)
    const header = Stripe.webhooks.generateTestHeaderString({
      payload: body.toString(),
      secret: world.webhookSecret,
      timestamp: now / 1000
    })
    t.match(provider.readWebhook(body, { 'stripe-signature': header }, now), { subscriptionId: id })
    const other = Stripe.webhooks.generateTestHeaderString({
      payload: body.toString(),
      secret: world.webhookSecret,
      timestamp: now / 1000,
      scheme: 'v0'
    })
    t.throws(() => provider.readWebhook(body, { 'stripe-signature': other }, now), fails('signatureInvalid'))
  })

  await t.test('300 seconds before and after are accepted, 301 are not', async (t) => {
    const { body, headers } = world.event('updated', id)
    for (const offset of [-300_000, 300_999]) t.ok(provider.readWebhook(body, headers, now + offset), String(offset))
    for (const offset of [-301_000, 301_000]) {
      t.throws(() => provider.readWebhook(body, headers, now + offset), fails('signatureInvalid'), String(offset))
    }
  })

  await t.test('an invalid or repeated time is rejected even if it is signed', async (t) => {
    const { body } = world.event('updated', id)
    for (const time of ['NaN', '-1', '1e9', '', `${now / 1000}x`]) {
      const signature = Stripe.createNodeCryptoProvider()
        .computeHMACSignature(`${parseInt(time, 10)}.${body.toString()}`, world.webhookSecret)
      t.throws(() => provider.readWebhook(body, { 'stripe-signature': `t=${time},v1=${signature}` }, now), fails('signatureInvalid'), time)
    }
    const [later = ''] = Object.values(world.sign(body, { at: now + day }).headers)
    t.throws(
      () => provider.readWebhook(body, { 'stripe-signature': `t=${now / 1000},${later}` }, now),
      fails('signatureInvalid'),
      'two times'
    )
  })

  await t.test('bytes that a decoder would ignore invalidate the signature', async (t) => {
    const { body, headers } = world.sign(Buffer.from('{"a":"\ufffd"}'))
    t.throws(() => provider.readWebhook(Buffer.concat([Buffer.from('\ufeff'), body]), headers, now), fails('signatureInvalid'))
    t.throws(
      () => provider.readWebhook(Buffer.from(body.toString('latin1').replace('\xef\xbf\xbd', '\xff'), 'latin1'), headers, now),
      fails('signatureInvalid')
    )
  })

  await t.test('the statuses of a subscription are mapped', async (t) => {
    const [{ current_period_start: start }] = subscription.items.data
    const states: readonly (readonly [Partial<Subscription>, object])[] = [
      [{ status: 'active' }, { status: 'active', endedAt: null, pastDueSince: null }],
      [{ status: 'trialing' }, { status: 'trialing' }],
      [{ status: 'past_due' }, { status: 'past_due', pastDueSince: new Date(start * 1000) }],
      [{ status: 'unpaid' }, { status: 'unpaid', pastDueSince: null }],
      [{ status: 'paused' }, { status: 'unpaid' }],
      [{ status: 'incomplete' }, { status: 'incomplete' }],
      [{ status: 'incomplete_expired', ended_at: start + 82_800 }, { status: 'incomplete', endedAt: new Date((start + 82_800) * 1000) }],
      [{ status: 'canceled', ended_at: start + 60 }, { status: 'canceled', endedAt: new Date((start + 60) * 1000) }],
      [{ status: 'canceled', canceled_at: start + 50, ended_at: null }, { status: 'canceled', endedAt: new Date((start + 50) * 1000) }]
    ]
    for (const [members, expected] of states) {
      t.match(read('customer.subscription.updated', { ...subscription, ...members })?.snapshot, expected, JSON.stringify(members))
    }
    t.throws(() => read('customer.subscription.updated', { ...subscription, status: 'sleeping' }), fails('badRequest'))
    for (const id of ['sub\0', 'sub\ud800', 'sub 1', 'sub\n']) {
      t.throws(() => read('customer.subscription.updated', { ...subscription, id }), fails('badRequest'), JSON.stringify(id))
    }
  })

  await t.test('a date in a schedule belongs to a phase, and is not a cancellation', async (t) => {
    const [{ current_period_end: end }] = subscription.items.data
    t.match(read('customer.subscription.updated', { ...subscription, cancel_at: end })?.snapshot, { cancelAtPeriodEnd: true })
    t.match(read('customer.subscription.updated', { ...subscription, cancel_at: end, schedule: 'sub_sched_1' })?.snapshot, {
      cancelAtPeriodEnd: false
    })
  })

  await t.test('several items are reported with all products and the earliest end of a period', async (t) => {
    const [item] = subscription.items.data
    const shorter = {
      ...item,
      id: 'si_2',
      current_period_end: item.current_period_end - 60,
      price: { ...item.price, id: 'price_2', product: 'prod_2' }
    }
    t.match(read('customer.subscription.updated', { ...subscription, items: { data: [item, shorter] } })?.snapshot, {
      productIds: [sold.product, sold.price, 'prod_2', 'price_2'],
      periodEnd: new Date((item.current_period_end - 60) * 1000).toISOString()
    })
  })

  await t.test('events of versions before 2025-03-31 are parsed too', async (t) => {
    const [{ current_period_start: start, current_period_end: end, ...item }] = subscription.items.data
    const old = { ...subscription, current_period_start: start, current_period_end: end, items: { data: [item] } }
    t.match(read('customer.subscription.updated', old)?.snapshot, {
      periodStart: new Date(start * 1000).toISOString(),
      periodEnd: new Date(end * 1000).toISOString()
    })
    t.throws(
      () => read('customer.subscription.updated', { ...subscription, items: { data: [item] } }),
      fails('badRequest'),
      'no period at all'
    )
    const invoice = {
      id: 'in_1',
      customer: 'cus_1',
      currency: 'usd',
      amount_due: 5,
      amount_paid: 5,
      subscription: id,
      subscription_details: { metadata: { tenant_id: 'acme' } }
    }
    t.match(read('invoice.paid', invoice), { tenant: tenantRef('acme'), subscriptionId: id, payment: { id: 'in_1', outcome: 'paid', amount: 5 } })
  })

  await t.test('an invoice reports one payment, and only of subscriptions', async (t) => {
    const invoice = {
      id: 'in_1',
      customer: 'cus_1',
      currency: 'eur',
      amount_due: 700,
      amount_paid: 0,
      parent: { subscription_details: { subscription: id, metadata: { tenant_id: 'acme' } } }
    }
    t.match(read('invoice.payment_failed', invoice), {
      tenant: tenantRef('acme'),
      subscriptionId: id,
      customerId: 'cus_1',
      payment: { id: 'in_1', outcome: 'failed', amount: 700, currency: 'eur' }
    })
    t.match(read('invoice.payment_succeeded', { ...invoice, amount_paid: 700 }), { subscriptionId: id, payment: null })
    t.match(read('invoice.upcoming', { ...invoice, id: undefined }), { subscriptionId: id, payment: null })
    t.match(read('invoice.paid', { ...invoice, parent: null }), { tenant: null, subscriptionId: null, customerId: 'cus_1' })
  })

  await t.test("a checkout's metadata names its tenant; checkouts without a subscription are ignored", async (t) => {
    const session = {
      id: 'cs_1',
      mode: 'subscription',
      metadata: { tenant_id: 'acme' },
      client_reference_id: 'acme',
      customer: 'cus_1',
      subscription: id
    }
    t.match(read('checkout.session.completed', session), {
      tenant: tenantRef('acme'),
      subscriptionId: id,
      customerId: 'cus_1',
      snapshot: null,
      payment: null
    })
    t.match(read('checkout.session.completed', { ...session, metadata: {} }), { tenant: null })
    t.equal(read('checkout.session.completed', { ...session, mode: 'payment' }), null)
  })

  await t.test('events of connected accounts and events without content are ignored', async (t) => {
    const { body } = world.event('updated', id)
    const connected = world.sign(Buffer.from(JSON.stringify({ ...Object(JSON.parse(body.toString())), account: 'acct_other' })))
    t.equal(provider.readWebhook(connected.body, connected.headers, now), null)
    const thin = world.sign(Buffer.from('{"id":"evt_1","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered"}'))
    t.equal(provider.readWebhook(thin.body, thin.headers, now), null)
  })
})

test("the time of a response is the provider's, and not after the request's", (t) => {
  const date = 'Thu, 01 Jan 2026 00:00:10 GMT'
  t.same(timeOf(date, 999), new Date('2026-01-01T00:00:10Z'))
  t.same(timeOf(date, 3500), new Date('2026-01-01T00:00:07Z'))
  t.equal(timeOf(null, 1), null)
  t.equal(timeOf('soon', 1), null)
  t.end()
})

test('the address of altprov is an origin', async (t) => {
  const world = await altprovServer(t)
  for (const suffix of ['/', '/v1', '/v1/']) {
    t.same(await (await world.open({ baseUrl: `${world.baseUrl}${suffix}` })).subscriptions(tenantRef('acme')), [], suffix)
  }
  await t.rejects(world.open({ baseUrl: `${world.baseUrl}/proxy` }), /ALTPROV_BASE_URL/)
  const keyless = await world.open({ apiKey: '' })
  const { body, headers } = world.event('updated', world.subscribe('acme', world.sell(pro)))
  t.match(keyless.readWebhook(body, headers, world.now()), { tenant: tenantRef('acme') })
  await t.rejects(keyless.subscriptions(tenantRef('acme')), fails('providerFailed'))
})
