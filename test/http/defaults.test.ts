/** Optional members of documents, and members without an effect. */
import { test } from 'tap'
import { testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller } from './caller.js'

test("a route's rate limit without windowMs counts per minute, in the platform's document and in a tenant's", async (t) => {
  const route = { method: 'get', path: '/few', response: { ok: true }, rateLimit: { max: 2 } } as const
  const app = await testServer(t, { routes: [route] }, { tenants: ['acme'] })
  const ask = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme' }) })
  t.equal((await ask('POST /tenant/config', { body: { routes: [{ ...route, path: '/own' }] } })).status, 200)
  for (const path of ['/few', '/own']) {
    const responses = []
    for (let index = 0; index < 3; index++) responses.push(await ask(`GET ${path}`))
    t.strictSame(responses.map(({ status }) => status), [200, 200, 429], path)
    const waits = Number(responses[2]?.body['retryAfter'])
    t.ok(waits > 30 && waits <= 60, `${path}: ${waits} s of the minute remain`)
  }
})

test("a cache provider in a tenant's document is validated but has no effect", async (t) => {
  const app = await testServer(t, { cache: { enabled: true, provider: 'memory' } }, { tenants: ['acme'] })
  const ask = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme' }) })
  for (const provider of ['memory', 'redis']) {
    const saved = await ask('POST /tenant/config', {
      body: {
        cache: { enabled: true, provider },
        routes: [{ method: 'get', path: '/kept', cache: { enabled: true }, response: { provider } }]
      }
    })
    t.equal(saved.status, 200, saved.text)
    await ask('GET /kept')
    t.match(await ask('GET /kept'), { status: 200, body: { provider } })
  }
  t.equal(app.cache.provider, 'memory')
  t.match(await ask('POST /tenant/config', { body: { cache: { enabled: true, provider: 'disk' } } }), {
    status: 400,
    body: { details: [{ path: '/cache/provider' }] }
  })
})
