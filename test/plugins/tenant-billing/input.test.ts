/** Permissions, required secrets, and input that is rejected before the provider is called. */
import { test } from 'tap'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken, type TokenClaims } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'

const id = '7f3d4c7e-5f0e-4c9b-9a39-5f1c6f9a0b11'
const product = { name: 'Berth', description: 'A place', prices: [{ amount: 2900, currency: 'usd', interval: 'month' }] }
const checkout = {
  productPriceId: id,
  customerEmail: 'ada@example.com',
  successUrl: 'https://a.example/thanks?c={CHECKOUT_ID}',
  cancelUrl: 'http://a.example:8080/'
}
const targets = [
  ['GET /billing/tenant/products'],
  ['POST /billing/tenant/products', product],
  ['POST /billing/tenant/checkout', checkout],
  ['GET /billing/tenant/customers'],
  [`GET /billing/tenant/customers/${id}/state`],
  ['GET /billing/tenant/subscriptions'],
  [`DELETE /billing/tenant/subscriptions/${id}`]
] as const

test('access, secrets and input are checked before the provider is called', async (t) => {
  const { connectionString, admin: sql } = await postgresDatabase(t)
  // No test here may call the provider: the port has no listener.
  const app = await testServer(t, {}, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants: ['acme', 'globex', 'bare'],
    env: { PAYPROV_BASE_URL: 'http://127.0.0.1:1' }
  })
  const as = (claims: TokenClaims) => caller(t, app, { token: signToken(claims) })
  const admin = as({ role: 'admin', tenant_id: 'acme' })
  const store = async (tenant: string, key: string, value: string) => {
    t.ok((await as({ role: 'admin', tenant_id: tenant })('POST /tenant/secrets', { body: { key, value } })).status < 300)
  }
  /** It was stored a moment ago, and was not read yet. */
  const expire = async (tenant: string, key: string) => {
    await sql("update tenantry.secrets set expires_at = now() - interval '1 minute' where tenant_id = $1 and key = $2", [tenant, key])
  }
  await store('acme', 'payprov_api_key', 'polar_oat_of_acme_for_bad_input')

  await t.test('callers without a token or the permission learn nothing from an invalid body', async (t) => {
    for (const [target] of targets) {
      const body = target.startsWith('POST') ? { body: { nonsense: true } } : {}
      const wrong = target.replace(id, 'x')
      refused(t, await caller(t, app)(wrong, body), 401, 'TOKEN_MISSING', target)
      refused(t, await as({ tenant_id: 'acme' })(wrong, body), 403, 'FORBIDDEN', target)
      refused(t, await as({ tenant_id: 'acme', permissions: ['billing:read', 'secrets:write'] })(wrong, body), 403, 'FORBIDDEN', target)
      refused(t, await as({ role: 'admin', tenant_id: 'acme' })(target, { ...body, tenant: 'globex' }), 403, 'TENANT_MISMATCH', target)
      refused(t, await as({ role: 'admin' })(target), 400, target.startsWith('POST') ? 'VALIDATION_FAILED' : 'TENANT_REQUIRED', target)
    }
    refused(t, await as({ role: 'admin' })('POST /billing/tenant/products', { body: product }), 400, 'TENANT_REQUIRED')
  })

  await t.test('the error for a tenant without a valid key names the secret to store', async (t) => {
    await store('globex', 'payprov_api_key', 'polar_oat_of_globex')
    await expire('globex', 'payprov_api_key')
    for (const tenant of ['bare', 'globex']) {
      for (const [target, body] of targets) {
        const response = await as({ tenant_id: tenant, permissions: ['billing:write'] })(target, { body })
        refused(t, response, 400, 'SECRET_REQUIRED', target)
        t.match(response.body, {
          secret: 'payprov_api_key',
          message: tenant === 'bare' ? /"payprov_api_key" is missing: .*POST \/tenant\/secrets/ : /"payprov_api_key" has expired/
        })
      }
    }
  })

  await t.test('an expired organization is reported', async (t) => {
    await store('bare', 'payprov_api_key', 'polar_oat_of_bare')
    await store('bare', 'payprov_organization_id', 'the-organization-of-bare')
    await expire('bare', 'payprov_organization_id')
    const response = await as({ role: 'admin', tenant_id: 'bare' })('GET /billing/tenant/products')
    refused(t, response, 400, 'SECRET_REQUIRED')
    t.match(response.body, { secret: 'payprov_organization_id' })
  })

  await t.test('a key that cannot be sent in a header is rejected without a call, and not shown', async (t) => {
    await store('globex', 'payprov_api_key', 'polar_oat_with_a\nline-break')
    refused(t, await as({ role: 'admin', tenant_id: 'globex' })('GET /billing/tenant/products'), 424, 'PROVIDER_KEY_REFUSED')
  })

  await t.test('invalid products are rejected', async (t) => {
    const price = product.prices[0]
    const prices = (...changes: object[]) => ({ ...product, prices: changes.map((change) => ({ ...price, ...change })) })
    const wrong: readonly [body: unknown, path: string][] = [
      [{}, '/body/name'],
      [{ ...product, name: 'ab' }, '/body/name'],
      [{ ...product, name: 'x'.repeat(65) }, '/body/name'],
      [{ ...product, name: 7 }, '/body/name'],
      [{ ...product, name: 'a\u0000b' }, '/body/name'],
      [{ ...product, description: 5 }, '/body/description'],
      [{ ...product, price: 1 }, '/body/price'],
      [{ ...product, prices: [] }, '/body/prices'],
      [{ ...product, prices: {} }, '/body/prices'],
      [{ ...product, prices: Array.from({ length: 127 }, () => price) }, '/body/prices'],
      [prices({ amount: -1 }), '/body/prices/0/amount'],
      [prices({ amount: 29.5 }), '/body/prices/0/amount'],
      [prices({ amount: '2900' }), '/body/prices/0/amount'],
      [prices({ amount: null }), '/body/prices/0/amount'],
      [prices({ amount: 100_000_000 }), '/body/prices/0/amount'],
      [prices({ amount: 2 ** 53 }), '/body/prices/0/amount'],
      [prices({ amount: 1e300 }), '/body/prices/0/amount'],
      [prices({ currency: 'USD' }), '/body/prices/0/currency'],
      [prices({ currency: 'xxx' }), '/body/prices/0/currency'],
      [prices({ currency: 'us' }), '/body/prices/0/currency'],
      [prices({ currency: ' usd' }), '/body/prices/0/currency'],
      [prices({ interval: 'monthly' }), '/body/prices/0/interval'],
      [prices({ interval: 'hour' }), '/body/prices/0/interval'],
      [prices({ interval: null }), '/body/prices/0/interval'],
      [prices({}, { currency: 'eur', interval: 'year' }), '/body/prices/1/interval'],
      [prices({}, { currency: 'eur' }, { currency: 'eur' }), '/body/prices/2/currency'],
      [prices({}, { amount: 5 }), '/body/prices/1/currency']
    ]
    for (const [body, path] of wrong) {
      const response = await admin('POST /billing/tenant/products', { body })
      refused(t, response, 400, 'VALIDATION_FAILED', `${path} of ${JSON.stringify(body).slice(0, 80)}`)
      t.ok(response.body.details?.some((detail) => detail.path === path), path)
    }
    for (const raw of ['{"name": NaN}', '{"amount": Infinity}', '[', 'null']) {
      const { status } = await admin('POST /billing/tenant/products', { raw })
      t.equal(status, 400, raw)
    }
    t.equal((await admin('POST /billing/tenant/products', { raw: 'name=Berth', type: 'application/x-www-form-urlencoded' })).status, 415)
    t.equal((await admin('POST /billing/tenant/products', { body: { ...product, description: 'x'.repeat(10_001) } })).status, 400)
  })

  await t.test('invalid checkouts are rejected', async (t) => {
    const urls = [
      '',
      'thanks',
      '/thanks',
      '//a.example/',
      'https:/a.example',
      'https:a.example',
      'https://',
      'https:///thanks',
      'ftp://a.example/',
      'javascript:alert(1)',
      'data:text/html,x',
      'https://ada@a.example/',
      'https://ada:secret@a.example/',
      'https://@a.example/',
      'https://a.example\\@b.example/',
      ' https://a.example/',
      'https://a.example/ x',
      'https://a.example/\nx',
      'https://a.example/\u0000',
      'https://a.example:99999/',
      'https://[::1',
      `https://a.example/${'x'.repeat(2000)}`
    ]
    const emails = [
      '',
      'ada',
      'ada@',
      '@example.com',
      'ada example.com',
      'ada@example.com, eve@example.com',
      'Ada <ada@example.com>',
      'ada@exa mple.com',
      'ada@example.com\n',
      `${'a'.repeat(250)}@b.example`
    ]
    const wrong: readonly [body: object, path: string][] = [
      ...urls.map((url): [object, string] => [{ ...checkout, successUrl: url }, '/body/successUrl']),
      ...urls.map((url): [object, string] => [{ ...checkout, cancelUrl: url }, '/body/cancelUrl']),
      ...emails.map((email): [object, string] => [{ ...checkout, customerEmail: email }, '/body/customerEmail']),
      [{ ...checkout, productPriceId: 'price 1' }, '/body/productPriceId'],
      [{ ...checkout, productPriceId: `urn:uuid:${id}` }, '/body/productPriceId'],
      [{ ...checkout, productPriceId: '../customers' }, '/body/productPriceId'],
      [{ ...checkout, successUrl: undefined }, '/body/successUrl'],
      [{ ...checkout, cancelUrl: null }, '/body/cancelUrl'],
      [{ ...checkout, customer: 1 }, '/body/customer']
    ]
    for (const [body, path] of wrong) {
      const response = await admin('POST /billing/tenant/checkout', { body })
      refused(t, response, 400, 'VALIDATION_FAILED', `${path} of ${JSON.stringify(body).slice(0, 160)}`)
      t.ok(response.body.details?.some((detail) => detail.path === path), path)
    }
  })

  await t.test('all faults are reported together, with the valid values', async (t) => {
    const faultsFor = async (target: string, body: object) =>
      (await admin(target, { body })).body.details?.map(({ path, message }) => `${path} ${message}`).sort()
    t.strictSame(
      await faultsFor('POST /billing/tenant/checkout', {
        productPriceId: 'price/1',
        customerEmail: 'ada',
        successUrl: '/thanks',
        cancelUrl: 'harbour.example'
      }),
      [
        '/body/cancelUrl must be an absolute URL of http or https',
        '/body/customerEmail must be an e-mail address',
        '/body/productPriceId must be 1 to 255 characters of A-Z a-z 0-9 _ -',
        '/body/successUrl must be an absolute URL of http or https'
      ]
    )
    t.strictSame(
      await faultsFor('POST /billing/tenant/products', {
        name: 'Berth',
        prices: [{ amount: 2900, currency: 'usd', interval: 'month' }, { amount: 29_000, currency: 'usd', interval: 'year' }]
      }),
      [
        '/body/prices/1/interval must be "month", as in the first price: a product of payprov has one interval; create another product for "year"'
      ]
    )
    t.strictSame(
      await faultsFor('POST /billing/tenant/products', { name: 'Berth', prices: [{ amount: 29.5, currency: 'USD', interval: 'monthly' }] }),
      [
        '/body/prices/0/amount must be an integer',
        '/body/prices/0/currency must be an ISO 4217 currency code in lower case that payprov supports, such as usd',
        '/body/prices/0/interval must be one of day, week, month, year'
      ]
    )
  })

  await t.test('invalid ids, cursors, keys and queries are rejected', async (t) => {
    for (const wrong of ['x.y', 'x'.repeat(256), '..', '%2e%2e', `${id}%20`, `urn:uuid:${id}`, `${id}%2f..`, "'", `${id}%00`]) {
      for (
        const [method, path, end] of [['GET', '/billing/tenant/customers/', '/state'], ['DELETE', '/billing/tenant/subscriptions/', '']]
      ) {
        const { status } = await admin(`${method} ${path}${wrong}${end}`)
        t.ok(status === 400 || status === 404, `${method} ${wrong}: ${status}`)
      }
    }
    const cursorOf = (text: string) => Buffer.from(text).toString('base64url')
    for (
      const cursor of [
        '',
        'x',
        '1',
        '%00',
        'a'.repeat(65),
        cursorOf('customers:2'),
        cursorOf('products:1'),
        cursorOf('products:0'),
        cursorOf('products:-2'),
        cursorOf('products:2.5'),
        cursorOf('products:1e1'),
        cursorOf('products:99999999999'),
        cursorOf('products:NaN'),
        cursorOf('products:2:3'),
        cursorOf('products:02'),
        cursorOf('products: 2'),
        `${cursorOf('products:2')}=`,
        `${cursorOf('products:2')}&cursor=${cursorOf('products:3')}`
      ]
    ) {
      refused(t, await admin(`GET /billing/tenant/products?cursor=${cursor}`), 400, 'VALIDATION_FAILED', `the cursor ${cursor}`)
    }
    refused(t, await admin('GET /billing/tenant/products?limit=5'), 400, 'VALIDATION_FAILED')
    refused(t, await admin(`DELETE /billing/tenant/subscriptions/${id}?atPeriodEnd=maybe`), 400, 'VALIDATION_FAILED')
    for (const key of ['', 'a b', 'ä', 'x'.repeat(256)]) {
      refused(
        t,
        await admin('POST /billing/tenant/products', { body: product, headers: { 'idempotency-key': key } }),
        400,
        'VALIDATION_FAILED',
        `the key "${key.slice(0, 20)}"`
      )
    }
  })
})
