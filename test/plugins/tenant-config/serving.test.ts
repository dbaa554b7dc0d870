import { test } from 'tap'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { admin, ask, notes, platform, save, user } from './document.js'

test("settings and shared environment settings reach a tenant's routes, and platform routes can read the settings", async (t) => {
  const app = await testServer(t, {
    ...platform,
    routes: [{ path: '/theme', method: 'get', response: { theme: '{{tenant.config.theme || "plain"}}' } }]
  }, { env: { GREETING: 'hello', JWT_SECRET: 'not for tenants' } })
  const route = { path: '/greet/:name', method: 'get', response: '{{env.GREETING}} {{params.name}} in {{tenant.config.theme}}' }
  await save(app, 'acme', { settings: { theme: 'dark' }, routes: [route] })
  await save(app, 'other', { settings: { theme: 'light' }, routes: [route] })
  t.equal((await ask(app, 'acme', 'GET', '/greet/bo%20b')).json(), 'hello bo b in dark')
  t.equal((await ask(app, 'other', 'GET', '/greet/eve')).json(), 'hello eve in light')
  t.strictSame((await ask(app, 'acme', 'GET', '/theme')).json(), { theme: 'dark' })
  t.strictSame((await ask(app, 'third', 'GET', '/theme')).json(), { theme: 'plain' })
  await save(app, 'acme', { settings: { theme: 'blue' } })
  t.strictSame((await ask(app, 'acme', 'GET', '/theme')).json(), { theme: 'blue' }, 'a saved setting applies at once')
})

test('a cached response is not sent after the document changed, nor to another tenant', async (t) => {
  const app = await testServer(t, platform)
  const route = (text: string) => ({ path: '/text', method: 'get', cache: { enabled: true }, response: { text } })
  await save(app, 'acme', { cache: { enabled: true, ttl: 60 }, routes: [route('one')] })
  await save(app, 'other', { cache: { enabled: true, ttl: 60 }, routes: [route('two')] })
  t.match(await ask(app, 'acme', 'GET', '/text'), { headers: { 'x-cache': 'MISS' }, payload: '{"text":"one"}' })
  t.match(await ask(app, 'acme', 'GET', '/text'), { headers: { 'x-cache': 'HIT' }, payload: '{"text":"one"}' })
  t.match(await ask(app, 'other', 'GET', '/text'), { headers: { 'x-cache': 'MISS' }, payload: '{"text":"two"}' })
  await save(app, 'acme', { cache: { enabled: true, ttl: 60 }, routes: [route('three')] })
  t.match(await ask(app, 'acme', 'GET', '/text'), { headers: { 'x-cache': 'MISS' }, payload: '{"text":"three"}' })
})

test("a tenant's limits count its own callers, in addition to the server's limit", async (t) => {
  const app = await testServer(t, { ...platform, rateLimit: { enabled: true, default: { max: 20, windowMs: 60_000 } } }, {
    tenants: ['acme', 'other']
  })
  const open = (max: number) => ({ path: '/open', method: 'get', rateLimit: { max, windowMs: 60_000 }, response: {} })
  await save(app, 'acme', { routes: [open(2)], rateLimit: { enabled: true, default: { max: 1, windowMs: 60_000 } } })
  await save(app, 'other', { routes: [open(1_000_000)] })
  const strangers = (tenant: string) => app.inject({ url: '/open', headers: { 'x-tenant-id': tenant } })
  t.strictSame([(await strangers('acme')).statusCode, (await strangers('acme')).statusCode, (await strangers('acme')).statusCode], [
    200,
    200,
    429
  ])
  t.equal((await strangers('other')).statusCode, 200, "one tenant's limit does not affect another")
  const responses = await Promise.all(Array.from({ length: 25 }, () => app.inject({ url: '/open', headers: user('other') })))
  t.equal(
    responses.filter(({ statusCode }) => statusCode === 429).length,
    6,
    "a tenant's generous limit does not replace the server's: its save counted too"
  )
})

test('a route that needs a token rejects the request before its body is read, and an unknown one is not found', async (t) => {
  const app = await testServer(t, platform, { tenants: ['acme'] })
  await save(app, 'acme', { routes: [notes.add, { path: '/private', method: 'get', public: false, response: {} }] })
  const stranger = { 'x-tenant-id': 'acme', 'content-type': 'application/json' }
  t.equal((await app.inject({ method: 'POST', url: '/notes', headers: stranger, payload: 'no json' })).statusCode, 401)
  t.equal((await app.inject({ method: 'POST', url: '/nothing', headers: stranger, payload: 'no json' })).statusCode, 404)
  t.equal((await app.inject({ url: '/private', headers: stranger })).statusCode, 401)
  t.equal((await app.inject({ url: '/private', headers: user('acme') })).statusCode, 200)
  t.equal((await app.inject({ method: 'HEAD', url: '/private', headers: user('acme') })).statusCode, 200)
  t.match((await ask(app, 'acme', 'POST', '/notes', { title: 'a', colour: 'b' })).json(), { code: 'TENANTRY_VALIDATION_FAILED' })
})

test("permissions of a tenant's route are enforced", async (t) => {
  const app = await testServer(t, platform)
  await save(app, 'acme', { routes: [{ path: '/reports', method: 'get', requiredPermissions: ['reports:read'], response: {} }] })
  t.equal((await ask(app, 'acme', 'GET', '/reports')).statusCode, 403)
})

test('a dropped table is a 503 for the routes that need it until it is back, and for no others', async (t) => {
  const database = await postgresDatabase(t)
  const app = await testServer(t, platform, { engine: { provider: 'postgres', postgres: { connectionString: database.connectionString } } })
  await save(app, 'acme', {
    routes: [notes.list, { path: '/colours', method: 'get', queries: [{ table: 'colours', operation: 'select' }] }]
  })
  t.equal((await ask(app, 'acme', 'GET', '/notes')).statusCode, 200)
  await database.query('alter table notes rename to elsewhere')
  await app.engine.refresh()
  t.match((await ask(app, 'acme', 'GET', '/notes')).json(), { code: 'TENANTRY_SCHEMA_CHANGED' })
  t.equal((await ask(app, 'acme', 'GET', '/colours')).statusCode, 200)
  await database.query('alter table elsewhere rename to notes')
  await app.engine.refresh()
  t.equal((await ask(app, 'acme', 'GET', '/notes')).statusCode, 200)
})

test('only callers of the tenant get 405 for a method that a path does not have', async (t) => {
  const app = await testServer(t, { routes: [{ path: '/shared', method: 'get', response: { a: 1 } }] }, { tenants: ['acme', 'other'] })
  const routes = [
    { path: '/open', method: 'get', response: { a: 1 } },
    { path: '/closed/:id', method: 'get', requireAuth: true, response: { a: 1 } },
    { path: '/closed/:id', method: 'patch', requireAuth: true, response: { a: 1 } },
    { path: '/shared', method: 'delete', requireAuth: true, response: { a: 1 } }
  ]
  t.equal((await app.inject({ method: 'POST', url: '/tenant/config', headers: admin('acme'), payload: { routes } })).statusCode, 200)
  const answered = async (method: 'GET' | 'POST' | 'PUT', url: string, headers: Record<string, string>) => {
    const { statusCode, headers: { allow } } = await app.inject({ method, url, headers })
    return [statusCode, allow]
  }
  const stranger = { 'x-tenant-id': 'acme' }
  t.strictSame(await answered('PUT', '/open', admin('acme')), [405, 'GET, HEAD'])
  t.strictSame(await answered('POST', '/closed/1?x=1', admin('acme')), [405, 'GET, HEAD, PATCH'])
  t.strictSame(await answered('PUT', '/shared', admin('acme')), [405, 'DELETE, GET, HEAD'], "the platform's methods and its own")
  t.strictSame(await answered('PUT', '/open', stranger), [405, 'GET, HEAD'])
  t.strictSame(await answered('POST', '/closed/1', stranger), [404, undefined], 'an anonymous caller sees open routes')
  const others: Record<string, string>[] = [admin('other'), { 'x-tenant-id': 'other' }, {}]
  for (const headers of others) {
    t.strictSame(await answered('PUT', '/open', headers), [404, undefined], 'other tenants see nothing')
    t.strictSame(await answered('POST', '/closed/1', headers), [404, undefined])
    t.strictSame(await answered('PUT', '/shared', headers), [405, 'GET, HEAD'])
  }
})
