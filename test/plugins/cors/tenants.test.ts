/** Origins that tenants list: valid for their own calls, on every instance, and for no other tenant's. */
import type { FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createTenantOrigins } from '../../../plugins/cors/tenant-origins.js'
import { postgresSection } from '../../helpers/postgres.js'
import { type TestDocument, testServer, testServers } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, caller, refused } from '../../http/caller.js'

const platform = 'https://console.example.com'
const shop = 'https://shop.acme.test'
const document: TestDocument = {
  cors: { origins: [platform], credentials: true },
  routes: [{ method: 'get', path: '/mine', requireAuth: true, response: { of: '{{tenant.id}}' } }]
}
const tokenOf = (tenant: string) => signToken({ sub: 'ada', role: 'admin', tenant_id: tenant })
const route = { method: 'get', path: '/own', public: true, response: { hello: 'you' } }

const preflight = async (ask: Ask, origin: string) =>
  (await ask('OPTIONS /mine', { headers: { origin, 'access-control-request-method': 'GET' } })).headers['access-control-allow-origin']
const allowed = async (ask: Ask, origin: string, request = {}) =>
  (await ask('GET /mine', { ...request, headers: { origin } })).headers['access-control-allow-origin']

async function save (t: Test, app: FastifyInstance, tenant: string, body: object) {
  return await caller(t, app)('POST /tenant/config', { token: tokenOf(tenant), body })
}

test('a tenant lists origins', async (t) => {
  const engine = await postgresSection(t)
  const [app, other] = await testServers(t, document, { engine, tenants: ['acme', 'rival', 'mallory'] })
  const [ask, askOther] = [caller(t, app), caller(t, other)]
  t.notOk(await preflight(ask, shop))
  t.notOk(await preflight(askOther, shop))
  t.match(await save(t, app, 'acme', { routes: [route], cors: { origins: [shop, 'https://*.acme.test'] } }), { status: 200 })

  await t.test('its pages pass the preflight on every instance', async (t) => {
    for (const at of [ask, askOther]) {
      await until('the origin is allowed', async () => await preflight(at, shop) === shop)
      t.equal(await preflight(at, 'https://pr-1.acme.test'), 'https://pr-1.acme.test')
      for (const origin of ['https://shop.acme.test.evil.com', 'null', 'https://SHOP.acme.test', `${shop}:444`, 'https://a.b.acme.test']) {
        t.notOk(await preflight(at, origin), origin)
      }
    }
    const { headers } = await ask('OPTIONS /mine', { headers: { origin: shop, 'access-control-request-method': 'GET' } })
    t.notOk(headers['access-control-allow-credentials'], "cookies are only for the platform's origins")
  })

  await t.test("its pages may read responses to its calls, and to no other tenant's", async (t) => {
    t.match((await ask('GET /mine', { token: tokenOf('acme'), headers: { origin: shop } })).headers, {
      'access-control-allow-origin': shop,
      'access-control-expose-headers': /x-ratelimit-limit/,
      vary: /origin/i,
      'access-control-allow-credentials': undefined
    })
    t.equal(await allowed(ask, shop, { token: tokenOf('rival') }), undefined, "another tenant's call")
    t.equal(await allowed(ask, shop, { token: signToken({ sub: 'root', role: 'admin' }) }), undefined, 'a call to the platform')
    t.equal(await allowed(ask, platform, { token: tokenOf('rival') }), platform, "the platform's origins read everything")
    const own = await ask('GET /own', { tenant: 'acme', headers: { origin: shop } })
    t.match(own, { status: 200, headers: { 'access-control-allow-origin': shop } }, 'an anonymous call to its own route')
    t.notOk((await ask('GET /health', { headers: { origin: shop } })).headers['access-control-allow-origin'], 'nothing of the platform')
  })

  await t.test('errors of its calls are readable too', async (t) => {
    const headers = { origin: shop }
    t.match(
      await ask('GET /mine', { headers }),
      { status: 401, headers: { 'access-control-allow-origin': shop } },
      'a rejection before the tenant is known'
    )
    t.match(await ask('GET /mine', { token: 'broken', tenant: 'acme', headers }), {
      status: 401,
      headers: { 'access-control-allow-origin': shop }
    })
    t.match(await ask('POST /auth/login', { tenant: 'acme', body: { email: 'a@b.example', password: 'wrong-wrong' }, headers }), {
      status: 401,
      headers: { 'access-control-allow-origin': shop }
    })
    t.match(await ask('GET /mine', { token: 'broken', tenant: 'rival', headers }), {
      status: 401,
      headers: { 'access-control-allow-origin': undefined }
    }, 'another tenant is named')
    t.match(await ask('GET /nothing', { token: tokenOf('acme'), headers }), {
      status: 404,
      headers: { 'access-control-allow-origin': shop }
    })
    t.match(await ask('GET /mine', { token: tokenOf('acme'), tenant: 'rival', headers }), {
      status: 403,
      headers: { 'access-control-allow-origin': shop }
    }, 'the token decides')
    t.match(await ask('GET /nothing', { token: tokenOf('rival'), headers }), {
      status: 404,
      headers: { 'access-control-allow-origin': undefined }
    })
  })

  await t.test('a hostile tenant exposes only its own calls', async (t) => {
    t.match(await save(t, app, 'mallory', { cors: { origins: '*' } }), { status: 200 })
    const evil = 'https://evil.test'
    await until('its origins are allowed', async () => await preflight(ask, evil) === evil)
    t.equal(await allowed(ask, evil, { token: tokenOf('mallory') }), evil)
    for (const tenant of ['acme', 'rival']) t.equal(await allowed(ask, evil, { token: tokenOf(tenant) }), undefined, tenant)
    t.notOk(await preflight(ask, 'null'))
    t.match(await save(t, app, 'mallory', {}), { status: 200 })
    for (const at of [ask, askOther]) await until('the origin is gone', async () => await preflight(at, evil) === undefined)
    t.equal(await preflight(ask, shop), shop, "other tenants' origins stay")
  })

  await t.test('a deleted tenant has no origins', async () => {
    await app.tenants.delete('acme')
    for (const at of [ask, askOther]) await until('its origins are gone', async () => await preflight(at, shop) === undefined)
  })

  await t.test('a list is bounded and validated', async (t) => {
    for (
      const origins of [
        ['https://*.com'],
        ['app'],
        Array.from({ length: 21 }, (_, n) => `https://a${n}.test.example`),
        ['x'.repeat(301)],
        ['*'],
        5
      ]
    ) {
      refused(t, await save(t, app, 'rival', { cors: { origins } }), 400, 'CONFIG_INVALID', JSON.stringify(origins).slice(0, 40))
    }
    refused(
      t,
      await save(t, app, 'rival', { cors: { origins: [], credentials: true } }),
      400,
      'CONFIG_INVALID',
      'credentials belong to the platform'
    )
  })

  await t.test('requests cost no query, and a change costs one', async (t) => {
    let statements = 0
    const counted = app.db.withPlugin({
      transformQuery ({ node }) {
        statements++
        return node
      },
      transformResult: async ({ result }) => result
    })
    const origins = createTenantOrigins(counted, app.log)
    t.teardown(() => origins.close())
    t.match(await save(t, app, 'rival', { cors: { origins: [shop] } }), { status: 200 })
    await Promise.all(Array.from({ length: 10 }, () => origins.ready()))
    t.equal(statements, 1, 'all at once, for all waiting requests')
    t.ok(origins.isListed(shop))
    for (let n = 0; n < 100; n++) t.equal(origins.ready() ?? origins.isListed(`https://host-${n}.test`), false)
    for (let n = 0; n < 100; n++) origins.changed(tenantRef('rival'))
    await until('the changes were read', () => statements > 1)
    t.ok(statements <= 3, `${statements} statements for a hundred changes at once`)
    t.ok(origins.isListedBy(tenantRef('rival'), shop))
    t.notOk(origins.isListedBy(tenantRef('acme'), shop))
  })
})

test("without the platform's section a tenant cannot list origins", async (t) => {
  const app = await testServer(t, { routes: [] }, { tenants: ['acme'] })
  const response = await save(t, app, 'acme', { cors: { origins: [shop] } })
  t.match(response, { status: 400, body: { details: [{ path: '/cors', message: /the platform must have a section/ }] } })
})

test('origins that change unnoticed during the first read are read again', async (t) => {
  const app = await testServer(t, document, { tenants: ['acme'] })
  t.match(await save(t, app, 'acme', { cors: { origins: [shop] } }), { status: 200 })
  let open = () => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  let hasRead = false
  const db = app.db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult ({ result }) {
      hasRead = true
      await gate
      return result
    }
  })
  const origins = createTenantOrigins(db, app.log)
  t.teardown(() => origins.close())
  origins.ready()
  await until('the origins are read', () => hasRead)
  const later = 'https://later.acme.test'
  t.match(await save(t, app, 'acme', { cors: { origins: [later] } }), { status: 200 })
  origins.reset()
  open()
  await until('the new origin is listed', () => origins.isListedBy(tenantRef('acme'), later))
  t.notOk(origins.isListedBy(tenantRef('acme'), shop))
})
