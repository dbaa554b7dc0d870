import type { IncomingHttpHeaders } from 'node:http'
import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { catalogue } from '../../../../lib/errors.js'
import { tenantRef } from '../../../../lib/identity/tenant-ref.js'
import { keysOf, verified } from '../../../../lib/webhooks/schemes.js'
import { CallTime } from '../../../../plugins/billing/providers/call.js'
import { createPayprovClient } from '../../../../plugins/billing/providers/payprov/client.js'
import { payprovWorld } from '../../../helpers/payprov/index.js'
import { conformance } from './conformance.js'

t.test('payprov passes the suite of all providers', async (t) => {
  await conformance(t, (t) => payprovWorld(t))
})

t.test('signatures follow Standard Webhooks', async (t) => {
  // The vector of the scheme's own libraries.
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const [id, seconds, body] = ['msg_p5jXN8AQM9LWM0D4loKWxJek', 1614265330, '{"test": 2432232314}']
  const signature = 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
  const check = (signatures: string, secret: string, headers: IncomingHttpHeaders = {}, now = seconds * 1000) =>
    verified(
      Buffer.from(body),
      { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': signatures, ...headers },
      keysOf(secret),
      now
    )
  const refused = (run: () => unknown, message: string) => t.throws(run, { code: catalogue.signatureInvalid.code }, message)

  t.same(check(signature, secret), { id, at: new Date(seconds * 1000) })
  t.equal(new Webhook(secret).sign(id, new Date(seconds * 1000), body), signature)

  for (const form of [secret, secret.slice(6)]) t.ok(check(signature, form), form)
  for (const form of [secret, 'any text, with ümlauts', 'polar_whs_0123456789abcdef', 'whsec_this is no base64']) {
    const raw = new Webhook(Buffer.from(form).toString('base64')).sign(id, new Date(seconds * 1000), body)
    t.ok(check(raw, form), `the bytes of ${form}`)
  }

  t.ok(
    check(`v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= ${signature}`, secret),
    'several signatures'
  )
  for (
    const wrong of [
      '',
      'v1,',
      signature.slice(3),
      signature.replace('v1', 'v2'),
      signature.replace('v1', 'v1a'),
      signature.slice(0, -1),
      `${signature}=`,
      `${signature} `.repeat(2).replaceAll('g0h', 'g0H'),
      `${'v1,x '.repeat(1000)}${signature}`
    ]
  ) {
    refused(() => check(wrong, secret), wrong.slice(0, 60))
  }
  refused(() => check(signature, 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx'), 'another secret')
  for (
    const timestamp of ['', '-1614265330', '+1614265330', '01614265330', '1614265330.0', '1614265330 ', '0x60378a72', '1e9', 'NaN']
  ) { refused(() => check(signature, secret, { 'webhook-timestamp': timestamp }), `the time ${timestamp}`) }
  for (const wrong of ['', 'with space', 'x'.repeat(256), 'käse']) {
    refused(() => check(signature, secret, { 'webhook-id': wrong }), `the id ${wrong}`)
  }
  for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
    refused(() => check(signature, secret, { [name]: undefined }), `without ${name}`)
  }
  t.ok(check(signature, secret, {}, (seconds + 300) * 1000))
  t.ok(check(signature, secret, {}, (seconds - 300) * 1000))
  refused(() => check(signature, secret, {}, (seconds + 301) * 1000), 'too old')
  refused(() => check(signature, secret, {}, (seconds - 301) * 1000), 'yet to come')
  t.same(keysOf(''), [])
})

t.test('behaviour that only Polar has', async (t) => {
  const world = await payprovWorld(t)
  const provider = await world.open()
  const sold = world.sell({ name: 'Pro', amount: 2900, currency: 'usd', cycle: 'monthly' })
  const id = world.subscribe('acme', sold)

  await t.test('every kind of subscription event contains the subscription; other kinds are ignored', async (t) => {
    for (
      const kind of [
        'created',
        'updated',
        'active',
        'canceled',
        'uncanceled',
        'revoked',
        'past_due',
        'cycled',
        'paused',
        'resumed',
        'migrated'
      ]
    ) {
      const { body, headers } = world.eventOf(`subscription.${kind}`, id)
      t.match(provider.readWebhook(body, headers, world.now()), {
        id: headers['webhook-id'],
        type: `subscription.${kind}`,
        at: new Date(world.now()).toISOString(),
        subscriptionId: id,
        tenant: tenantRef('acme'),
        snapshot: { id, asOf: new Date(world.now()).toISOString() }
      }, kind)
    }
    for (const kind of ['product.created', 'order.created', 'subscription.invented', 'constructor', '__proto__']) {
      const { body, headers } = world.eventOf(kind, id)
      t.equal(provider.readWebhook(body, headers, world.now()), null, kind)
    }
  })

  await t.test('the tenant comes from the metadata, else from the external id; an invalid id is ignored', async (t) => {
    const customer = world.account.customerFor('external', 'external@customers.example')
    const tenantOf = (metadata: Record<string, string | number | boolean>) => {
      const { body, headers } = world.eventOf('subscription.updated', world.account.subscribe(customer, sold.product, { metadata }).id)
      return provider.readWebhook(body, headers, world.now())?.tenant
    }
    t.equal(tenantOf({}), 'external')
    t.equal(tenantOf({ tenant_id: 'metadata' }), 'metadata')
    const again = world.account.subscribe(world.account.customerFor('later@1790000000000', 'later@customers.example'), sold.product)
    const { body, headers } = world.eventOf('subscription.updated', again.id)
    t.equal(provider.readWebhook(body, headers, world.now())?.tenant, 'later', 'the customer of a tenant with the id of a deleted one')
    for (const tenant of ['', 'a/b', 'x'.repeat(65), 7, true]) t.equal(tenantOf({ tenant_id: tenant }), null, String(tenant))
    t.equal((await provider.subscriptions(tenantRef('external'))).length, 1)
    t.equal((await provider.subscriptions(tenantRef('metadata'))).length, 1)
  })

  await t.test("Polar's own statuses are mapped", async (t) => {
    for (const [status, expected] of [['paused', 'unpaid'], ['incomplete_expired', 'incomplete'], ['incomplete', 'incomplete']] as const) {
      const subscription = world.account.subscription(id)
      const body = Buffer.from(
        JSON.stringify({ type: 'subscription.updated', timestamp: new Date(world.now()).toISOString(), data: { ...subscription, status } })
      )
      t.equal(provider.readWebhook(body, world.sign(body).headers, world.now())?.snapshot?.status, expected, status)
    }
    for (
      const wrong of [
        { status: 'other' },
        { current_period_end: 'soon' },
        { current_period_end: null },
        { id: '' },
        { customer: null },
        { prices: 'none' },
        { cancel_at_period_end: 'no' },
        { id: 'a\0' },
        { customer_id: 'b\ud800' },
        { product_id: 'c d' },
        ...['2026-06-30T23:59:60Z', '2026-06-30T23:59:59+23', '2026-06-30 23:59:59Z'].map((time) => ({ current_period_end: time }))
      ]
    ) {
      const body = Buffer.from(
        JSON.stringify({
          type: 'subscription.updated',
          timestamp: new Date(world.now()).toISOString(),
          data: { ...world.account.subscription(id), ...wrong }
        })
      )
      t.throws(
        () => provider.readWebhook(body, world.sign(body).headers, world.now()),
        { code: catalogue.badRequest.code },
        JSON.stringify(wrong)
      )
    }
  })

  await t.test('the kind of the payment method is read from the provider', async (t) => {
    t.match(await provider.subscriptions(tenantRef('acme')), [{ paymentMethod: 'card' }])
    const { customer_id: customer } = world.account.subscription(id)
    const known = world.account.customers.get(customer)
    t.ok(world.account.customers.delete(customer))
    t.match(await provider.subscriptions(tenantRef('acme')), [{ id, paymentMethod: null }], "a deleted customer's is unknown")
    if (known !== undefined) world.account.customers.set(customer, known)
  })

  await t.test("requests have Polar's form; one that only reads has no idempotency key", async (t) => {
    const large = world.sell({ name: 'Team', amount: 9900, currency: 'usd', cycle: 'monthly' })
    await provider.cancel(id, 'key-1')
    world.forget()
    await provider.changeProduct(id, large.product, 'now', 'key-2')
    t.same(world.calls.map(({ method }) => method), ['GET', 'GET', 'PATCH', 'PATCH'])
    for (const { headers } of world.calls) t.match(headers, { authorization: `Bearer ${world.apiKey}`, 'polar-version': '2026-04' })
    const keys = world.calls.map(({ headers }) => headers['idempotency-key'])
    t.same(keys.slice(0, 2), [undefined, undefined])
    t.equal(new Set(keys.slice(2)).size, 2, 'two requests of one call have two keys')
    t.notMatch(world.calls[0]?.headers ?? {}, { 'polar-organization': /./ })
    const named = await world.open({ organizationId: world.account.id })
    t.equal((await named.subscriptions(tenantRef('acme'))).length, 1)
    t.equal(world.calls.at(-1)?.headers['polar-organization'], world.account.id)
  })

  await t.test('the product of a price is looked up once, over all pages', async (t) => {
    for (let count = 0; count < 150; count++) world.sell({ name: `Other ${count}`, amount: 100, currency: 'usd', cycle: 'monthly' })
    const last = world.sell({ name: 'Last', amount: 5000, currency: 'eur', cycle: 'yearly' })
    const input = {
      tenant: tenantRef('acme'),
      deletedAt: null,
      email: undefined,
      product: last.price,
      successUrl: 'https://app.example/s?session={CHECKOUT_ID}',
      cancelUrl: 'https://app.example/c',
      idempotencyKey: 'key-3'
    }
    const fresh = await world.open()
    world.forget()
    const { id: checkout, ...price } = await fresh.checkout(input)
    t.match(price, { amount: 5000, currency: 'eur' })
    t.equal(world.calls.length, 4)
    t.equal(world.account.checkouts.get(checkout)?.success_url, `https://app.example/s?session=${checkout}`)
    world.forget()
    await fresh.checkout({ ...input, idempotencyKey: 'key-4' })
    t.equal(world.calls.length, 1)
  })

  await t.test("the address may have the path of Polar's documentation", async (t) => {
    for (const end of ['/', '/v1', '/v1/']) {
      t.equal((await (await world.open({ baseUrl: `${world.baseUrl}${end}` })).subscriptions(tenantRef('acme'))).length, 1, end)
    }
  })
})

t.test("the client for tenants' keys", async (t) => {
  const world = await payprovWorld(t)
  const account = world.addAccount('polar_oat_keyOfATenantOfTheTests')
  const clientOf = (accessToken: string) => createPayprovClient({ accessToken, baseUrl: world.baseUrl, tenant: tenantRef('acme') })
  const client = await clientOf(account.token)

  await t.test('the client reads its own account', async (t) => {
    account.sell({ name: 'Own', amount: 100, currency: 'usd' })
    world.sell({ name: 'Platform', amount: 100, currency: 'usd', cycle: 'monthly' })
    t.match(await client.call({ repeatable: true, time: new CallTime() }, (polar) => polar.products.list()), { items: [{ name: 'Own' }] })
  })

  await t.test('a rejected key is reported to the tenant', async (t) => {
    for (const key of ['polar_oat_unknown', 'line\nbreak', '']) {
      const other = await clientOf(key)
      await t.rejects(other.call({ repeatable: true, time: new CallTime() }, (polar) => polar.products.list()), {
        code: catalogue.providerKeyRefused.code,
        statusCode: 424
      }, key)
    }
    world.misfortune({ status: 403 })
    await t.rejects(client.call({ repeatable: true, time: new CallTime() }, (polar) => polar.products.list()), {
      code: catalogue.providerKeyRefused.code
    })
  })

  await t.test('a call that is not repeatable is sent once, except after a rate limit', async (t) => {
    const create = () =>
      client.call(
        { repeatable: false, time: new CallTime() },
        (polar) =>
          polar.products.create({
            name: 'New',
            recurring_interval: 'month',
            prices: [{ amount_type: 'fixed', price_amount: 500, price_currency: 'usd' }]
          })
      )
    for (const misfortune of [{ status: 500 }, 'reset', 'lost'] as const) {
      world.forget()
      world.misfortune(misfortune)
      await t.rejects(create(), { code: catalogue.providerFailed.code }, JSON.stringify(misfortune))
      t.equal(world.calls.length, 1)
    }
    world.misfortune({ status: 429, retryAfter: 0 })
    t.match(await create(), { name: 'New' })
  })

  await t.test('an id that would change the path sends no request', async (t) => {
    world.forget()
    for (const id of ['..', '.', '']) {
      await t.rejects(
        client.call({ repeatable: true, time: new CallTime() }, (polar) => polar.customers.getState(id)),
        { code: catalogue.notFound.code },
        id
      )
      if (id !== '') {
        await t.rejects(
          client.call({ repeatable: false, time: new CallTime() }, (polar) => polar.subscriptions.revoke(id)),
          { code: catalogue.notFound.code },
          id
        )
      }
    }
    t.same(world.calls, [])
  })

  await t.test('faults are reported with their fields', async (t) => {
    await t.rejects(
      client.call({ repeatable: false, time: new CallTime() }, (polar) =>
        polar.products.create({
          name: 'Cheap',
          recurring_interval: 'month',
          prices: [{ amount_type: 'fixed', price_amount: 5, price_currency: 'usd' }]
        })),
      { code: catalogue.providerRefused.code, message: /prices\.0\.price_amount: Amount is below the minimum/ }
    )
  })
})
