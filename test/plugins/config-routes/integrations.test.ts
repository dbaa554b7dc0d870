import { Writable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { serverRef } from '../../../lib/identity/tenant-ref.js'
import { ConfigError, type Fault } from '../../../lib/schema/faults.js'
import { postgresSection } from '../../helpers/postgres.js'
import { remote } from '../../helpers/remote.js'
import { testServer } from '../../helpers/server.js'
import { stripe } from '../../helpers/services/payments.js'
import { bearer } from '../../helpers/tokens.js'

const admin = (tenant: string) => bearer({ sub: `admin of ${tenant}`, role: 'admin', tenant_id: tenant })
const user = (tenant: string) => bearer({ sub: `user of ${tenant}`, tenant_id: tenant })
const platformKey = 'sk_platform_a_key_of_the_tests'
const tenantKey = 'sk_acme_a_key_of_the_tests'

t.test('integrations of routes', async (t) => {
  const lines: string[] = []
  const log = new Writable({
    write (chunk, _encoding, done) {
      lines.push(String(chunk))
      done()
    }
  })
  const echo = await remote(t, ({ method, path, headers, body }, response) => {
    const { pathname } = new URL(path, 'http://x')
    const status = Number(/^\/status\/(\d+)/.exec(pathname)?.[1] ?? 200)
    response.writeHead(status, { 'content-type': 'application/json' }).end(
      JSON.stringify({
        method,
        path,
        key: headers.authorization ?? null,
        body: body === '' ? null : JSON.parse(body),
        items: [{ price: 2, quantity: 3 }]
      })
    )
  })
  const payments = await stripe(t, platformKey)
  const ownPayments = await stripe(t, tenantKey)

  const echoed = { type: 'echo', action: 'post' } as const
  const app = await testServer(t, {
    tables: {
      orders: {
        tenantScoped: true,
        columns: {
          id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
          amount: { type: 'integer', notNull: true },
          note: { type: 'text' }
        }
      }
    },
    cache: { enabled: true, provider: 'memory', ttl: 60 },
    egress: { allow: [`127.0.0.1:${echo.port}`, `127.0.0.1:${ownPayments.port}`] },
    tenancy: { env: ['REGION'] },
    credentials: { payment: { secretKey: '{{env.STRIPE_KEY}}', baseUrl: payments.origin } },
    customIntegrations: [{
      name: 'echo',
      baseUrl: `${echo.origin}/base`,
      auth: { type: 'bearer', token: '{{env.ECHO_KEY}}' },
      actions: {
        post: { method: 'POST', path: '/things', body: { value: '{{params.value}}' }, result: 'body.value' },
        get: { method: 'GET', path: '/things/{{params.id}}' },
        fail: { method: 'POST', path: '/{{params.where}}' }
      }
    }, {
      name: 'flakyCallback',
      baseUrl: `${echo.origin}/base`,
      actions: { post: { method: 'POST', path: '/things', body: { value: '{{params.value}}' }, result: 'body.value' } }
    }, {
      name: 'broken',
      baseUrl: `${echo.origin}/status`,
      auth: { type: 'bearer', token: '{{env.ECHO_KEY}}' },
      actions: { fail: { method: 'POST', path: '/{{params.status}}', body: { text: '{{params.text}}' } } }
    }],
    routes: [
      {
        path: '/orders',
        method: 'post',
        requireAuth: true,
        queries: [{ table: 'orders', operation: 'insert' }],
        integrations: [
          {
            type: 'stripe',
            action: 'createPaymentIntent',
            alias: 'intent',
            params: { amount: '{{results.orders.amount}}', currency: 'eur', metadata: { order: '{{results.orders.id}}' } }
          },
          { ...echoed, params: { value: '{{results.intent.id}}' }, condition: 'results.intent.amount > 1000' }
        ]
      },
      {
        path: '/chain',
        method: 'post',
        integrations: [{ ...echoed, alias: 'first', params: { value: { n: '{{body.n}}' } } }, {
          ...echoed,
          alias: 'second',
          params: { value: 'got {{results.first.n}}' }
        }]
      },
      {
        path: '/camel',
        method: 'post',
        integrations: [1, 2, 3].map((value) => ({ type: 'flakyCallback', action: 'post', params: { value } })),
        response: { values: ['{{results.flakyCallback}}', '{{results.flakyCallback_2}}', '{{results.flakyCallback_3}}'] }
      },
      { path: '/skipped', method: 'post', integrations: [{ ...echoed, params: { value: 1 }, condition: 'body.missing > 3' }] },
      {
        path: '/mapped',
        method: 'post',
        integrations: [{ ...echoed, params: { value: '{{body.text}}' } }, {
          ...echoed,
          alias: 'never',
          params: { value: 2 },
          condition: 'false'
        }],
        response: { said: '{{results.echo}}', never: '{{results.never}}', fixed: 1 }
      },
      {
        path: '/computed',
        method: 'post',
        integrations: [{ type: 'echo', action: 'get', params: { id: '{{body.id}}' } }],
        transform: { fields: { where: "item.path + '!'" } }
      },
      {
        path: '/both',
        method: 'post',
        requireAuth: true,
        queries: [{ table: 'orders', operation: 'insert', data: { amount: 1 } }],
        integrations: [{ type: 'broken', action: 'fail', params: { status: '500', text: '{{body.text}}' } }]
      },
      {
        path: '/fail/:status',
        method: 'post',
        integrations: [{ type: 'broken', action: 'fail', params: { status: '{{params.status}}', text: 'x' } }]
      },
      {
        path: '/cached/:id',
        method: 'get',
        cache: { enabled: true },
        integrations: [{ type: 'echo', action: 'get', params: { id: '{{params.id}}' } }]
      },
      {
        path: '/fetch',
        method: 'post',
        integrations: [{ type: 'http', action: 'request', params: { url: `${echo.origin}/users/{{body.id}}/profile` } }]
      }
    ]
  }, {
    env: { STRIPE_KEY: platformKey, ECHO_KEY: 'the key of echo in the tests' },
    tenants: [{ id: 'acme', plan: 'pro' }, { id: 'bolt', plan: 'pro' }],
    logger: { level: 'trace', stream: log }
  })

  const post = async (url: string, payload: object, headers = {}) => {
    const response = await app.inject({ method: 'POST', url, payload, headers })
    return { status: response.statusCode, body: response.json() }
  }
  const save = (tenant: string, document: object) => post('/tenant/config', document, admin(tenant))
  const orders = (tenant: string) => count(app, tenant)

  await t.test('integrations run after the queries, and provide the response', async (t) => {
    const { status, body } = await post('/orders', { amount: 1200 }, user('bolt'))
    t.equal(status, 201)
    t.match(body, { amount: 1200, tenant_id: 'bolt' })
    t.equal(payments.requests.at(-1)?.headers.authorization, `Bearer ${platformKey}`)
    t.match(payments.requests.at(-1)?.body, new RegExp(`^amount=1200&currency=eur&metadata%5Border%5D=${body.id}$`))
    t.match(echo.requests.at(-1), { path: '/base/things', body: '{"value":"pi_1"}' })
    const before = echo.requests.length
    t.equal((await post('/orders', { amount: 10 }, user('bolt'))).status, 201)
    t.equal(echo.requests.length, before, 'a false condition skips the call')
  })

  await t.test('the last result is the response; skipped calls are null', async (t) => {
    t.strictSame(await post('/chain', { n: 7 }), { status: 200, body: 'got 7' })
    t.strictSame(await post('/skipped', {}), { status: 200, body: null })
    const text = '{{secret:STRIPE_KEY}} {{env.ECHO_KEY}}'
    t.strictSame(
      await post('/mapped', { text }),
      { status: 200, body: { said: text, never: null, fixed: 1 } },
      "a caller's values are data in both directions"
    )
    t.match(await post('/computed', { id: 'a/b' }), { status: 200, body: { path: '/base/things/a%2Fb', where: '/base/things/a%2Fb!' } })
  })

  await t.test("a failure is reported without the key, and keeps the queries' writes", async (t) => {
    const before = await orders('bolt')
    const failed = await post('/both', { text: 'x' }, user('bolt'))
    t.match(failed, { status: 502, body: { code: 'TENANTRY_PROVIDER_FAILED', integration: 'broken', action: 'fail' } })
    t.equal(await orders('bolt'), before + 1)
    for (const status of [400, 401, 404, 302]) {
      const { status: answered, body } = await post(`/fail/${status}`, {})
      t.equal(answered, 502, `${status}`)
      t.notMatch(JSON.stringify(body), /key of echo|authorization|items/)
    }
    t.notMatch(lines.join(''), /key of echo in the tests|sk_platform_a_key/)
  })

  await t.test('values stay in their place of the address', async (t) => {
    t.match(await post('/fetch', { id: 'a b' }), { status: 200, body: { path: '/users/a%20b/profile' } })
    const before = echo.requests.length
    for (const id of ['..', '../../admin', '']) {
      t.match(await post('/fetch', { id }), { status: 400, body: { details: [{ path: '/body/id' }] } })
    }
    t.match(await post('/fetch', {}), { status: 400 })
    t.equal(echo.requests.length, before)
  })

  await t.test('a cached route calls the service once', async (t) => {
    const before = echo.requests.length
    for (const expected of ['MISS', 'HIT']) {
      const { headers, statusCode } = await app.inject('/cached/1')
      t.strictSame([statusCode, headers['x-cache']], [200, expected])
    }
    t.equal(echo.requests.length, before + 1)
  })

  await t.test("a tenant's secret replaces the platform's setting of its name in the tenant's requests", async (t) => {
    await app.secrets.put('acme', { key: 'STRIPE_KEY', value: tenantKey }, noActor)
    t.equal(
      (await post('/orders', { amount: 5 }, user('acme'))).status,
      502,
      "the tenant's key is sent to the platform's address, which does not know the tenant"
    )
    t.equal(payments.requests.at(-1)?.headers.authorization, `Bearer ${tenantKey}`)
    t.equal((await post('/orders', { amount: 5 }, user('bolt'))).status, 201)
    t.equal(payments.requests.at(-1)?.headers.authorization, `Bearer ${platformKey}`)
  })

  await t.test("a tenant's document calls with its own credentials, and never with the platform's", async (t) => {
    const pay = {
      path: '/pay',
      method: 'post',
      integrations: [{ type: 'payment', action: 'createCustomer', params: { email: '{{body.email}}' } }]
    }
    t.match(await save('acme', { routes: [pay] }), {
      status: 400,
      body: { details: [{ path: '/routes/0/integrations/0/type', message: /needs `credentials.payment`/ }] }
    })
    t.match(await save('acme', { routes: [{ path: '/e', method: 'post', integrations: [{ ...echoed, params: { value: 1 } }] }] }), {
      status: 400,
      body: { details: [{ message: /there is no connector "echo"/ }] }
    }, 'only the platform can use its connectors')
    t.match(await save('acme', { credentials: { payment: { secretKey: '{{env.STRIPE_KEY}}' } } }), {
      status: 400,
      body: { details: [{ path: '/credentials/payment/secretKey', message: /tenancy\.env/ }] }
    })
    t.match(
      await save('acme', {
        customIntegrations: [{ name: 'own', baseUrl: '{{env.STRIPE_KEY}}', actions: { a: { method: 'GET', path: '/{{env.ECHO_KEY}}' } } }]
      }),
      { status: 400 }
    )
    t.match(await save('acme', { routes: [{ ...pay, response: { key: '{{credentials.payment.secretKey}}' } }] }), { status: 400 })
    t.match(
      await save('acme', {
        routes: Array.from(
          { length: 2 },
          (_, index) => ({ path: `/m${index}`, method: 'post', integrations: Array(11).fill(pay.integrations[0]) })
        )
      }),
      { status: 400, body: { details: [{ message: /at most 10 items/ }] } }
    )

    const long = { type: 'http', action: 'request', params: { url: 'https://example.com' }, condition: `body.a == '${'x'.repeat(1800)}'` }
    t.match(await save('acme', { routes: [{ path: '/l', method: 'post', integrations: [long, { ...long, alias: 'b' }] }] }), {
      status: 400,
      body: { details: [{ message: /characters in the conditions of integrations: at most 3000/ }] }
    })

    const document = {
      credentials: { payment: { secretKey: '{{secret:STRIPE_KEY}}', baseUrl: ownPayments.origin } },
      customIntegrations: [{
        name: 'own',
        baseUrl: echo.origin,
        auth: { type: 'header', name: 'authorization', value: '{{secret:own_key}}' },
        actions: { get: { method: 'GET', path: '/own/{{params.id}}', result: 'key' } }
      }],
      routes: [
        pay,
        {
          path: '/own/:id',
          method: 'get',
          requireAuth: true,
          integrations: [{ type: 'own', action: 'get', params: { id: '{{params.id}}' } }]
        },
        {
          path: '/inside',
          method: 'post',
          integrations: [{
            type: 'http',
            action: 'request',
            params: { url: `http://127.0.0.1:${payments.port}/v1/customers`, method: 'POST' }
          }]
        }
      ]
    }
    t.match(await save('acme', document), { status: 200, body: { secretsDetected: ['STRIPE_KEY', 'own_key'] } })
    t.match(await post('/pay', { email: 'a@example.com' }, user('acme')), { status: 200, body: { email: 'a@example.com' } })
    t.match(await post('/inside', {}, user('acme')), { status: 400, body: { code: 'TENANTRY_ADDRESS_REFUSED' } })

    await app.secrets.put('acme', { key: 'own_key', value: 'the own key of acme' }, noActor)
    t.equal((await app.inject({ url: '/own/1', headers: user('acme') })).json(), 'the own key of acme')
    // Two documents with the same routes, but different credentials.
    t.equal(
      (await save('bolt', {
        ...document,
        customIntegrations: [{
          ...document.customIntegrations[0],
          auth: { type: 'header', name: 'authorization', value: 'the key of bolt' }
        }]
      })).status,
      200
    )
    t.equal((await app.inject({ url: '/own/1', headers: user('bolt') })).json(), 'the key of bolt')
    t.equal((await app.inject({ url: '/own/1', headers: user('acme') })).json(), 'the own key of acme')
  })

  await t.test('integrations of one type have separate results, and connector names may be in camel case', async (t) => {
    t.match(await post('/camel', {}), { status: 200, body: { values: [1, 2, 3] } })
  })

  await t.test('integrations are documented', async (t) => {
    const { paths } = (await app.inject('/doc')).json()
    t.match(Object.keys(paths['/chain'].post.responses), [
      '200',
      '400',
      '401',
      '403',
      '404',
      '409',
      '413',
      '415',
      '429',
      '431',
      '500',
      '502',
      '503',
      '504'
    ])
  })

  t.notMatch(lines.join(''), /sk_platform_a_key|sk_acme_a_key|own key of acme/)
})

t.test('an invalid document fails at start, with the place of each fault', async (t) => {
  const engine = await postgresSection(t)
  const call = { type: 'http', action: 'request', params: { url: 'https://example.com', method: 'POST' } } as const
  t.match(
    await faultsOf(testServer(t, {
      routes: [
        { path: '/a', method: 'post', integrations: [{ type: 'payment', action: 'createCustomer' }] },
        { path: '/b', method: 'post', integrations: [{ ...call, params: { uri: 'x' } }, { ...call }] },
        { path: '/c', method: 'get', cache: { enabled: true }, integrations: [call] },
        { path: '/d', method: 'post', integrations: [call], response: { a: '{{results.htp}}' } },
        { path: '/f', method: 'post', integrations: [{ ...call, alias: 'one' }, { ...call, alias: 'one' }] },
        { path: '/e', method: 'post', integrations: [{ ...call, condition: 'results.later' }, { ...call, alias: 'later' }] }
      ]
    }, { engine })),
    [
      { pointer: '/routes/0/integrations/0/type', message: /needs `credentials.payment`/ },
      { pointer: '/routes/1/integrations/0/params/url', message: /is required/ },
      { pointer: '/routes/1/integrations/0/params/uri', suggestion: undefined },
      { pointer: '/routes/2/integrations/0', message: /only make calls with the method GET/ },
      { pointer: '/routes/3/response/a', message: /result "htp"/, suggestion: 'http' },
      { pointer: '/routes/4/integrations/1/alias', message: /two results have the name "one"/ },
      { pointer: '/routes/5/integrations/0/condition', message: /result "later"/ }
    ]
  )
})

/** The faults of a document that the server rejects. */
async function faultsOf (server: Promise<FastifyInstance>): Promise<readonly Fault[]> {
  const error = await server.then(() => null, (reason: unknown) => reason)
  return error instanceof ConfigError ? error.faults : []
}

async function count (app: FastifyInstance, tenant: string): Promise<number> {
  return Number(
    await app.engine.text({ text: 'select count(*)::text from orders where tenant_id = $1', name: 'count_orders' }, [tenant], {
      tenant: serverRef
    })
  )
}
