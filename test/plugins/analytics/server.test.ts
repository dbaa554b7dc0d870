import t from 'tap'
import { testApp } from '../../helpers/app.js'
import { postgresSection, postgresServer } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, caller } from '../../http/caller.js'
import { countsOf, open, summaryOf } from './app.js'

const document: TestDocument = {
  analytics: { enabled: true, excludePaths: ['/analytics/*', '/own/hidden*', '/tenant/config'] },
  routes: [
    { path: '/greetings/:name', method: 'get', requireAuth: true, response: { hello: '{{params.name}}' } },
    { path: '/busy', method: 'get', rateLimit: { max: 1, windowMs: 60_000, statusCode: 503 }, response: { hello: 'you' } }
  ]
}
const adminToken = signToken({ role: 'admin', sub: 'ops' })
const tokenOf = (tenant: string) => signToken({ role: 'admin', sub: 'ada', tenant_id: tenant })
const response = { hello: '{{params.name || "you"}}' }

t.test('analytics in the whole server', async (t) => {
  const engine = await postgresSection(t)
  const first = await testServer(t, document, { engine, tenants: ['acme', 'globex'] })
  const admin = caller(t, first, { token: adminToken })
  const as = (tenant: string): Ask => caller(t, first, { token: tokenOf(tenant) })

  await t.test('analytics counts routes of the document, of tenants and of the server by their patterns', async (t) => {
    await as('acme')('POST /tenant/config', {
      body: {
        routes: [{ path: '/own/:name', method: 'get', response }, { path: '/own/hidden/:name', method: 'get', response }]
      }
    })
    await as('acme')('GET /greetings/ada?secret=4711')
    for (const path of ['/own/a', '/own/b?x=1', '/own/hidden/a', '/own/a/b/c']) await as('acme')(`GET ${path}`)
    await as('globex')('GET /own/a')
    await caller(t, first)('GET /own/a', { token: 'wrong' })
    await caller(t, first)('GET /health')
    t.strictSame(countsOf(await summaryOf(admin, '', 'acme')), ['GET /own/:name 2', 'GET (unknown) 1', 'GET /greetings/:name 1'])
    t.strictSame(countsOf(await summaryOf(admin, '', 'globex')), ['GET (unknown) 1'])
    t.strictSame(countsOf(await summaryOf(admin)), ['GET (unknown) 3', 'GET /own/:name 2', 'GET /greetings/:name 1', 'GET /health 1'])
  })

  await t.test("analytics includes other servers' figures, and loses nothing at a stop", async (t) => {
    const second = await testServer(t, document, { engine })
    const ask = caller(t, second, { token: tokenOf('globex') })
    for (let request = 0; request < 5; request++) await ask('GET /greetings/ada')
    t.strictSame(countsOf(await summaryOf(admin, '', 'globex')), ['GET (unknown) 1'])
    await second.close()
    t.strictSame(countsOf(await summaryOf(admin, '', 'globex')), ['GET /greetings/:name 5', 'GET (unknown) 1'])
  })

  await t.test('a later tenant with the id of a deleted one gets none of its waiting figures, and the platform keeps them', async (t) => {
    const excludePaths = ['/analytics/*', '/tenant*']
    const analytics = { enabled: true, serviceName: 'late', excludePaths, buffer: { flushInterval: 3_600_000 } }
    const late = await testServer(t, { ...document, analytics }, { engine, tenants: ['initech'] })
    const ask = caller(t, late, { token: adminToken })
    const asTenant = caller(t, late, { token: tokenOf('initech') })
    await asTenant('POST /tenant/config', { body: { routes: [{ path: '/own/:name', method: 'get', response }] } })
    for (const path of ['/greetings/ada', '/greetings/bob', '/own/a']) t.equal((await asTenant(`GET ${path}`)).status, 200)
    await ask('DELETE /tenants/initech')
    await until('the tenant is deleted', async () => (await ask('GET /tenants/initech')).status === 404)
    t.match(await ask('POST /tenants', { body: { id: 'initech', name: 'Another' } }), { status: 201 })
    t.equal((await ask('GET /greetings/ada', { tenant: 'initech' })).status, 200)
    t.strictSame(countsOf(await summaryOf(ask, '', 'initech')), ['GET /greetings/:name 1'])
    t.strictSame(countsOf(await summaryOf(ask)), ['GET /greetings/:name 3', 'GET (other) 1'])
  })

  await t.test('a rate limit response with a status of 500 or more is not counted as a server error', async (t) => {
    const busy = await testServer(t, { ...document, analytics: { enabled: true, serviceName: 'busy' } }, { engine })
    const stranger = caller(t, busy)
    for (const status of [200, 503, 503]) t.equal((await stranger('GET /busy')).status, status)
    t.match((await caller(t, busy, { token: adminToken })('GET /analytics/summary')).body, { total: 3, errors: 0 })
  })

  await t.test('analytics writes each request at once if so configured', async (t) => {
    const eager = await testServer(t, { ...document, analytics: { enabled: true, serviceName: 'eager', buffer: { enabled: false } } }, {
      engine
    })
    await caller(t, eager, { token: tokenOf('globex') })('GET /greetings/ada')
    const written = () =>
      eager.db.selectFrom('tenantry.request_stats').select(['tenant_id', 'route', 'count']).where('service', '=', 'eager')
        .orderBy('tenant_id').execute()
    await until('the request is written', async () => (await written()).length > 0)
    t.strictSame((await written()).map(({ tenant_id: tenant, route, count }) => `${tenant} ${route} ${Number(count)}`), [
      ' /greetings/:name 1',
      'globex /greetings/:name 1'
    ])
    t.strictSame(
      countsOf(await summaryOf(caller(t, eager, { token: adminToken }), '', 'acme')),
      [],
      'figures of another service name are separate'
    )
  })

  await t.test('/doc contains the endpoint only if analytics is enabled', async (t) => {
    t.ok(Object.hasOwn((await first.inject('/doc')).json().paths, '/analytics/summary'))
    for (const off of [{ analytics: { enabled: false } }, { plugins: { analytics: false as const } }]) {
      const app = await testServer(t, { ...document, ...off }, { engine })
      t.equal((await caller(t, app, { token: adminToken })('GET /analytics/summary')).status, 404)
      t.notOk(Object.hasOwn((await app.inject('/doc')).json().paths, '/analytics/summary'))
    }
  })
})

t.test('the plugin counts the routes of any app, and bounds its options', async (t) => {
  const { app } = await testApp(t, {
    plugins: { analytics: { enabled: true, routes: false } },
    routes (app) {
      app.get('/a/:id', async () => ({ ok: true }))
      app.register(async (inner) => {
        inner.route({ method: ['GET', 'POST'], url: '/b', onResponse: [async () => {}], handler: async () => ({ ok: true }) })
      }, { prefix: '/prefix' })
      app.get('/fails', async () => {
        throw new Error('on purpose')
      })
    }
  })
  for (const url of ['/a/1', '/a/2', '/a/3', '/prefix/b', '/nowhere', '/fails']) await app.inject(url)
  await app.inject({ method: 'POST', url: '/prefix/b' })
  const figures = await app.analytics.summary({ from: new Date(Date.now() - 1000), until: new Date(Date.now() + 1000) })
  t.match(figures, { total: 7, errors: 1 })
  t.strictSame(figures.routes.map(({ method, route, count, errorRate }) => `${method} ${route} ${count} ${errorRate}`), [
    'GET /a/:id 3 0',
    'GET (unknown) 1 0',
    'GET /fails 1 1',
    'GET /prefix/b 1 0',
    'POST /prefix/b 1 0'
  ])

  for (
    const [options, message] of [
      [{ retentionDays: -1 }, 'retentionDays is -1: expected at least 1'],
      [{ buffer: { flushInterval: -1 } }, 'buffer: /flushInterval: expected at least 1'],
      [{ buffer: { maxSize: NaN } }, 'buffer: /maxSize: expected an integer, got a number']
    ] as const
  ) {
    await t.rejects(testApp(t, { plugins: { analytics: { routes: false, ...options } } }), {
      message: `the plugin "tenantry/plugins/analytics": ${message}`
    })
  }
})

t.test('a wildcard route below a prefix is counted under its pattern, and can be excluded', async (t) => {
  const { app } = await testApp(t, {
    plugins: { analytics: { enabled: true, routes: false, excludePaths: ['/hidden/*'] } },
    routes (app) {
      for (const prefix of ['/assets', '/hidden']) {
        app.register(async (inner) => {
          inner.get('/*', async () => ({ ok: true }))
        }, { prefix })
      }
    }
  })
  for (const url of ['/assets/a', '/assets/b/c', '/hidden/a', '/nowhere']) await app.inject(url)
  const figures = await app.analytics.summary({ from: new Date(Date.now() - 1000), until: new Date(Date.now() + 1000) })
  t.strictSame(countsOf(figures), ['GET /assets/* 2', 'GET (unknown) 1'])
})

t.test('a database outage fails no request, and figures from the outage are written afterwards', async (t) => {
  const server = await postgresServer(t)
  const { app, admin, stranger } = await open(t, { provider: 'postgres', postgres: { connectionString: server.connectionString } }, {
    excludePaths: ['/analytics/*'],
    buffer: { flushInterval: 1 }
  })
  await stranger('GET /things/1')
  t.match(await summaryOf(admin), { total: 1 })
  await server.stop()
  for (let request = 0; request < 20; request++) t.equal((await stranger('GET /things/1')).status, 200)
  await app.analytics.flush()
  t.equal((await admin('GET /analytics/summary')).status, 503)
  await server.start()
  await until('the figures are complete', async () => {
    const { status, body } = await admin('GET /analytics/summary')
    return status === 200 && body['total'] === 21
  })
})
