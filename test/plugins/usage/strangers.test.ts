import type { FastifyInstance, InjectOptions } from 'fastify'
import { test } from 'tap'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { bearer, signToken } from '../../helpers/tokens.js'

const stranger = { 'x-tenant-id': 'acme' }
const admin = bearer({ tenant_id: 'acme', sub: 'ada', role: 'admin' })
const document: TestDocument = {
  routes: [
    { path: '/open', method: 'get', response: { hello: 'you' } },
    { path: '/known', method: 'get', requireAuth: true, response: { hello: '{{auth.sub}}' } },
    { path: '/platform', method: 'get', public: false, response: { hello: 'you' } }
  ]
}

/** Sends a request. Returns the status and the tenant's counts. */
async function counted (app: FastifyInstance, options: InjectOptions): Promise<{ status: number, calls: number, bytes: number }> {
  const before = await app.usage.summary('acme')
  const { statusCode } = await app.inject(options)
  const after = await app.usage.summary('acme')
  return { status: statusCode, calls: after.api_calls - before.api_calls, bytes: after.bandwidth_bytes - before.bandwidth_bytes }
}

test('an anonymous caller who names a tenant adds to its usage only by open routes', async (t) => {
  const app = await testServer(t, document, { tenants: ['acme'] })
  const own = [{ path: '/own', method: 'get', response: { own: true } }, {
    path: '/own/users',
    method: 'get',
    requireAuth: true,
    response: { own: true }
  }]
  t.equal((await app.inject({ method: 'POST', url: '/tenant/config', headers: admin, payload: { routes: own } })).statusCode, 200)

  for (const [url, status, bytes] of [['/open', 200, '{"hello":"you"}'.length], ['/own', 200, '{"own":true}'.length]] as const) {
    t.same(await counted(app, { url, headers: stranger }), { status, calls: 1, bytes }, url)
    t.same(await counted(app, { method: 'HEAD', url, headers: stranger }), { status, calls: 1, bytes: 0 }, `HEAD ${url}`)
  }
  for (
    const [url, status] of [
      ['/nope', 404],
      ['/doc', 200],
      ['/health', 200],
      ['/billing/plans', 200],
      ['/known', 401],
      ['/own/users', 401],
      ['/platform', 401],
      ['/usage/summary', 401]
    ] as const
  ) {
    t.same(await counted(app, { url, headers: stranger }), { status, calls: 0, bytes: 0 }, url)
  }
  t.same(
    await counted(app, {
      method: 'POST',
      url: '/nope',
      headers: { ...stranger, 'content-type': 'text/plain' },
      payload: 'x'.repeat(1_000_000)
    }),
    { status: 404, calls: 0, bytes: 0 },
    'a large body to an unknown path'
  )
  t.same(
    await counted(app, {
      url: '/open',
      headers: { ...stranger, authorization: `Bearer ${signToken({ sub: 'eve', tenant_id: 'acme' })}x` }
    }),
    { status: 401, calls: 0, bytes: 0 },
    'an invalid token'
  )
  for (const [url, status] of [['/known', 200], ['/nope', 404], ['/doc', 200]] as const) {
    t.match(await counted(app, { url, headers: admin }), { status, calls: 1 }, `an authenticated caller: ${url}`)
  }
})

test('if a gateway names the tenant, every request counts', async (t) => {
  const app = await testServer(t, { ...document, tenancy: { trustHeader: true } }, { tenants: ['acme'] })
  for (const [url, status] of [['/open', 200], ['/nope', 404], ['/doc', 200]] as const) {
    t.match(await counted(app, { url, headers: stranger }), { status, calls: 1 }, url)
  }
})
