/** CORS of the platform: preflights, responses, errors, faults of the document. */
import fastifyCors from '@fastify/cors'
import Fastify from 'fastify'
import { test } from 'tap'
import { checkConfig } from '../../../lib/configuration/index.js'
import conventions from '../../../plugins/conventions/index.js'
import cors from '../../../plugins/cors/index.js'
import { type TestDocument, testDocument, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller } from '../../http/caller.js'

const app = 'https://app.example.com'
const preview = 'https://pr-7.example.com'
const evil = 'https://app.example.com.evil.com'
const document: TestDocument = {
  cors: { origins: [app, 'https://*.example.com'], exposedHeaders: ['X-Total'] },
  rateLimit: { enabled: true, default: { max: 3, windowMs: 60_000 } },
  routes: [
    { method: 'get', path: '/hello', rateLimit: { max: 1000, windowMs: 60_000 }, response: { hello: 'you' } },
    { method: 'post', path: '/hello', rateLimit: { max: 1000, windowMs: 60_000 }, response: { hello: '{{body.name}}' } },
    { method: 'get', path: '/limited', response: { hello: 'you' } },
    { method: 'get', path: '/mine', requireAuth: true, response: { hello: 'you' } }
  ]
}

const preflight = (ask: Ask, path: string, origin: string, method = 'GET', headers = {}) =>
  ask(`OPTIONS ${path}`, { headers: { origin, 'access-control-request-method': method, ...headers } })

test('the platform lists origins', async (t) => {
  const server = await testServer(t, document)
  const ask = caller(t, server)

  await t.test('a preflight from a listed origin is answered before identity and limits', async (t) => {
    for (const origin of [app, preview]) {
      const response = await preflight(ask, '/mine', origin, 'GET', { 'access-control-request-headers': 'authorization,x-tenant-id' })
      t.match(response, {
        status: 204,
        text: '',
        headers: {
          'access-control-allow-origin': origin,
          'access-control-allow-headers': 'authorization,x-tenant-id',
          'access-control-max-age': '600',
          vary: /origin.*access-control-request-headers/i,
          'x-request-id': /./
        }
      })
      t.notOk(response.headers['access-control-allow-credentials'])
    }
    for (let i = 0; i < 20; i++) t.equal((await preflight(ask, '/limited', app)).status, 204)
    t.equal(
      (await preflight(ask, '/mine', app, 'GET', { authorization: 'Bearer broken', 'x-tenant-id': '!' })).status,
      204,
      'with any other header'
    )
  })

  await t.test('the allowed methods are those of the path', async (t) => {
    const methods = async (path: string) => (await preflight(ask, path, app)).headers['access-control-allow-methods']
    t.equal(await methods('/tenant/rbac'), 'GET, HEAD, PUT')
    t.equal(await methods('/tenant/api-keys?x=1'), 'GET, HEAD, POST')
    t.equal(await methods('/auth/login'), 'POST')
    const all = 'DELETE, GET, HEAD, PATCH, POST, PUT'
    t.equal(await methods('/hello'), all, 'tenants may have other methods on it')
    t.equal(await methods('/nothing'), all, 'so that the page sees the 404')
    const alone = caller(t, await testServer(t, { ...document, plugins: { 'tenant-config': false } }))
    t.equal((await preflight(alone, '/hello', app)).headers['access-control-allow-methods'], 'GET, HEAD, POST', 'no tenant has routes here')
  })

  await t.test('other origins get no CORS header', async (t) => {
    for (
      const origin of [
        evil,
        'null',
        `${app}:8443`,
        'http://app.example.com',
        'https://APP.EXAMPLE.COM',
        'https://evil-example.com',
        'https://a.b.example.com',
        'https://example.com'
      ]
    ) {
      const refused = await preflight(ask, '/hello', origin)
      t.ok(refused.status >= 400, origin)
      const response = await ask('GET /hello', { headers: { origin } })
      t.equal(response.status, 200, 'the server leaves the refusal to the browser')
      for (const { headers } of [refused, response]) t.notOk(Object.keys(headers).some((name) => name.startsWith('access-control-')), origin)
      t.match(response.headers['vary'], /origin/i, 'caches store it separately')
    }
    t.match((await ask('GET /hello')).headers['vary'], /origin/i, 'without an origin too')
    t.ok((await ask('OPTIONS /hello', { headers: { origin: app } })).status >= 400, 'not a preflight without a method')
  })

  await t.test('errors and the headers that clients need are readable', async (t) => {
    const readable = (headers: Readonly<Record<string, unknown>>) =>
      t.match(headers, {
        'access-control-allow-origin': app,
        'access-control-expose-headers':
          'etag, idempotency-replayed, location, retry-after, x-cache, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-request-id, X-Total',
        vary: /origin/i
      })
    const headers = { origin: app }
    for (const [target, status] of [['GET /hello', 200], ['GET /mine', 401], ['GET /nothing', 404], ['PUT /tenant/info', 405]] as const) {
      const response = await ask(target, { headers })
      t.equal(response.status, status, target)
      readable(response.headers)
    }
    const limited = await Promise.all(Array.from({ length: 5 }, () => ask('GET /limited', { headers })))
    t.ok(limited.some(({ status }) => status === 429))
    for (const response of limited) readable(response.headers)
    const broken = await ask('POST /hello', { raw: '{', headers })
    t.equal(broken.status, 400)
    readable(broken.headers)
    const { headers: invalid } = await ask('GET /mine', { token: signToken({ sub: 'a' }, { key: 'x'.repeat(40) }), headers })
    readable(invalid)
  })
})

test('credentials and any origin are supported', async (t) => {
  const withCredentials = caller(t, await testServer(t, { ...document, cors: { origins: [app], credentials: true, maxAge: 5 } }))
  t.match((await preflight(withCredentials, '/hello', app)).headers, {
    'access-control-allow-credentials': 'true',
    'access-control-max-age': '5'
  })
  t.match((await withCredentials('GET /hello', { headers: { origin: app } })).headers, {
    'access-control-allow-origin': app,
    'access-control-allow-credentials': 'true'
  })
  t.notOk((await withCredentials('GET /hello', { headers: { origin: evil } })).headers['access-control-allow-credentials'])
  const any = caller(t, await testServer(t, { ...document, cors: { origins: '*' } }))
  t.match((await any('GET /hello', { headers: { origin: 'https://any.example' } })).headers, {
    'access-control-allow-origin': '*',
    'access-control-allow-credentials': undefined
  })
  t.match(await preflight(any, '/hello', 'https://any.example'), { status: 204, headers: { 'access-control-allow-origin': '*' } })
})

test('without the section CORS is off', async (t) => {
  const ask = caller(t, await testServer(t, { routes: document.routes ?? [] }))
  t.match(await preflight(ask, '/hello', app), {
    status: 405,
    body: { details: [{ message: `pages of the origin ${app} may not call the API: list the origin in \`cors.origins\`` }] }
  })
  t.notOk('details' in (await ask('OPTIONS /hello')).body, 'no preflight')
  t.notOk((await ask('GET /hello', { headers: { origin: app } })).headers['access-control-allow-origin'])
})

test('an invalid section is a fault of the document', async (t) => {
  const faults = (section: object) => {
    try {
      checkConfig({ ...testDocument({}), cors: section }, { env: {} })
      return []
    } catch (error) {
      return Object(error).faults.map(({ pointer, message }: { pointer: string, message: string }) => `${pointer}: ${message}`)
    }
  }
  t.strictSame(faults({ origins: [app], credentials: true }), [])
  t.strictSame(faults({ origins: [] }), [])
  t.match(faults({ origins: '*', credentials: true }), [/^\/cors\/credentials: browsers reject credentials/])
  t.match(faults({ origins: [app, 'https://*.com', 'app.example.com'] }), [
    /^\/cors\/origins\/1: expected at least two labels/,
    /^\/cors\/origins\/2: expected an origin/
  ])
  t.ok(faults({ origins: ['*'] }).length > 0)
  t.ok(faults({ origins: [app], exposedHeaders: ['a b'] }).length > 0)
  t.ok(faults({ origins: [app], maxAge: -1 }).length > 0)
  t.ok(faults({}).length > 0)
})

test('the plugin works in its own app', async (t) => {
  const own = Fastify()
  t.teardown(() => own.close())
  await own.register(cors, { origins: [app] })
  await own.register(conventions)
  own.get('/things', async () => ({}))
  const response = await own.inject({ method: 'OPTIONS', url: '/things', headers: { origin: app, 'access-control-request-method': 'GET' } })
  t.match(response, { statusCode: 204, headers: { 'access-control-allow-origin': app, 'access-control-allow-methods': 'GET, HEAD' } })
  await t.rejects(async () => await Fastify().register(cors, { origins: ['app.example.com'] }), /expected an origin as sent by browsers/)
  const twice = Fastify()
  await twice.register(fastifyCors)
  await t.rejects(async () => await twice.register(cors, { origins: [app] }), /the app has registered @fastify\/cors/)
})
