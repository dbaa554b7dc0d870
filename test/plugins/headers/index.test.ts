/** Headers of every response: security, request id, caching. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { type Test, test } from 'tap'
import { testApp } from '../../helpers/app.js'
import { listen, type TestDocument, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, type Reply } from '../../http/caller.js'

const document: TestDocument = {
  tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } } } },
  routes: [
    { method: 'get', path: '/notes', requireAuth: true, queries: [{ table: 'notes', operation: 'select', order: [{ column: 'id' }] }] },
    { method: 'post', path: '/notes', requireAuth: true, queries: [{ table: 'notes', operation: 'insert' }] },
    { method: 'get', path: '/hello', response: { hello: 'you' } },
    { method: 'get', path: '/large/:size', response: { text: '{{query.text}}' } }
  ]
}
const token = signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' })

function secured (t: Test, { headers, status }: Reply, label: string): void {
  t.match(headers, {
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-resource-policy': 'same-origin',
    'x-request-id': /^[\w.-]{1,128}$/
  }, `${label}: ${status}`)
}

test('headers of a server', async (t) => {
  const app = await testServer(t, document, { tenants: ['acme', 'other'] })
  const ask = caller(t, app)
  const user = caller(t, app, { token })

  await t.test('every response has the security headers and its id, including errors', async (t) => {
    for (
      const target of [
        'GET /hello',
        'GET /health',
        'GET /notes',
        'GET /nothing',
        'GET /%zz',
        'POST /auth/login',
        'GET /tenant/info',
        'GET /ui/static/swagger-ui.css',
        'GET /doc',
        'OPTIONS /hello',
        'GET /billing/plans'
      ]
    ) {
      secured(t, await ask(target), target)
    }
    secured(t, await user('POST /notes', { raw: '{' }), 'POST /notes')
    secured(t, await user('GET /notes', { tenant: 'other' }), 'another tenant')
    t.notOk((await ask('GET /hello')).headers['strict-transport-security'], 'without TLS')
  })

  await t.test("the caller's request id is kept if it is valid", async (t) => {
    for (const target of ['GET /hello', 'GET /nothing', 'GET /%zz']) {
      t.equal((await ask(target, { headers: { 'x-request-id': 'own.id-1' } })).headers['x-request-id'], 'own.id-1', target)
    }
    for (const id of ['a b', 'x'.repeat(129), '<script>', '']) {
      const { headers, body } = await ask('GET /nothing', { headers: { 'x-request-id': id } })
      t.not(headers['x-request-id'], id)
      t.equal(headers['x-request-id'], body['requestId'], 'the body names the same id')
    }
  })

  await t.test('bytes that are not an HTTP request get the headers too', async (t) => {
    const socket = connect(Number(new URL(await listen(app)).port), '127.0.0.1')
    let received = ''
    socket.setEncoding('utf8').on('data', (part: string) => {
      received += part
    })
    socket.write('GARBAGE\r\n\r\n')
    await once(socket, 'close')
    t.match(received, /^HTTP\/1\.1 400 /)
    for (const line of ['x-content-type-options: nosniff', 'referrer-policy: no-referrer', 'cross-origin-resource-policy: same-origin']) {
      t.match(received, `\r\n${line}\r\n`)
    }
    t.equal(/\r\nx-request-id: (\S+)/.exec(received)?.[1], /"requestId":"([^"]+)"/.exec(received)?.[1])
  })

  await t.test('built-in endpoints are not stored by caches, and declared reads are revalidated', async (t) => {
    for (
      const target of [
        'GET /tenant/info',
        'GET /tenant/secrets',
        'GET /tenant/config',
        'GET /tenant/rbac',
        'GET /health',
        'GET /usage/summary'
      ]
    ) {
      t.match(await user(target), { status: 200, headers: { 'cache-control': 'no-store' } }, target)
    }
    t.equal((await user('POST /notes', { body: { id: 1, title: 'one' } })).headers['cache-control'], 'no-store', 'a write')
    t.equal((await ask('GET /notes')).headers['cache-control'], 'no-store', 'an error')
    t.match(await user('GET /notes'), {
      headers: { 'cache-control': 'private, no-cache', etag: /^"[\w-]{27}"$/, vary: 'authorization, x-api-key, x-tenant-id' }
    })
    t.match(
      await ask('GET /hello'),
      { headers: { 'cache-control': 'no-cache', vary: 'authorization, x-api-key, x-tenant-id' } },
      'without a caller'
    )
    t.equal((await ask('GET /notes')).headers['vary'], 'authorization, x-api-key, x-tenant-id', 'a rejection')
    t.notOk((await ask('GET /health')).headers['vary'], 'the same for every caller')
  })

  await t.test('a read that the caller has cached is a 304 until it changes', async (t) => {
    const { headers: { etag }, text } = await user('GET /notes')
    const tag = String(etag)
    for (const condition of [tag, `W/${tag}`, `"x", ${tag}`, '*', `"a,b",${tag}`]) {
      const response = await user('GET /notes', { headers: { 'if-none-match': condition } })
      t.match(
        response,
        { status: 304, text: '', headers: { etag: tag, 'cache-control': 'private, no-cache', vary: /authorization/ } },
        condition
      )
    }
    for (const condition of ['"x"', tag.slice(1, -1), `${tag} x`, '', `"${'a,'.repeat(1000)}`, 'W/']) {
      t.match(await user('GET /notes', { headers: { 'if-none-match': condition } }), { status: 200, text }, condition.slice(0, 20))
    }
    t.match(await user('HEAD /notes', { headers: { 'if-none-match': tag } }), { status: 304 })
    t.match(await user('HEAD /notes'), { status: 200, headers: { etag: tag } })
    const stranger = await caller(t, app, { token: signToken({ sub: 'eve', role: 'admin', tenant_id: 'other' }) })('GET /notes', {
      headers: { 'if-none-match': tag }
    })
    t.match(stranger, { status: 200, body: { data: { length: 0 } } }, 'another tenant has other rows')
    await user('POST /notes', { body: { id: 2, title: 'two' } })
    t.match(await user('GET /notes', { headers: { 'if-none-match': tag } }), { status: 200 })
    const large = await ask(`GET /large/1?text=${'x'.repeat(200)}`)
    t.ok(large.headers['etag'])
  })

  await t.test('/doc and the files of /ui have a tag', async (t) => {
    const { headers: { etag } } = await ask('GET /doc')
    t.match(await ask('GET /doc', { headers: { 'if-none-match': String(etag) } }), { status: 304, text: '' })
    const { headers: { etag: own } } = await user('GET /doc')
    t.match(await user('GET /doc', { headers: { 'if-none-match': String(own) } }), { status: 304 })
    const page = await ask('GET /ui/static/swagger-ui.css')
    t.match(page, { status: 200, headers: { 'content-type': /^text\/css/ } })
    t.notMatch(page.headers['cache-control'], 'no-store')
  })
})

test('HSTS depends on a trusted proxy', async (t) => {
  const trusting = caller(t, await testServer(t, { ...document, server: { trustProxy: true } }))
  t.equal(
    (await trusting('GET /hello', { headers: { 'x-forwarded-proto': 'https' } })).headers['strict-transport-security'],
    'max-age=31536000'
  )
  t.notOk((await trusting('GET /hello', { headers: { 'x-forwarded-proto': 'http' } })).headers['strict-transport-security'])
  const wary = caller(t, await testServer(t, document))
  t.notOk(
    (await wary('GET /hello', { headers: { 'x-forwarded-proto': 'https' } })).headers['strict-transport-security'],
    'an untrusted proxy'
  )
})

test('an embedding app keeps its own caching and Vary headers', async (t) => {
  const { app } = await testApp(t, {
    plugins: { headers: {}, conventions: {} },
    routes: (app) => app.get('/', async (_request, reply) => reply.header('cache-control', 'public, max-age=60').send({}))
  })
  const { headers: got } = await app.inject('/')
  t.match(got, { 'cache-control': 'public, max-age=60', 'x-content-type-options': 'nosniff', 'x-request-id': /./ })
})
