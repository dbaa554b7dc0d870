/** Responses when payprov rejects a request, is slow, unreachable, or returns nonsense; and that no operation is half-done. */
import { type Test, test } from 'tap'
import { turns } from '../../../lib/concurrency/event-loop-yielder.js'
import { atOnce } from '../../helpers/at-once.js'
import { secretText } from '../../helpers/log-scan.js'
import { holdInPause } from '../../helpers/pauses.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { open, type Opened, product } from './app.js'

const unknown = '7f3d4c7e-5f0e-4c9b-9a39-5f1c6f9a0b11'

// Retries and timeouts cause waits.
test('failures', (t) =>
  atOnce(t, {
    'rejections and failures of payprov are mapped': fails,
    'for a hanging provider ten requests of a tenant wait, the next is rejected, and other tenants are served': crowds,
    'a product with an unknown outcome is audited as a failure': isUnknown,
    'all pages of a list share the timeout': pages,
    'a completed operation is reported even if the audit log cannot be written': responds
  }))

async function fails (t: Test): Promise<void> {
  const { as, world, accounts, app } = await open(t, ['acme'])
  const acme = as('acme')
  const account = accounts['acme']
  if (account === undefined) throw new Error('no account')
  const make = () => acme('POST /billing/tenant/products', { body: product })
  const list = () => acme('GET /billing/tenant/products')
  const entries = async () =>
    (await app.db.selectFrom('tenantry.audit_log').select(['action', 'outcome']).where('action', 'like', 'tenant_billing.%').orderBy('id')
      .execute()).map(({ action, outcome }) => `${action.slice(15)} ${outcome}`)

  await t.test("rejected values are a 400 with payprov's message, without the key", async (t) => {
    const response = await acme('POST /billing/tenant/products', {
      body: { ...product, prices: [{ amount: 1, currency: 'usd', interval: 'month' }] }
    })
    refused(t, response, 400, 'PROVIDER_REFUSED')
    t.match(response.body, { message: /prices.0.price_amount: Amount is below the minimum/ })
    world.misfortune({ status: 422, message: `not with ${account.token}\n${'x'.repeat(5000)}` })
    const echoed = await make()
    refused(t, echoed, 400, 'PROVIDER_REFUSED')
    t.notOk(echoed.text.includes(account.token))
    t.ok(echoed.text.length < 600)
    t.equal(account.products.size, 0)
    t.same(await entries(), [])
  })

  await t.test('a rejected key is a 424', async (t) => {
    for (const status of [401, 403]) {
      world.misfortune({ status, message: `the key ${account.token}` })
      const response = await list()
      refused(t, response, 424, 'PROVIDER_KEY_REFUSED')
      t.notOk(response.text.includes(account.token))
    }
  })

  await t.test('an unknown object is a 404', async (t) => {
    refused(t, await acme(`GET /billing/tenant/customers/${unknown}/state`), 404, 'NOT_FOUND')
    refused(t, await acme(`DELETE /billing/tenant/subscriptions/${unknown}`), 404, 'NOT_FOUND')
    refused(
      t,
      await acme('POST /billing/tenant/checkout', {
        body: { productPriceId: unknown, customerEmail: 'a@example.com', successUrl: 'https://a.example', cancelUrl: 'https://a.example' }
      }),
      404,
      'NOT_FOUND'
    )
  })

  await t.test('a rate limit is awaited as requested, or a 503 with Retry-After', async (t) => {
    world.misfortune({ status: 429, retryAfter: 1 })
    t.equal((await list()).status, 200)
    world.misfortune({ status: 429, retryAfter: 60 })
    const response = await list()
    refused(t, response, 503, 'PROVIDER_BUSY')
    t.equal(response.body['retryAfter'], 60)
    t.equal(response.headers['retry-after'], '60')
  })

  await t.test('a temporary failure is retried; a product whose response was lost exists once', async (t) => {
    for (const misfortune of [{ status: 503 }, 'reset'] as const) {
      world.misfortune(misfortune, 2)
      t.equal((await list()).status, 200)
    }
    world.misfortune('lost')
    const made = await make()
    t.equal(made.status, 201)
    t.same([...account.products.keys()], [made.body['id']])
    t.same(await entries(), ['product.create success'])
  })

  await t.test('a subscription is canceled even if the response was lost', async (t) => {
    const [{ id: productId } = { id: '' }] = account.products.values()
    for (const query of ['', '?atPeriodEnd=true']) {
      const { id } = account.subscribe(account.customerFor(null, `${query.length}@example.com`), productId)
      world.misfortune('lost')
      t.match((await acme(`DELETE /billing/tenant/subscriptions/${id}${query}`)).body, {
        success: true,
        subscription: { id, status: query === '' ? 'canceled' : 'active' },
        cancelAtPeriodEnd: query !== ''
      })
    }
  })

  await t.test('outages and invalid responses are a 502, audited if the operation may have taken effect', async (t) => {
    const before = (await entries()).length
    for (const misfortune of [{ status: 500 }, { status: 503 }, 'reset', 'nonsense', 'text', 'huge', 'redirect'] as const) {
      world.misfortune(misfortune, 6)
      for (const response of await Promise.all([list(), make()])) refused(t, response, 502, 'PROVIDER_FAILED', JSON.stringify(misfortune))
    }
    world.misfortune({ status: 200 }, 0)
    t.equal(account.products.size, 1)
    t.same(world.strayed, [])
    t.same((await entries()).slice(before), Array.from({ length: 7 }, () => 'product.create failure'))
  })

  await t.test('another key or organization is used from the next request on', async (t) => {
    const moved = world.addAccount(secretText('polar_oat_theSecondKeyOf_acme_0123456789'))
    await acme('POST /tenant/secrets', { body: { key: 'payprov_api_key', value: moved.token } })
    t.same((await list()).body, { items: [] })
    await acme('POST /tenant/secrets', { body: { key: 'payprov_organization_id', value: account.id } })
    refused(t, await list(), 424, 'PROVIDER_KEY_REFUSED', 'an organization of another key')
    await acme('POST /tenant/secrets', { body: { key: 'payprov_organization_id', value: moved.id } })
    t.equal((await make()).status, 201)
    t.equal(moved.products.size, 1)
    const { body } = await acme('GET /tenant/secrets')
    t.match(body, { secrets: [{ key: 'payprov_api_key', accessCount: /^[1-9]/ }, { key: 'payprov_organization_id', accessCount: 2 }] })
  })
}

/** A server that waits at most three seconds for the payment provider. */
function openImpatient (t: Test, tenants: readonly string[]): Promise<Opened> {
  return open(t, tenants, { timeoutMs: 3000 })
}

async function crowds (t: Test): Promise<void> {
  const { as, world, accounts } = await openImpatient(t, ['acme', 'globex'])
  const [acme, globex] = [as('acme'), as('globex')]
  accounts['globex']?.sell({ name: 'Berth', amount: 100, currency: 'usd' })
  world.misfortune('silent', 10)
  const waiting = Array.from({ length: 10 }, () => acme('GET /billing/tenant/products'))
  await until('ten wait', () => world.calls.length === 10)
  const eleventh = await acme('GET /billing/tenant/customers')
  refused(t, eleventh, 429, 'RATE_LIMITED')
  t.equal(eleventh.body['retryAfter'], 1)
  t.equal(eleventh.headers['retry-after'], '1')
  t.match((await globex('GET /billing/tenant/products')).body, { items: [{ name: 'Berth' }] })
  t.equal(world.calls.length, 11)
  for (const response of await Promise.all(waiting)) refused(t, response, 504, 'PROVIDER_TIMEOUT')
  t.equal((await acme('GET /billing/tenant/products')).status, 200, 'its slots are free again')
}

async function isUnknown (t: Test): Promise<void> {
  const { as, world, app } = await openImpatient(t, ['acme'])
  world.misfortune('silent')
  refused(t, await as('acme')('POST /billing/tenant/products', { body: product }), 504, 'PROVIDER_TIMEOUT')
  t.match(
    await app.db.selectFrom('tenantry.audit_log').select(['action', 'outcome', 'target']).where('tenant_id', '=', 'acme')
      .where('action', 'like', 'tenant_billing.%').execute(),
    [{ action: 'tenant_billing.product.create', outcome: 'failure', target: null }]
  )
}

async function pages (t: Test): Promise<void> {
  const { as, world, accounts } = await openImpatient(t, ['acme'])
  for (let index = 0; index < 250; index++) accounts['acme']?.customerFor(null, `c${index}@example.com`)
  world.forget()
  const asked = as('acme')('GET /billing/tenant/customers')
  while (world.calls.length < 1) {
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
  }
  world.misfortune('silent', 1)
  refused(t, await asked, 504, 'PROVIDER_TIMEOUT')
}

async function responds (t: Test): Promise<void> {
  const { as, accounts, app } = await open(t, ['acme'])
  t.intercept(app.engine, 'kyselyFor', {
    value: () => {
      throw new Error('the database is down')
    }
  })
  t.equal((await as('acme')('POST /billing/tenant/products', { body: product })).status, 201)
  t.equal(accounts['acme']?.products.size, 1)
}

test("payprov's responses are read in a turn of the tenant", async (t) => {
  const { as } = await open(t, ['acme', 'globex'])
  const list = (tenant: string) => as(tenant)('GET /billing/tenant/customers')
  t.match(await list('acme'), { status: 200 })
  const pause = holdInPause(t, 'acme')
  const listed = list('acme')
  await until('the response waits', () => turns.yielder('tenant acme').waiting === 1)
  t.match(await list('globex'), { status: 200 })
  pause.end()
  t.match(await listed, { status: 200 })
})
