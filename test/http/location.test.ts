/** Location of records that declared routes create. */
import Fastify from 'fastify'
import { type Test, test } from 'tap'
import type { Route } from '../../lib/schema/route.js'
import auth from '../../plugins/auth/index.js'
import configRoutes from '../../plugins/config-routes/index.js'
import database from '../../plugins/database/index.js'
import rateLimit from '../../plugins/rate-limit/index.js'
import tenancy from '../../plugins/tenancy/index.js'
import tenantConfig from '../../plugins/tenant-config/index.js'
import type { DatabaseSection } from '../helpers/postgres.js'
import { forEachEngine, postgresSection } from '../helpers/postgres.js'
import { type TestDocument, testServer } from '../helpers/server.js'
import { signToken, testSecret } from '../helpers/tokens.js'
import { type Ask, caller } from './caller.js'

const tables = {
  notes: {
    tenantScoped: true,
    columns: {
      id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
      title: { type: 'text' },
      number: { type: 'bigint', unique: true }
    }
  },
  pages: { tenantScoped: true, columns: { body: { type: 'text' }, slug: { type: 'text', primaryKey: true } } },
  counts: { tenantScoped: true, columns: { id: { type: 'bigint', primaryKey: true }, title: { type: 'text' } } },
  pairs: { tenantScoped: true, columns: { a: { type: 'text', primaryKey: true }, b: { type: 'text', primaryKey: true } } }
} as const satisfies TestDocument['tables']

const post = (path: string, table: string, changes: Partial<Route> = {}): Route => ({
  method: 'post',
  path,
  queries: [{ table, operation: 'insert' }],
  ...changes
})
const byId = (path: string, table: string): Route => ({
  method: 'get',
  path,
  queries: [{ table, operation: 'select', id: '{{params.key}}' }]
})

const routesAt = (base: string): Route[] => [
  { ...byId(`${base}/admin/:key`, 'notes'), requiredPermissions: ['notes:all'] },
  post(`${base}/notes`, 'notes'),
  {
    method: 'get',
    path: `${base}/notes/:id`,
    queries: [{
      table: 'notes',
      operation: 'select',
      single: true,
      filters: [{ column: 'id', value: '{{ params.id }}' }, { column: 'tenant_id', value: '{{auth.tenant_id}}' }]
    }]
  },
  post(`${base}/pages`, 'pages', { queries: [{ table: 'pages', operation: 'insert', select: 'body, key:slug' }] }),
  byId(`${base}/pages/:key/whole`, 'pages'),
  post(`${base}/counts`, 'counts'),
  byId(`${base}/counts/:key`, 'counts'),
  { method: 'post', path: `${base}/docs`, firebaseQueries: [{ collection: 'docs', operation: 'add' }] },
  { method: 'get', path: `${base}/docs/:id`, firebaseQueries: [{ collection: 'docs', operation: 'get', docId: '{{params.id}}' }] },
  // The response hides the key, or shows it differently from the record.
  post(`${base}/hidden`, 'notes', { excludeFields: ['id'] }),
  post(`${base}/mapped`, 'notes', { response: { ok: true } }),
  post(`${base}/short`, 'notes', { response: { type: 'object', properties: { title: { type: 'string' } } } }),
  post(`${base}/shown`, 'notes', { response: { type: 'object', properties: { id: { type: 'string' } } } }),
  // No route reads a single row of these tables by its key.
  post(`${base}/pairs`, 'pairs'),
  byId(`${base}/pairs/:key`, 'counts')
]

async function locations (t: Test, ask: Ask, base: '/p' | '/t'): Promise<void> {
  const created = async (
    path: string,
    body: object,
    expected: (record: Record<string, unknown>) => string,
    read: (record: Record<string, unknown>) => object = (record) => record
  ) => {
    const response = await ask(`POST ${base}${path}`, { body })
    t.match(response, { status: 201, headers: { location: expected(response.body) } }, path)
    const found = await ask(`GET ${String(response.headers['location'])}`)
    t.equal(found.status, 200, `${path} can be read at its Location`)
    t.match(found.body, read(response.body))
  }
  const none = async (path: string, body: unknown, status = 201) => {
    const response = await ask(`POST ${base}${path}`, { body })
    t.equal(response.status, status, path)
    t.notOk('location' in response.headers, `${path} has no Location`)
  }
  await created('/notes', { title: 'one' }, ({ id }) => `${base}/notes/${String(id)}`)
  await created('/shown', { title: 'one' }, ({ id }) => `${base}/notes/${String(id)}`)
  await created('/docs', { title: 'one' }, ({ id }) => `${base}/docs/${String(id)}`)
  const large = base === '/p' ? '9007199254740993' : '-9007199254740995'
  // The digits of a number that a double cannot represent.
  await created('/counts', { id: large, title: 'many' }, () => `${base}/counts/${large}`, () => ({ title: 'many' }))
  const slug = base + 'a/b?c=d#é "x"\r\nset-cookie: y=1'
  await created(
    '/pages',
    { slug, body: '{"key":"no"},"key":"no"' },
    () => `${base}/pages/${encodeURIComponent(slug)}/whole`,
    () => ({ slug })
  )

  for (const key of base === '/p' ? ['', '.', '..', 'x'.repeat(2049)] : []) await none('/pages', { slug: key })
  await none('/notes', [{ title: 'one' }, { title: 'two' }])
  await none('/notes', [{ title: 'only' }])
  // Only administrators may read /hidden's record.
  for (const path of ['/mapped', '/short']) await none(path, { title: 'x' })
  await none('/pairs', { a: base, b: 'y' })
}

test('Location of created records', (t) =>
  forEachEngine(t, async (t, engine: DatabaseSection) => {
    const app = await testServer(t, { tables, routes: routesAt('/p') }, { engine, tenants: ['acme', 'other'] })
    const admin = (tenant: string) => caller(t, app, { token: signToken({ sub: 'root', role: 'admin', tenant_id: tenant }) })
    const user = (tenant: string) => caller(t, app, { token: signToken({ sub: 'ada', tenant_id: tenant }) })

    await t.test('routes of the platform return the Location', (t) => locations(t, user('acme'), '/p'))

    await t.test('routes of a tenant return the Location', async (t) => {
      t.equal((await admin('acme')('POST /tenant/config', { body: { routes: routesAt('/t') } })).status, 200)
      t.equal((await user('acme')('DELETE /t/none')).status, 404)
      await locations(t, user('acme'), '/t')
    })

    await t.test('/doc documents Location on the routes that send it', async (t) => {
      const { paths, components } = Object((await user('acme')('GET /doc')).body)
      t.match(components.headers['Location'], { schema: { type: 'string' } })
      const shown = (path: string): boolean =>
        path in paths && '201' in paths[path].post.responses && 'Location' in Object(paths[path].post.responses['201'].headers)
      for (const path of ['/notes', '/pages', '/counts', '/docs', '/shown']) t.ok(shown(`/p${path}`) && shown(`/t${path}`), path)
      // Only administrators may read /hidden's record.
      for (const path of ['/mapped', '/short', '/pairs']) t.notOk(shown(`/p${path}`) || shown(`/t${path}`), path)
      for (const path of ['/tenants', '/queue/jobs', '/files/upload', '/files/resumable']) t.ok(shown(path), path)
      t.notOk(shown('/tenant/api-keys'))
      t.notOk('Location' in Object(paths['/p/notes'].post.responses['400'].headers))
      t.notOk('MethodNotAllowed' in components.responses, 'every component is referenced')
    })

    await t.test('tenants with the same route but different read paths get their own Location', async (t) => {
      for (const [tenant, path] of [['acme', '/a'], ['other', '/b']] as const) {
        await admin(tenant)('POST /tenant/config', { body: { routes: [post('/same', 'notes'), byId(`${path}/:key`, 'notes')] } })
        const { headers, body } = await user(tenant)('POST /same', { body: { title: 'x' } })
        t.equal(headers['location'], `${path}/${String(body['id'])}`)
      }
      await admin('other')('POST /tenant/config', { body: { routes: [post('/same', 'notes')] } })
      t.notOk('location' in (await user('other')('POST /same', { body: { title: 'x' } })).headers, 'gone together with the read route')
    })

    await t.test('errors have no Location, and replays of an idempotency key repeat the first one', async (t) => {
      const ask = user('acme')
      t.equal((await ask('POST /p/notes', { body: { number: 7 } })).status, 201)
      const second = await ask('POST /p/notes', { body: { number: 7 } })
      t.equal(second.status, 409)
      t.notOk('location' in second.headers)
      const keyed = { body: { title: 'once' }, headers: { 'idempotency-key': 'a' } }
      const first = await ask('POST /p/notes', keyed)
      t.match(first.headers['location'], /^\/p\/notes\/./)
      t.match(await ask('POST /p/notes', keyed), {
        status: 201,
        headers: { location: first.headers['location'], 'idempotency-replayed': 'true' }
      })
    })
  }))

test('Location under a prefix', async (t) => {
  const engine = await postgresSection(t)
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(database, { ...engine, tables, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(rateLimit)
  await app.register(async (api) => {
    await api.register(configRoutes, { routes: [post('/notes', 'notes'), byId('/notes/:key', 'notes')], prefix: '/v1' })
    await api.register(tenantConfig)
  }, { prefix: '/api' })
  const ask = caller(t, app, { token: signToken({ sub: 'root', role: 'admin', tenant_id: 'acme' }) })
  await app.ready()
  await ask('POST /api/tenant/config', { body: { routes: [post('/own', 'notes'), byId('/own/:key', 'notes')] } })
  for (const path of ['/api/v1/notes', '/api/own']) {
    const { headers, body } = await ask(`POST ${path}`, { body: { title: 'x' } })
    t.equal(headers['location'], `${path}/${String(body['id'])}`)
    t.match(await ask(`GET ${path}/${String(body['id'])}`), { status: 200, body: { title: 'x' } })
  }
})
