import { test } from 'tap'
import { payprovWorld } from '../../helpers/payprov/index.js'
import { postgresSection } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { deliver, envOf, sellAll } from '../../plugins/billing/app.js'
import { caller, refused } from '../caller.js'

const document: TestDocument = {
  rateLimit: { enabled: true },
  plans: { free: { limits: { api: { requestsPerMinute: 3 } } } },
  tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true } } } },
  routes: [
    { method: 'get', path: '/notes', requireAuth: true, queries: [{ table: 'notes', operation: 'select' }] },
    { method: 'post', path: '/notes', requireAuth: true, queries: [{ table: 'notes', operation: 'insert' }] }
  ]
}

test("a platform administrator reaches a suspended tenant's data, and the tenant's users do not", async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants: [{ id: 'acme', plan: 'enterprise' }] })
  const own = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })
  const platform = caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) })
  await own('POST /notes', { body: { id: 1 } })
  await own('POST /tenant/api-keys', { body: { name: 'CI' } })
  t.match(await platform('PATCH /tenants/acme', { body: { status: 'suspended' } }), { status: 200 })
  for (const target of ['GET /notes', 'GET /tenant/api-keys', 'GET /tenant/info', 'GET /audit', 'GET /admin/entities/notes']) {
    refused(t, await own(target), 403, 'TENANT_SUSPENDED', target)
    t.match(await platform(target, { tenant: 'acme' }), { status: 200 }, `the platform may ${target}`)
  }
  t.match((await platform('GET /notes', { tenant: 'acme' })).body.data, [{ id: 1 }])
  t.match(await platform('POST /notes', { tenant: 'acme', body: { id: 2 } }), { status: 201 }, 'the platform may write too')
  t.match(await platform('DELETE /admin/entities/notes/1?hard=true', { tenant: 'acme' }), { status: 200 })
})

test("a tenant over its plan's request limit can reach its billing endpoints", async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants: ['acme', 'globex'] })
  const own = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })
  for (let index = 0; index < 3; index++) t.match(await own('GET /tenant/info'), { status: 200 })
  refused(t, await own('GET /tenant/info'), 429, 'RATE_LIMITED')
  t.match(await own('GET /billing/subscription'), { status: 200 })
  // Without a payment provider, this error shows that the request reached the endpoint.
  refused(t, await own('POST /billing/upgrade', { body: { targetPlan: 'pro', billingCycle: 'monthly' } }), 503, 'BILLING_NOT_CONFIGURED')
  refused(t, await own('POST /billing/subscription/sync', { body: {} }), 503, 'BILLING_NOT_CONFIGURED')
  refused(t, await own('GET /tenant/info'), 429, 'RATE_LIMITED', 'and nothing else')
  const statuses = []
  for (let index = 0; index < 30; index++) statuses.push((await own('GET /billing/subscription')).status)
  t.ok(statuses.includes(200) && statuses.at(-1) === 429, 'billing endpoints have their own limit')
  t.match(await caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'globex' }) })('GET /tenant/info'), {
    status: 200
  }, 'another tenant has its own requests')
})

test("a tenant over its plan's request limit can upgrade, and then has the new plan's requests", async (t) => {
  const world = await payprovWorld(t, { now: Date.now() })
  const sales = sellAll(world)
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants: ['acme'], env: envOf('payprov', world, sales) })
  const own = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme', email: 'ada@acme.example' }) })
  for (let index = 0; index < 3; index++) await own('GET /tenant/info')
  refused(t, await own('GET /tenant/info'), 429, 'RATE_LIMITED')
  const upgrade = await own('POST /billing/upgrade', { body: { targetPlan: 'pro', billingCycle: 'monthly' } })
  t.match(upgrade, { status: 200, body: { success: true, checkoutUrl: String } })
  const subscription = world.pay(String(Object(upgrade.body['session'])['id']))
  t.equal((await deliver(app, 'payprov', world.event('created', subscription))).status, 200)
  await until('the plan applies', async () => (await own('GET /tenant/info')).status === 200)
  t.match((await own('GET /tenant/info')).body, { plan: 'pro' })
})
