import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import t from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'
import { openProxy } from '../../lib/database/proxy.js'
import { save, user } from '../tenant-config/document.js'
import { requestsIn, samplesOf, valueOf } from './exposition.js'

const apiKey = secretText('the-key-of-the-platform-that-scrapes', 'API_KEY')
const document: TestDocument = {
  plugins: { system: { metrics: { perTenant: true, maxTenants: 2 } } },
  tables: {
    notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text' } } }
  },
  queue: { workers: 0 },
  routes: [
    { path: '/notes/:id', method: 'get', queries: [{ table: 'notes', operation: 'select', id: '{{params.id}}', single: true }] },
    { path: '/greeting', method: 'get', cache: { enabled: true, ttl: 60 }, response: { hello: 'world' } },
    { path: '/seldom', method: 'get', rateLimit: { max: 1, windowMs: 600_000 }, response: { ok: true } }
  ],
  cache: { enabled: true, provider: 'memory', ttl: 60 }
}

/** The lines of the request count, except the endpoint's own. */
const others = (lines: string[]) => lines.filter((line) => !line.includes(' /metrics ')).sort()

t.test('metrics of a server', async (t) => {
  const app: FastifyInstance = await testServer(t, { ...document, rateLimit: { enabled: true } }, {
    tenants: ['acme', 'globex', 'umbrella'].map((id) => ({ id, plan: 'enterprise' })),
    env: { API_KEY: apiKey }
  })
  const admin = caller(t, app, { token: signToken({ role: 'admin', sub: 'ops' }) })
  const get = async (url: string, tenant?: string) =>
    (await app.inject({ url, headers: tenant === undefined ? {} : user(tenant) })).statusCode

  await t.test('only platform administrators may read the metrics', async (t) => {
    for (
      const [token, status] of [[undefined, 401], [signToken({ role: 'admin', tenant_id: 'acme' }), 403], [
        signToken({ role: 'viewer' }),
        403
      ]] as const
    ) {
      t.equal((await caller(t, app, token === undefined ? {} : { token })('GET /metrics')).status, status)
    }
  })

  await t.test("metrics count requests (one name each for tenants' own routes and unknown paths), tenants up to the bound, jobs and the cache", async (t) => {
    const routes = ['/one', '/two/:id'].map((path) => ({ path, method: 'get', response: { ok: true } }))
    t.equal((await save(app, 'acme', { routes })).statusCode, 200)
    for (const url of ['/one', '/two/1', '/two/2', '/none/of/these', '/quoted"this']) await get(url, 'acme')
    for (let time = 0; time < 3; time++) await get('/greeting', 'globex')
    for (let time = 0; time < 3; time++) await get('/seldom', 'umbrella')
    await get('/notes/not-an-id')
    await get('/notes/not-an-id', 'umbrella')
    t.equal((await admin('DELETE /tenants/acme')).status, 200)
    await sql`insert into tenantry_queue.job (name, data, state, created_on, start_after)
      select 'jobs', jsonb_build_object('tenant', 'globex', 'task', 'work', 'data', '{}'::jsonb), state::tenantry_queue.job_state, now() - interval '1 hour', now() - interval '1 hour'
      from unnest(array['created', 'created', 'failed']) as state`.execute(app.db)
    const { status, headers, text } = await admin('GET /metrics')
    t.match([status, headers['content-type'], headers['cache-control']], [200, 'text/plain; version=0.0.4; charset=utf-8', 'no-store'])
    const samples = samplesOf(t, text)
    t.strictSame(others(requestsIn(samples)), [
      'DELETE /tenants/:id 200 1',
      'GET (tenant) 200 3',
      'GET (unknown) 404 2',
      'GET /greeting 200 3',
      'GET /notes/:id 400 2',
      'GET /seldom 200 1',
      'GET /seldom 429 2',
      'POST /tenant/config 200 1'
    ])
    const ofTenant = (tenant: string) => valueOf(samples, 'tenantry_tenant_request_duration_seconds_count', { tenant })
    t.strictSame(
      ['acme', 'globex', 'umbrella', '(other)'].map(ofTenant),
      [undefined, 3, undefined, 4],
      'the first two, one of which was deleted'
    )
    t.strictSame(['hit', 'miss'].map((result) => valueOf(samples, 'tenantry_cache_requests_total', { result })), [2, 1])
    t.equal(valueOf(samples, 'tenantry_cache_items'), 1)
    t.ok((valueOf(samples, 'tenantry_cache_bytes') ?? 0) > 0)
    t.equal(valueOf(samples, 'tenantry_info', { engine: 'postgres' }), 1)
    t.ok((valueOf(samples, 'tenantry_database_connections', { state: 'idle' }) ?? 0) > 0)
    t.equal(valueOf(samples, 'tenantry_database_pending_requests'), 0)
    t.strictSame(['created', 'active', 'failed'].map((state) => valueOf(samples, 'tenantry_queue_jobs', { task: 'work', state })), [
      2,
      0,
      1
    ])
    const oldest = valueOf(samples, 'tenantry_queue_oldest_waiting_seconds') ?? NaN
    t.ok(oldest >= 3600 && oldest < 7200, `${oldest} s`)
    t.strictSame(
      ['not-an-id', 'quoted', 'none/of', '/two', '/one', apiKey].filter((word) => text.includes(word)),
      [],
      'nothing that a caller sent'
    )
  })

  await t.test('the documentation describes a text response and JSON errors', async (t) => {
    const { responses } = (await app.inject('/doc')).json().paths['/metrics'].get
    t.strictSame(Object.keys(responses['200'].content), ['text/plain'])
    const statuses = Object.keys(responses)
    t.ok(['401', '403', '429', '503'].every((status) => statuses.includes(status)), statuses.join())
    t.strictSame(statuses.filter((status) => status !== '200' && Object.hasOwn(Object(responses[status].content), 'text/plain')), [])
  })

  await t.test("the platform's key and concurrent callers get the same metrics", async (t) => {
    const responses = await Promise.all(Array.from({ length: 5 }, () => app.inject({ url: '/metrics', headers: { 'x-api-key': apiKey } })))
    t.strictSame(responses.map(({ statusCode }) => statusCode), [200, 200, 200, 200, 200])
    for (const { body } of responses) samplesOf(t, body)
  })
})

t.test("a scrape during a database hang returns everything except the database's figures", async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const proxy = await openProxy(t, connectionString)
  const app = await testServer(t, {
    databaseProvider: 'postgres',
    postgres: { connectionString: proxy.connectionString, pool: { max: 1 } },
    queue: { workers: 0 },
    plugins: { usage: false, webhooks: false }
  }, { engine: { provider: 'embedded' }, env: { API_KEY: apiKey } })
  await app.db.selectFrom('tenantry.tenants').select('id').execute()
  proxy.silence()
  let answered = false
  const hanging = app.db.selectFrom('tenantry.tenants').select('id').execute().finally(() => {
    answered = true
  })
  hanging.catch(() => {})
  await until('it has the connection', () => app.engine.status().idle === 0)
  const { statusCode, body } = await app.inject({ url: '/metrics', headers: { 'x-api-key': apiKey } })
  t.equal(answered, false, 'it hangs')
  t.equal(statusCode, 200)
  const samples = samplesOf(t, body)
  t.strictSame(samples.filter(({ name }) => name.startsWith('tenantry_queue')), [])
  t.equal(valueOf(samples, 'tenantry_database_connections', { state: 'used' }), 1)
  t.equal(valueOf(samples, 'tenantry_cache_items'), 0, 'other figures are present')
  await until(
    'pending jobs are reported',
    async () => (valueOf(samplesOf(t, await app.metrics.metrics()), 'tenantry_database_pending_requests') ?? 0) >= 1
  )
})
