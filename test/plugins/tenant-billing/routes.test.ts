/** Tenants bill their customers, each through its own account. */
import { test } from 'tap'
import { type Account, payprovWorld } from '../../helpers/payprov/index.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, type Body, caller, refused } from '../../http/caller.js'
import { open, openAccount, product } from './app.js'

const urls = { successUrl: 'https://harbour.example/thanks?checkout={CHECKOUT_ID}', cancelUrl: 'http://localhost:8080/prices' }

test("two tenants sell through their own accounts, and neither reaches the other's data", (t) =>
  forEachEngine(t, async (t, engine) => {
    const world = await payprovWorld(t)
    const app = await testServer(t, {}, { engine, tenants: ['acme', 'globex'], env: { PAYPROV_BASE_URL: world.baseUrl } })
    const as = (tenant: string, claims = {}) => caller(t, app, { token: signToken({ tenant_id: tenant, sub: 'ada', ...claims }) })
    const [acme, globex] = [as('acme', { role: 'admin' }), as('globex', { permissions: ['billing:write'] })]
    const own = await openAccount(t, world, 'acme', acme)
    const other = await openAccount(t, world, 'globex', as('globex', { role: 'admin' }))

    const made = await acme('POST /billing/tenant/products', {
      body: { ...product, prices: [...product.prices, { amount: 2700, currency: 'eur', interval: 'month' }] }
    })
    t.equal(made.status, 201)
    const { id: productId, prices } = made.body
    const [usd, eur] = idsOf(prices)
    t.same(made.body, {
      id: productId,
      name: 'Berth',
      description: 'A place in the harbour',
      prices: [{ id: usd, amount: 2900, currency: 'usd', interval: 'month' }, { id: eur, amount: 2700, currency: 'eur', interval: 'month' }]
    })
    t.match(own.product(String(productId)), { recurring_interval: 'month', recurring_interval_count: 1 })
    t.same((await acme('GET /billing/tenant/products')).body, { items: [made.body] })
    t.same((await globex('GET /billing/tenant/products')).body, { items: [] })

    const bought = await acme('POST /billing/tenant/checkout', {
      body: { productPriceId: eur, customerEmail: 'grace@example.com', ...urls }
    })
    t.equal(bought.status, 200)
    t.same(Object.keys(bought.body).sort(), ['id', 'url'])
    const checkout = own.checkouts.get(String(bought.body['id']))
    t.match(checkout, {
      amount: 2700,
      currency: 'eur',
      customer_email: 'grace@example.com',
      success_url: `https://harbour.example/thanks?checkout=${String(bought.body['id'])}`,
      return_url: urls.cancelUrl,
      url: bought.body['url']
    })
    refused(
      t,
      await globex('POST /billing/tenant/checkout', { body: { productPriceId: eur, customerEmail: 'grace@example.com', ...urls } }),
      404,
      'NOT_FOUND',
      "another tenant's price"
    )
    t.equal(other.checkouts.size, 0)

    const sold = own.pay(String(bought.body['id']))
    const subscription = {
      id: sold.id,
      customer_id: sold.customer_id,
      status: 'active',
      current_period_end: '2026-02-14T12:00:00.000Z',
      product: { name: 'Berth' }
    }
    t.same((await acme('GET /billing/tenant/customers')).body, {
      items: [{ id: sold.customer_id, email: 'grace@example.com', name: null, created_at: '2026-01-15T12:00:00.000Z' }]
    })
    t.same((await acme('GET /billing/tenant/subscriptions')).body, { items: [subscription] })
    t.same((await acme(`GET /billing/tenant/customers/${sold.customer_id}/state`)).body, {
      customerId: sold.customer_id,
      hasActiveSubscription: true,
      subscriptions: [{ id: sold.id, status: 'active', product: 'Berth' }]
    })
    for (const list of ['customers', 'subscriptions']) t.same((await globex(`GET /billing/tenant/${list}`)).body, { items: [] })
    refused(t, await globex(`GET /billing/tenant/customers/${sold.customer_id}/state`), 404, 'NOT_FOUND', "another tenant's customer")
    refused(t, await globex(`DELETE /billing/tenant/subscriptions/${sold.id}`), 404, 'NOT_FOUND', "another tenant's subscription")
    refused(
      t,
      await globex(`DELETE /billing/tenant/subscriptions/${sold.id}?atPeriodEnd=true`),
      404,
      'NOT_FOUND',
      "another tenant's subscription"
    )
    t.match(own.subscription(sold.id), { status: 'active', cancel_at_period_end: false })

    const later = { success: true, subscription, cancelAtPeriodEnd: true }
    t.same((await acme(`DELETE /billing/tenant/subscriptions/${sold.id}?atPeriodEnd=true`)).body, later)
    t.same((await acme(`DELETE /billing/tenant/subscriptions/${sold.id}?atPeriodEnd=true`)).body, later, 'a second time')
    const canceled = { success: true, subscription: { ...subscription, status: 'canceled' }, cancelAtPeriodEnd: true }
    for (const label of ['now', 'a second time']) {
      t.same((await acme(`DELETE /billing/tenant/subscriptions/${sold.id}`)).body, canceled, label)
    }
    t.same((await acme(`GET /billing/tenant/customers/${sold.customer_id}/state`)).body, {
      customerId: sold.customer_id,
      hasActiveSubscription: false,
      subscriptions: []
    })
    t.match((await acme('GET /billing/tenant/subscriptions')).body, { items: [{ status: 'canceled' }] }, 'ended ones too')

    const keys = new Set(world.calls.map(({ headers }) => headers.authorization))
    t.same(keys, new Set([`Bearer ${own.token}`, `Bearer ${other.token}`]))
    const entries = (await acme('GET /audit?limit=100')).body.data?.filter(({ action }) => String(action).startsWith('tenant_billing.'))
      .map(({ action, userId, target, outcome, details }) => ({ action, userId, target, outcome, details }))
    const cancel = (atPeriodEnd: boolean) => ({
      action: 'tenant_billing.subscription.cancel',
      userId: 'ada',
      target: sold.id,
      outcome: 'success',
      details: { atPeriodEnd }
    })
    t.same(entries, [
      cancel(false),
      cancel(false),
      cancel(true),
      cancel(true),
      {
        action: 'tenant_billing.checkout.create',
        userId: 'ada',
        target: bought.body['id'],
        outcome: 'success',
        details: { productPriceId: eur }
      },
      { action: 'tenant_billing.product.create', userId: 'ada', target: productId, outcome: 'success', details: { name: 'Berth' } }
    ])
    t.notMatch(JSON.stringify(await app.db.selectFrom('tenantry.audit_log').selectAll().execute()), /grace@example/)
    t.equal(
      (await caller(t, app, { token: signToken({ tenant_id: 'globex', role: 'admin' }) })('GET /audit')).body.data?.filter(({ action }) =>
        String(action).startsWith('tenant_billing.')
      ).length,
      0
    )
    const { api_calls: calls } = (await globex('GET /usage/summary')).body
    t.ok(Number(calls) >= 8, `${String(calls)} requests are counted`)
  }))

test('lists', async (t) => {
  const { as, accounts, world } = await open(t, ['acme'])
  const acme = as('acme')
  const account = accountOf(accounts, 'acme')

  await t.test('1,050 customers are returned in two pages, the oldest first, and a new one shifts none', async (t) => {
    for (let index = 0; index < 1050; index++) {
      world.advance(1000)
      account.customerFor(null, `c${index}@example.com`)
    }
    world.forget()
    const first = (await acme('GET /billing/tenant/customers')).body
    t.equal(world.calls.length, 10)
    world.advance(1000)
    account.customerFor(null, 'new@example.com')
    const second = (await acme(`GET /billing/tenant/customers?cursor=${String(first['nextCursor'])}`)).body
    t.notOk('nextCursor' in second)
    t.same([...emailsOf(first), ...emailsOf(second)], [
      ...Array.from({ length: 1050 }, (_, index) => `c${index}@example.com`),
      'new@example.com'
    ])
    t.equal(emailsOf(first).length, 1000)
    refused(
      t,
      await acme(`GET /billing/tenant/subscriptions?cursor=${String(first['nextCursor'])}`),
      400,
      'VALIDATION_FAILED',
      'the cursor of another list'
    )
  })

  await t.test('exactly 1,000 customers fit into one page', async (t) => {
    for (const id of [...account.customers.keys()].slice(1000)) account.customers.delete(id)
    const all = (await acme('GET /billing/tenant/customers')).body
    t.equal(emailsOf(all).length, 1000)
    t.notOk('nextCursor' in all)
  })

  await t.test('large responses end earlier', async (t) => {
    for (let index = 0; index < 250; index++) {
      account.sell({ name: `Long ${index}`, amount: 100, currency: 'usd', description: 'x'.repeat(30_000) })
    }
    const first = (await acme('GET /billing/tenant/products')).body
    const second = (await acme(`GET /billing/tenant/products?cursor=${String(first['nextCursor'])}`)).body
    t.equal(itemsOf(first).length, 200)
    t.equal(itemsOf(second).length, 50)
    account.products.clear()
  })

  await t.test('archived prices are omitted, and only fixed prices have an amount', async (t) => {
    const archived = account.addProduct({ name: 'Old', interval: 'month', prices: [{ amount: 100, currency: 'usd' }] })
    account.products.set(archived.id, { ...archived, is_archived: true })
    const two = account.addProduct({
      name: 'Two',
      interval: 'month',
      prices: [{ amount: 100, currency: 'usd' }, { amount: 200, currency: 'eur' }]
    })
    const [kept, gone] = two.prices
    if (kept === undefined || gone === undefined) return t.fail('two prices')
    account.products.set(two.id, { ...two, recurring_interval_count: 3, prices: [kept, { ...gone, is_archived: true }] })
    const free = account.addProduct({ name: 'Once', description: null, interval: null, prices: [{ amount: 0, currency: 'usd' }] })
    const [price] = free.prices
    const open = account.addProduct({ name: 'Gift', interval: null, prices: [{ amount: 100, currency: 'usd' }] })
    const [given] = open.prices
    if (price === undefined || given === undefined) return t.fail('a price')
    const { id, created_at: created, modified_at: modified, source, is_archived: isArchived, product_id: of } = given
    account.products.set(open.id, {
      ...open,
      prices: [{
        id,
        created_at: created,
        modified_at: modified,
        source,
        is_archived: isArchived,
        product_id: of,
        price_currency: 'usd',
        tax_behavior: null,
        amount_type: 'custom',
        minimum_amount: 50,
        maximum_amount: null,
        preset_amount: 500
      }]
    })
    t.same((await acme('GET /billing/tenant/products')).body, {
      items: [
        {
          id: two.id,
          name: 'Two',
          description: null,
          prices: [{ id: kept.id, amount: 100, currency: 'usd', interval: 'month', intervalCount: 3 }]
        },
        { id: free.id, name: 'Once', description: null, prices: [{ id: price.id, amount: 0, currency: 'usd', interval: null }] },
        { id: open.id, name: 'Gift', description: null, prices: [{ id, amount: null, currency: 'usd', interval: null }] }
      ]
    })
    const buy = (productPriceId: string | undefined) =>
      acme('POST /billing/tenant/checkout', { body: { productPriceId, customerEmail: 'a@example.com', ...urls } })
    refused(t, await buy(gone.id), 404, 'NOT_FOUND', 'an archived price')
    refused(t, await buy(archived.prices[0]?.id), 404, 'NOT_FOUND', 'a price of an archived product')
  })

  await t.test('a price far down the list is found', async (t) => {
    const old = account.sell({ name: 'First', amount: 100, currency: 'usd' })
    for (let index = 0; index < 150; index++) {
      world.advance(1000)
      account.sell({ name: `Later ${index}`, amount: 100, currency: 'usd' })
    }
    t.equal(
      (await acme('POST /billing/tenant/checkout', { body: { productPriceId: old.price, customerEmail: 'a@example.com', ...urls } }))
        .status,
      200
    )
  })

  await t.test('an older product with prices of several intervals is not sold at the wrong one', async (t) => {
    const before = account.addProduct({
      name: 'Before',
      interval: null,
      prices: [{ amount: 100, currency: 'usd' }, { amount: 1000, currency: 'usd' }]
    })
    const [monthly, yearly] = before.prices
    if (monthly?.amount_type !== 'fixed' || yearly?.amount_type !== 'fixed') return t.fail('two prices')
    account.products.set(before.id, {
      ...before,
      prices: [{ ...monthly, type: 'recurring', recurring_interval: 'month', legacy: true }, {
        ...yearly,
        type: 'recurring',
        recurring_interval: 'year',
        legacy: true
      }]
    })
    const response = await acme('POST /billing/tenant/checkout', {
      body: { productPriceId: yearly.id, customerEmail: 'a@example.com', ...urls }
    })
    refused(t, response, 400, 'PROVIDER_REFUSED')
    t.match(response.body, { message: /several intervals/ })
  })

  await t.test('a customer with many subscriptions to few products is listed', async (t) => {
    const customer = account.customerFor(null, 'c1@example.com')
    const [one, two] = [
      account.sell({ name: 'One', amount: 100, currency: 'usd' }),
      account.sell({ name: 'Two', amount: 100, currency: 'usd' })
    ]
    const ids = [
      account.subscribe(customer, one.product).id,
      account.subscribe(customer, two.product, { trialDays: 7 }).id,
      account.subscribe(customer, one.product).id
    ]
    account.change(account.subscribe(customer, one.product).id, 'end')
    const sold = account.product(two.product)
    account.products.set(sold.id, { ...sold, is_archived: true })
    t.same((await acme(`GET /billing/tenant/customers/${customer.id}/state`)).body, {
      customerId: customer.id,
      hasActiveSubscription: true,
      subscriptions: [{ id: ids[0], status: 'active', product: 'One' }, { id: ids[1], status: 'trialing', product: 'Two' }, {
        id: ids[2],
        status: 'active',
        product: 'One'
      }]
    })
  })
})

test('an idempotency key creates one product, and is separate for each tenant and endpoint', async (t) => {
  const { as, accounts, world } = await open(t, ['acme', 'globex'])
  const make = (ask: Ask, key: string) => ask('POST /billing/tenant/products', { body: product, headers: { 'idempotency-key': key } })
  const first = await make(as('acme'), 'order-7')
  t.same((await make(as('acme'), 'order-7')).body, first.body)
  t.not((await make(as('acme'), 'order-8')).body['id'], first.body['id'])
  t.equal(accountOf(accounts, 'acme').products.size, 2)
  t.not((await make(as('globex'), 'order-7')).body['id'], first.body['id'])
  t.equal(accountOf(accounts, 'globex').products.size, 1)
  const keys = world.calls.filter(({ method }) => method === 'POST').map(({ headers }) => headers['idempotency-key'])
  t.equal(new Set(keys).size, 3)
  t.notMatch(JSON.stringify(world.calls), /order-7/)
})

function accountOf (accounts: Readonly<Record<string, Account>>, tenant: string): Account {
  const account = accounts[tenant]
  if (account === undefined) throw new Error(`${tenant} has no account`)
  return account
}

function itemsOf (body: Body): Record<string, unknown>[] {
  const { items } = body
  return Array.isArray(items) ? items.map((item: unknown) => Object(item)) : []
}

function emailsOf (body: Body): unknown[] {
  return itemsOf(body).map(({ email }) => email)
}

function idsOf (records: unknown): unknown[] {
  return Array.isArray(records) ? records.map((record: unknown) => Object(record).id) : []
}
