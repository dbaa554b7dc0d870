import { Writable } from 'node:stream'
import { test } from 'tap'
import { testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { ownApp } from './app.js'
import { admin, ask, notes, platform, save, user } from './document.js'

test('a caller who may save documents but not use secrets can neither add a secret reference nor move one', async (t) => {
  const app = await testServer(t, { ...platform, tenancy: { ...platform.tenancy, env: ['MAIL_KEY'] } })
  const writer = bearer({ sub: 'writer', tenant_id: 'acme', permissions: ['config:write'] })
  const leak = { path: '/leak', method: 'post', queries: [{ table: 'notes', operation: 'insert', data: { title: '{{ secret:mail }}' } }] }
  const credentials = { email: { apiKey: '{{secret:mail}}' } }
  const attempt = async (document: object) => (await save(app, 'acme', document, { headers: writer })).statusCode

  t.equal(await attempt({ routes: [leak] }), 403)
  t.equal(
    await attempt({ routes: [{ ...leak, queries: [{ table: 'notes', operation: 'insert', data: { title: '{{\nsecret:mail}}' } }] }] }),
    403,
    'on its own line'
  )
  t.equal(await attempt({ credentials }), 403)
  t.equal(await attempt({ credentials: { email: { apiKey: '{{env.MAIL_KEY}}' } } }), 403, 'a setting that a secret may replace')
  const oauth2 = { type: 'oauth2', tokenUrl: 'https://example.com/token', clientId: 'a', clientSecret: 'b' }
  t.equal(
    await attempt({
      customIntegrations: [{ name: 'crm', baseUrl: 'https://example.com', auth: oauth2, actions: { get: { method: 'get', path: '/' } } }]
    }),
    403,
    'tokens that are stored as secrets'
  )
  t.equal((await save(app, 'acme', { credentials, routes: [notes.list] })).statusCode, 200, 'an administrator may')
  t.equal(await attempt({ credentials, routes: [notes.list, leak] }), 403, 'a secret of another part is used in a new place')
  t.equal(
    await attempt({ credentials: { email: { apiKey: '{{secret:mail}}', baseUrl: 'https://example.com' } } }),
    403,
    'credentials are sent to another address'
  )
  t.equal(await attempt({ credentials, routes: [notes.add] }), 200, 'secret references stay, the rest changes')
  t.equal(
    (await save(app, 'acme', { routes: [leak] }, {
      headers: bearer({ sub: 'both', tenant_id: 'acme', permissions: ['config:write', 'secrets:write'] })
    })).statusCode,
    200
  )
})

test("a tenant's document cannot read the credentials of callers, such as an administrator of the platform", async (t) => {
  const app = await testServer(t, platform)
  const insert = (title: unknown) => ({
    path: '/steal',
    method: 'post',
    queries: [{ table: 'notes', operation: 'insert', data: { title } }]
  })
  const mapping = (value: unknown) => ({ path: '/steal', method: 'get', response: { value } })
  const list = { path: '/steal', method: 'get', queries: [{ table: 'notes', operation: 'select' }] }
  const step = { id: 'a', type: 'database', operation: 'select', table: 'notes' }
  const refused: object[] = [
    ...['authorization', 'Authorization', 'x-api-key', 'cookie', 'proxy-authorization'].map((name) => insert(`{{headers.${name}}}`)),
    insert('{{ headers.authorization || "none" }}'),
    mapping('{{headers}}'),
    { ...list, transform: { fields: { x: 'headers.authorization' } } },
    { ...list, transform: { fields: { x: 'headers["x-api-key"]' } } },
    { ...list, transform: { fields: { x: 'headers[query.name]' } } },
    { ...list, cache: { enabled: true, varyBy: ['headers.authorization'] } },
    { path: '/steal', method: 'post', workflow: { steps: [{ ...step, condition: 'has(headers.cookie)' }] } },
    { path: '/steal', method: 'post', workflow: { input: '{{headers}}', steps: [step] } },
    { ...mapping(1), method: 'post', realtime: { room: 'a', data: '{{headers.authorization}}' } }
  ]
  for (const route of refused) {
    const { statusCode, body } = await save(app, 'acme', { routes: [route] })
    t.equal(statusCode, 400, JSON.stringify(route))
    t.match(body, /cannot read credentials of callers|only single headers/, JSON.stringify(route))
  }
  t.equal((await save(app, 'acme', { routes: [mapping('{{headers.accept-language}} {{auth.sub}}')] })).statusCode, 200, 'others')
})

test('a secret that PostgreSQL rejects as a value is in no log and no response', async (t) => {
  const lines: string[] = []
  const log = new Writable({
    write (chunk, _encoding, done) {
      lines.push(String(chunk))
      done()
    }
  })
  const app = await testServer(t, {
    ...platform,
    tables: {
      moments: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, at: { type: 'timestamptz' } } }
    },
    tenancy: {},
    routes: [
      {
        path: '/at',
        method: 'post',
        requireAuth: true,
        queries: [{ table: 'moments', operation: 'insert', data: { at: '{{secret:when}}' } }]
      },
      {
        path: '/by',
        method: 'get',
        requireAuth: true,
        queries: [{ table: 'moments', operation: 'select', filters: [{ column: 'at', operator: 'eq', value: '{{secret:when}}' }] }]
      }
    ]
  }, { logger: { level: 'trace', stream: log } })
  t.equal(
    (await app.inject({
      method: 'POST',
      url: '/tenant/secrets',
      headers: admin('acme'),
      payload: { key: 'when', value: '2026 is no moment but a password' }
    })).statusCode,
    201
  )
  for (const [method, url] of [['POST', '/at'], ['GET', '/by']] as const) {
    const refused = await ask(app, 'acme', method, url)
    t.equal(refused.statusCode, 400)
    t.notMatch(refused.payload, /password/)
  }
  t.ok(lines.some((line) => line.includes('PostgreSQL responded with')), 'the rejection is logged')
  t.notMatch(lines.join(''), /password/)
})

test('responses and documentation of a deleted tenant are not those of the next one with its id', async (t) => {
  const app = await testServer(t, platform)
  const route = (path: string, text: string) => ({ path, method: 'get', cache: { enabled: true }, response: { text } })
  const root = bearer({ sub: 'root', role: 'admin' })
  const asAdmin = (method: 'GET' | 'POST' | 'DELETE', url: string, payload?: object) =>
    app.inject({ method, url, headers: { ...root, 'x-tenant-id': 'acme' }, ...payload !== undefined && { payload } })
  await app.tenants.create({ id: 'acme', name: 'First' })
  t.equal((await asAdmin('POST', '/tenant/config', { routes: [route('/old', 'old'), route('/same', 'old')] })).statusCode, 200)
  t.match((await asAdmin('GET', '/same')).json(), { text: 'old' })
  t.ok((await asAdmin('GET', '/doc')).json().paths['/old'])
  t.equal((await app.inject({ method: 'DELETE', url: '/tenants/acme', headers: root })).statusCode, 200)
  await app.tenants.create({ id: 'acme', name: 'Second' })
  t.equal((await asAdmin('GET', '/same')).statusCode, 404)
  t.equal((await asAdmin('POST', '/tenant/config', { routes: [route('/same', 'new')] })).json().version, 1)
  t.match((await asAdmin('GET', '/same')).json(), { text: 'new' })
  t.notOk((await asAdmin('GET', '/doc')).json().paths['/old'])
})

test('in an app with a prefix, only paths below it conflict', async (t) => {
  const app = await ownApp(t, { 'tenant-config': { prefix: '/api' } }, (app) => {
    app.register(async (api) => {
      api.get('/status', async () => ({ by: 'the app' }))
    }, { prefix: '/api' })
    app.setNotFoundHandler((_request, reply) => {
      reply.code(404).send({ by: 'the app' })
    })
  })
  const route = (path: string) => ({ routes: [{ path, method: 'get', response: { by: 'the tenant' } }] })
  const saved = (path: string) => app.inject({ method: 'POST', url: '/api/tenant/config', headers: admin('acme'), payload: route(path) })
  t.equal((await saved('/status')).statusCode, 409)
  t.equal((await saved('/mine')).statusCode, 200)
  t.match((await app.inject({ url: '/api/mine', headers: user('acme') })).json(), { by: 'the tenant' })
  t.match((await app.inject({ url: '/mine', headers: user('acme') })).json(), { by: 'the app' })
  t.match((await app.inject({ url: '/api/other', headers: user('acme') })).json(), { by: 'the app' }, 'the app handles unknown paths')
})
