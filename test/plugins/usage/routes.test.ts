import { sql } from 'kysely'
import { test } from 'tap'
import { fakeClock } from '../../helpers/clock.js'
import { postgresSection } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'
import { open } from './app.js'

const MB = 1_048_576

test('each tenant gets its own summary, history and report', async (t) => {
  const engine = await postgresSection(t)
  const clock = fakeClock(Date.parse('2028-02-28T12:00:00Z'))
  const { app, as } = await open(t, engine, { ...clock, tenants: { acme: 'seven', globex: 'much' } })
  const [acme, globex] = [as('acme'), as('globex')]
  const nothing = { api_calls: 0, llm_tokens: 0, storage_bytes: 0, bandwidth_bytes: 0 }
  const first = await acme('GET /usage/summary')
  t.same(first.body, { tenant_id: 'acme', period: '2028-02', ...nothing })
  const second = await acme('GET /usage/summary')
  await (await app.usage.reserve('acme', 'llm_tokens', 2)).settle(3)
  await (await app.usage.reserve('acme', 'storage_bytes', MB)).settle(1.5 * MB)
  await app.usage.reserve('acme', 'storage_bytes', MB)
  t.same((await acme('GET /usage/summary')).body, {
    tenant_id: 'acme',
    period: '2028-02',
    api_calls: 2,
    llm_tokens: 3,
    storage_bytes: 2.5 * MB,
    bandwidth_bytes: first.text.length + second.text.length
  }, 'with reserved amounts')
  t.match((await globex('GET /usage/summary')).body, { tenant_id: 'globex', ...nothing })

  clock.forward(86_400_000)
  for (let index = 0; index < 4; index++) await acme('GET /usage/history')
  clock.forward(86_400_000)
  await (await app.usage.reserve('acme', 'llm_tokens', 1)).settle(1)
  await acme('GET /usage/history')
  const day = (date: string, calls = 0, tokens = 0) => ({ date, api_calls: calls, llm_tokens: tokens })
  const february = Array.from({ length: 27 }, (_none, index) => day(`2028-02-${String(index + 1).padStart(2, '0')}`))
  t.same(
    (await acme('GET /usage/history?period=2028-02')).body,
    { history: [...february, day('2028-02-28', 3, 3), day('2028-02-29', 4)] },
    'a leap year'
  )
  t.same((await acme('GET /usage/history')).body, { history: [day('2028-03-01', 2, 1)] }, 'of the current month up to today')
  t.match((await globex('GET /usage/history?period=2028-02')).body, { history: [...february, day('2028-02-28', 1), day('2028-02-29')] })
  t.same((await acme('GET /usage/history?period=2028-04')).body, { history: [] }, 'a future month')
  t.equal(Object((await acme('GET /usage/history?period=2027-02')).body).history.length, 28)
  t.match(
    (await acme('GET /usage/summary')).body,
    { period: '2028-03', llm_tokens: 1, storage_bytes: 2.5 * MB },
    'stored data does not depend on months'
  )
  clock.forward(-86_400_000)
  t.match((await acme('GET /usage/history')).body, { history: { length: 29 } }, 'by a clock that was set back')

  await (await app.usage.reserve('acme', 'ai_cost', 1_000_000)).settle(1_750_000)
  await (await app.usage.reserve('globex', 'ai_cost', 1)).settle(1)
  await app.usage.take('acme', 'connections')
  await app.usage.take('acme', 'rooms')
  await app.usage.take('acme', 'rooms')
  await sql`insert into tenantry.secrets (tenant_id, key, version, deleted_at) values ('acme', 'a', 1, null), ('acme', 'b', 1, now()), ('globex', 'c', 1, null)`
    .execute(app.db)
  t.same((await acme('GET /billing/usage')).body, {
    tenantId: 'acme',
    plan: 'seven',
    usage: {
      websocket: {
        connections: { current: 1, limit: 7, percentage: 14.29 },
        entitiesWatched: { current: 0, limit: 7, percentage: 0 },
        rooms: { current: 2, limit: 7, percentage: 28.57 }
      },
      fileStorage: { storage: { current: 2.5 * MB, limit: 7 * MB, percentage: 35.71, currentFormatted: '2.5 MB', limitFormatted: '7 MB' } },
      tenantConfig: { secrets: { current: 1, limit: 7, percentage: 14.29 } },
      ai: { llmTokens: { current: 3, limit: 7, percentage: 42.86 }, cost: { current: 1.75, limit: 7, percentage: 25 } }
    }
  })
  t.match((await globex('GET /billing/usage')).body, {
    plan: 'much',
    usage: {
      fileStorage: { storage: { current: 0, limit: -1, percentage: 0, currentFormatted: '0 B', limitFormatted: 'Unlimited' } },
      tenantConfig: { secrets: { current: 1, limit: -1, percentage: 0 } }
    }
  })
  await app.tenants.update('acme', { plan: 'none' })
  t.match((await acme('GET /billing/usage')).body, {
    plan: 'none',
    usage: {
      websocket: { connections: { current: 1, limit: 0, percentage: 100 }, entitiesWatched: { current: 0, limit: 0, percentage: 0 } },
      fileStorage: { storage: { limit: 0, percentage: 100, limitFormatted: '0 B' } }
    }
  })
  await app.tenants.update('acme', { plan: 'free' })
  t.match((await acme('GET /billing/usage')).body, {
    usage: { fileStorage: { storage: { limit: 200 * MB, percentage: 1.25, limitFormatted: '200 MB' } } }
  })
})

test('callers without permission and invalid requests are rejected', async (t) => {
  const { app, as } = await open(t, await postgresSection(t), { tenants: { acme: 'free' } })
  const stranger = caller(t, app)
  const platform = caller(t, app, { token: signToken({ role: 'admin', sub: 'ops' }) })
  for (const path of ['/usage/summary', '/usage/history', '/billing/usage']) {
    refused(t, await stranger(`GET ${path}`, { tenant: 'acme' }), 401, 'TOKEN_MISSING', path)
    refused(t, await platform(`GET ${path}`), 400, 'TENANT_REQUIRED', path)
    t.equal((await platform(`GET ${path}`, { tenant: 'acme' })).status, 200, path)
    refused(t, await as('acme')(`GET ${path}`, { tenant: 'globex' }), 403, 'TENANT_MISMATCH', path)
  }
  for (
    const period of [
      '2026-13',
      '2026-00',
      '2026-1',
      '2026',
      '2026-02-01',
      '26-02',
      '',
      ' 2026-02',
      '2026-02x',
      '-2026-02',
      '2026-02&period=2026-03',
      '%D9%A2%D9%A0%D9%A2%D9%A6-02'
    ]
  ) {
    const response = await as('acme')(`GET /usage/history?period=${period}`)
    refused(t, response, 400, 'VALIDATION_FAILED', period)
    t.match(response.body.details, [{ path: '/query/period', message: /YYYY-MM|a string/ }], period)
  }
  for (const target of ['/usage/history?month=2026-02', '/usage/summary?month=2026-02', '/billing/usage?month=2026-02']) {
    const response = await as('acme')(`GET ${target}`)
    refused(t, response, 400, 'VALIDATION_FAILED', target)
    t.match(response.body.details, [{ path: '/query/month', message: /is not a known field/ }], target)
  }
})

test('a document disables the plugin', async (t) => {
  const report = { path: '/billing/usage', method: 'get', response: { own: true } } as const
  const unbilled = await testServer(t, { plugins: { billing: false }, routes: [report] }, { engine: await postgresSection(t) })
  t.same(
    (await caller(t, unbilled)('GET /billing/usage')).body,
    { own: true },
    'the report is in two groups: disabling either frees its path'
  )
  const app = await testServer(t, { plugins: { usage: false }, routes: [report] }, { engine: await postgresSection(t), tenants: ['acme'] })
  t.equal(app.hasDecorator('usage'), false)
  const acme = caller(t, app, { token: signToken({ tenant_id: 'acme', sub: 'ada', role: 'user' }) })
  for (const path of ['/usage/summary', '/usage/history']) refused(t, await acme(`GET ${path}`), 404, 'NOT_FOUND', path)
  t.same((await acme('GET /billing/usage')).body, { own: true })
})

test('on the whole server, requests to declared and tenant routes count, and rate limited ones do not', async (t) => {
  const app = await testServer(t, {
    routes: [{
      path: '/hello',
      method: 'GET',
      requireAuth: true,
      rateLimit: { max: 3, windowMs: 60_000 },
      response: { hello: '{{tenant.id}}' }
    }]
  }, { engine: await postgresSection(t), tenants: ['acme', 'globex'] })
  const admin = caller(t, app, { token: signToken({ tenant_id: 'acme', sub: 'ada', role: 'admin' }) })
  const globex = caller(t, app, { token: signToken({ tenant_id: 'globex', sub: 'ada', role: 'user' }) })
  const calls = async (tenant: string) => (await app.usage.summary(tenant)).api_calls
  const statuses: number[] = []
  for (let index = 0; index < 5; index++) statuses.push((await admin('GET /hello')).status)
  t.same(statuses, [200, 200, 200, 429, 429])
  t.equal(await calls('acme'), 3)
  t.equal(
    (await admin('POST /tenant/config', { body: { routes: [{ path: '/mine', method: 'GET', response: { mine: 'yes' } }] } })).status,
    200
  )
  t.equal((await admin('GET /mine')).status, 200)
  t.equal((await admin('GET /nothing')).status, 404)
  t.equal((await globex('GET /mine')).status, 404)
  t.equal((await globex('GET /tenant/secrets')).status, 403)
  t.equal((await globex('GET /health')).status, 200)
  t.equal((await caller(t, app)('GET /hello', { tenant: 'acme' })).status, 401)
  t.equal(await calls('acme'), 6)
  t.equal(await calls('globex'), 2)
  const { body } = await admin('GET /doc')
  for (const path of ['/usage/summary', '/usage/history', '/billing/usage']) t.ok(Object(body).paths[path]?.get, `${path} is documented`)
})
