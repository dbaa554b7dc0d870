import { test } from 'tap'
import { forEachEngine } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { admin, ask, notes, platform, save } from './document.js'

test('a saved document serves at once, only for its tenant', async (t) => {
  await forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, platform, { engine })
    t.equal((await ask(app, 'acme', 'GET', '/notes')).statusCode, 404)

    const saved = await save(app, 'acme', { routes: Object.values(notes) })
    t.match(saved, { statusCode: 200, headers: { etag: '"1"' } })
    t.strictSame(saved.json(), { success: true, message: 'Configuration saved', version: 1, secretsDetected: [] })

    const added = await ask(app, 'acme', 'POST', '/notes', { title: 'first' })
    t.match(added.json(), { title: 'first', tenant_id: 'acme' })
    t.match((await ask(app, 'acme', 'GET', '/notes?limit=5')).json(), { data: [{ title: 'first' }], pagination: { limit: 5, total: 1 } })
    t.match((await ask(app, 'acme', 'GET', `/notes/${added.json().id}`)).json(), { title: 'first' })
    t.equal((await ask(app, 'other', 'GET', '/notes')).statusCode, 404, 'another tenant has no such route')
    t.equal((await app.inject('/notes')).statusCode, 404, 'nor has a caller without a tenant')

    await save(app, 'other', { routes: [notes.list, notes.one] })
    t.match((await ask(app, 'other', 'GET', '/notes')).json(), { data: { length: 0 }, pagination: { total: 0 } })
    t.equal((await ask(app, 'other', 'GET', `/notes/${added.json().id}`)).statusCode, 404, "another tenant's row is not found")
    t.equal((await ask(app, 'other', 'POST', '/notes', { title: 'x' })).statusCode, 405, "another tenant's route does not exist")
  })
})

test('a document is returned as it was saved, with its version as ETag', async (t) => {
  const app = await testServer(t, platform)
  const nothing = await app.inject({ url: '/tenant/config', headers: admin('acme') })
  t.match(nothing, { statusCode: 200, headers: { etag: '"0"' } })
  t.strictSame(nothing.json(), {})

  const document = { settings: { theme: 'dark' }, routes: [notes.list], credentials: { email: { apiKey: '{{secret:mail}}' } } }
  const saved = await save(app, 'acme', document)
  t.strictSame(saved.json().secretsDetected, ['mail'])
  t.match(saved.json().message, /Store the missing secrets.*mail/)
  await save(app, 'acme', { routes: [] })

  const now = await app.inject({ url: '/tenant/config', headers: admin('acme') })
  t.equal(now.headers.etag, '"2"')
  t.strictSame(now.json(), { routes: [] })
  const first = await app.inject({ url: '/tenant/config?version=1', headers: admin('acme') })
  t.equal(first.payload, JSON.stringify(document), 'members keep their order')
  t.equal((await app.inject({ url: '/tenant/config?version=3', headers: admin('acme') })).statusCode, 404)

  const versions = await app.inject({ url: '/tenant/config/versions?limit=1', headers: admin('acme') })
  t.match(versions.json(), {
    data: [{ version: 2, createdBy: 'admin of acme', createdAt: /^\d{4}-.*Z$/ }],
    pagination: { limit: 1, offset: 0, total: 2 }
  })
  t.strictSame((await app.inject({ url: '/tenant/config/versions', headers: admin('other') })).json().data, [], 'only of its own tenant')
})

test('If-Match prevents a lost update', async (t) => {
  const app = await testServer(t, platform)
  const first = await save(app, 'acme', { routes: [] }, { headers: { 'if-match': '"0"' } })
  t.equal(first.json().version, 1)
  const saves = await Promise.all([1, 2, 3].map(() => save(app, 'acme', { routes: [notes.list] }, { headers: { 'if-match': '"1"' } })))
  t.strictSame(saves.map(({ statusCode }) => statusCode).sort(), [200, 412, 412])
  const refused = saves.find(({ statusCode }) => statusCode === 412)
  t.match(refused?.json(), { error: 'Precondition Failed', code: 'TENANTRY_PRECONDITION_FAILED' })
  t.equal(refused?.headers.etag, '"2"')
  t.match((await save(app, 'acme', {}, { headers: { 'if-match': '3' } })).json(), { statusCode: undefined, code: 'TENANTRY_BAD_REQUEST' })
  t.equal((await save(app, 'acme', {}, { headers: { 'if-match': '"1", W/"2"' } })).statusCode, 200, 'a compressing proxy weakens tags')
  t.equal((await save(app, 'acme', {}, { headers: { 'if-match': '*' } })).statusCode, 200)
})

test('a dry run validates and saves nothing', async (t) => {
  const app = await testServer(t, platform)
  const checked = await save(app, 'acme', { routes: [notes.list] }, { url: '/tenant/config?dryRun=true' })
  t.match(checked.json(), { success: true, message: /nothing was saved/, version: 0 })
  t.equal((await ask(app, 'acme', 'GET', '/notes')).statusCode, 404)
  const wrong = await save(app, 'acme', { routes: [{ ...notes.list, queries: [{ table: 'nots', operation: 'select' }] }] }, {
    url: '/tenant/config?dryRun=true'
  })
  t.match(wrong.json(), {
    code: 'TENANTRY_CONFIG_INVALID',
    details: [{ path: '/routes/0/queries/0/table', message: /no table "nots".*did you mean "notes"/, keyword: 'config' }]
  })
  const silent = await save(app, 'acme', {
    routes: [{ ...notes.list, request: { query: { verbose: { type: 'boolean' } } }, transform: { fields: { x: 'query.verbos' } } }]
  }, { url: '/tenant/config?dryRun=true' })
  t.match(silent.json(), {
    code: 'TENANTRY_CONFIG_INVALID',
    details: [{ path: '/routes/0/transform/fields/x', message: /no `query.verbos`.*did you mean "verbose"/ }]
  })
  t.equal((await save(app, 'acme', {}, { url: '/tenant/config?dryRun=true', headers: { 'if-match': '"4"' } })).statusCode, 412)
})

test('a document with faults is rejected with all of them, and the previous version is still served', async (t) => {
  const app = await testServer(t, platform)
  await save(app, 'acme', { routes: [notes.list] })
  const refused = await save(app, 'acme', {
    routes: [
      { path: '/a', method: 'get', queries: [{ table: 'prices', operation: 'select' }] },
      { path: '/b', method: 'gett', response: {} },
      { path: '/c', method: 'post', queries: [{ table: 'colours', operation: 'insert' }] },
      { path: '/d', method: 'get', response: '{{env.JWT_SECRET}}' }
    ],
    unknown: true
  })
  t.equal(refused.statusCode, 400)
  const paths: string[] = refused.json().details.map(({ path }: { path: string }) => path)
  for (const path of ['/routes/1/method', '/unknown']) t.ok(paths.includes(path), path)
  t.equal((await ask(app, 'acme', 'GET', '/notes')).statusCode, 200)

  for (
    const [route, path] of [
      [{ path: '/a', method: 'get', queries: [{ table: 'prices', operation: 'select' }] }, '/routes/0/queries/0/table'],
      [{ path: '/c', method: 'post', queries: [{ table: 'colours', operation: 'insert' }] }, '/routes/0/queries/0/table'],
      [{ path: '/d', method: 'get', response: '{{env.JWT_SECRET}}' }, '/routes/0/response']
    ] as const
  ) {
    t.match((await save(app, 'acme', { routes: [route] })).json(), { code: 'TENANTRY_CONFIG_INVALID', details: [{ path }] })
  }
})

test('a route that collides with a server route is a conflict that names it', async (t) => {
  const app = await testServer(t, platform)
  for (
    const [method, path, named] of [
      ['get', '/status', /GET \/status/],
      ['get', '/items/new', /\/items\/:id/],
      ['get', '/health', /\/health/],
      ['post', '/tenant/config', /\/tenant\/config/],
      ['get', '/usage/summary', /\/usage\/summary/]
    ] as const
  ) {
    const refused = await save(app, 'acme', { routes: [{ path, method, response: { by: 'the tenant' } }] })
    t.match(refused.json(), { code: 'TENANTRY_ROUTE_CONFLICT', message: named }, path)
    t.equal(refused.statusCode, 409)
  }
  const paths = ['/health', '/status'].map((path) => ({ path, method: 'get', response: {} }))
  t.match((await save(app, 'acme', { routes: paths })).json(), { message: /\/health \(2 conflicts: see `details`\)$/, details: { length: 2 } })
  t.equal(
    (await save(app, 'acme', { routes: [{ path: '/status', method: 'post', response: { by: 'the tenant' } }] })).statusCode,
    200,
    'another method is free'
  )
  t.match((await ask(app, 'acme', 'POST', '/status')).json(), { by: 'the tenant' })
  t.match((await ask(app, 'acme', 'GET', '/status')).json(), { by: 'the platform' })
})

test('saving and reading need their permissions', async (t) => {
  const app = await testServer(t, platform)
  const call = (headers: Record<string, string>) => app.inject({ method: 'POST', url: '/tenant/config', headers, payload: 'no json' })
  t.equal((await call({})).statusCode, 401)
  t.equal((await call(bearer({ tenant_id: 'acme' }))).statusCode, 403, 'before the body is read')
  t.equal((await call(bearer({ tenant_id: 'acme', permissions: ['config:read'] }))).statusCode, 403)
  t.equal(
    (await app.inject({
      method: 'POST',
      url: '/tenant/config',
      payload: {},
      headers: bearer({ tenant_id: 'acme', permissions: ['config:write'] })
    })).statusCode,
    200
  )
  t.match((await app.inject({ method: 'POST', url: '/tenant/config', payload: {}, headers: bearer({ role: 'admin' }) })).json(), {
    code: 'TENANTRY_TENANT_REQUIRED'
  })
  t.equal(
    (await app.inject({
      method: 'POST',
      url: '/tenant/config',
      payload: {},
      headers: { ...bearer({ role: 'admin' }), 'x-tenant-id': 'acme' }
    })).json().version,
    2
  )
})
