import { Validator } from '@seriousme/openapi-schema-validator'
import type { FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import { createYielder } from '../../../lib/concurrency/event-loop-yielder.js'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import tenantConfig from '../../../plugins/tenant-config/index.js'
import { holdInPause } from '../../helpers/pauses.js'
import { testServer } from '../../helpers/server.js'
import { until } from '../../helpers/until.js'
import { ownApp } from './app.js'
import { admin, notes, platform, save, user } from './document.js'

/** The response of /doc to a user of acme, which is valid OpenAPI 3.1. */
async function documentOf (t: Test, app: FastifyInstance) {
  const document = (await app.inject({ url: '/doc', headers: user('acme') })).json()
  const { valid, errors } = await new Validator().validate(structuredClone(document))
  t.ok(valid, JSON.stringify(errors))
  return document
}

test('/doc shows a tenant its own routes, and anonymous callers those without a token', async (t) => {
  const app = await testServer(t, platform, { tenants: ['acme', 'other'] })
  await save(app, 'acme', { routes: [notes.list, { path: '/open', method: 'get', response: { a: 1 } }] })
  const paths = async (headers: Record<string, string>) => Object.keys((await app.inject({ url: '/doc', headers })).json().paths)
  const own = await paths(user('acme'))
  t.ok(own.includes('/notes') && own.includes('/open') && own.includes('/status'))
  const strangers = await paths({ 'x-tenant-id': 'acme' })
  t.ok(strangers.includes('/open') && !strangers.includes('/notes'))
  for (const headers of [{}, user('other')]) t.notOk((await paths(headers)).some((path) => path === '/notes' || path === '/open'))
  await save(app, 'acme', { routes: [notes.add] })
  const later = await app.inject({ url: '/doc', headers: user('acme') })
  t.ok(later.json().paths['/notes'].post)
  t.notOk(later.json().paths['/notes'].get, 'of the current document')
})

test("the documentation of a tenant's routes is composed in turns of the tenant", async (t) => {
  const app = await testServer(t, platform, { tenants: ['acme', 'other'] })
  for (const tenant of ['acme', 'other']) await save(app, tenant, { routes: [notes.list, notes.add] })
  const ask = (tenant: string) => app.inject({ url: '/doc', headers: user(tenant) })
  // Loads the tenant's document, which takes turns too.
  await app.inject({ url: '/notes', headers: user('acme') })
  const pause = holdInPause(t, 'acme')
  const asked = ask('acme')
  // Before the first route, after each of the two, before the text, and before the response.
  for (let piece = 1; piece <= 5; piece++) {
    await until(`piece ${piece} waits`, () => createYielder(tenantIdOf('acme')).waiting === 1)
    if (piece === 2) t.ok((await ask('other')).json().paths['/notes'], 'another tenant does not wait')
    pause.next()
  }
  t.ok((await asked).json().paths['/notes'])
})

test("a tenant's route on a server's path is added to it, with the parameters of that path", async (t) => {
  const app = await testServer(t, platform, { tenants: ['acme'] })
  const change = {
    path: '/items/:name',
    method: 'post',
    requiredPermissions: ['items:write'],
    request: { params: { name: { type: 'string', maxLength: 20 } }, query: { name: { type: 'boolean' } } },
    response: {}
  }
  t.equal(
    (await save(app, 'acme', {
      routes: [change, { path: '/own/:a', method: 'get', response: {} }, { path: '/own/:b', method: 'delete', response: {} }]
    })).statusCode,
    200
  )
  const { paths } = await documentOf(t, app)
  t.strictSame(Object.keys(paths).filter((path) => /^.(items|own)/.test(path)), ['/items/{id}', '/own/{a}'])
  t.strictSame(Object.keys(paths['/items/{id}']), ['get', 'post'])
  t.match(paths['/items/{id}'].post, {
    operationId: 'postItemsById',
    security: [{ bearer: { length: 0 } }, { apiKey: { length: 0 } }],
    parameters: [{ in: 'path', name: 'id', required: true, schema: { type: 'string', maxLength: 20 } }, { in: 'query', name: 'name' }, {
      $ref: '#/components/parameters/TenantId'
    }]
  })
  t.strictSame(Object.keys(paths['/own/{a}']), ['get', 'delete'])
  t.match(paths['/own/{a}'].delete.parameters, [{ in: 'path', name: 'a' }])
})

test('under a prefix the documentation has the full paths', async (t) => {
  const app = await ownApp(t, { 'tenant-config': { prefix: '/api' } })
  const route = (path: string) => ({ path, method: 'get', response: {} })
  t.equal(
    (await app.inject({
      method: 'POST',
      url: '/api/tenant/config',
      headers: admin('acme'),
      payload: { routes: [route('/'), route('/mine')] }
    })).statusCode,
    200
  )
  const own = Object.keys((await documentOf(t, app)).paths).filter((path) => !path.includes('/tenant/config'))
  t.strictSame(own, ['/api/', '/api/mine', '/doc', '/ui'])
  for (const url of own) t.equal((await app.inject({ url, headers: user('acme') })).statusCode, 200, url)
})

test("tenants' documents belong to the context of the plugins that read them", async (t) => {
  const app = ownApp(t, {}, (app) => {
    app.register(async (scope) => {
      await scope.register(tenantConfig)
    })
  })
  await t.rejects(app, {
    message:
      'register the plugin "tenantry/plugins/tenant-config" in the context that has `openapi`: plugins of a context do not see what is registered below it'
  })
})
