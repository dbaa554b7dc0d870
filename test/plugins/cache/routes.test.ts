import type { FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import { postgresSection } from '../../helpers/postgres.js'
import { type TestDocument, testServers } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, caller, refused } from '../../http/caller.js'
import { type CacheSection, redisSection } from './stores.js'

const admin = { token: signToken({ role: 'admin', sub: 'ops' }) }
/** Each computed response is different. */
const document: TestDocument = {
  routes: [{ path: '/clock', method: 'get', cache: { enabled: true, ttl: 3600 }, response: { at: '{{uuid()}}' } }]
}

interface World {
  readonly app: FastifyInstance
  readonly ask: Ask
  readonly other: Ask
  /** A tenant's responses from the first server and from the second, cached or not. */
  readonly at: (ask: Ask, query?: string, tenant?: string) => Promise<unknown>
}

async function world (t: Test, section: CacheSection): Promise<World> {
  const [app, second] = await testServers(t, { ...document, cache: section }, {
    engine: await postgresSection(t),
    tenants: ['acme', 'globex']
  })
  return {
    app,
    ask: caller(t, app, admin),
    other: caller(t, second, admin),
    at: async (ask, query = '', tenant = 'acme') =>
      (await ask(`GET /clock${query}`, { token: signToken({ tenant_id: tenant }) })).body['at']
  }
}

async function keysOf (ask: Ask): Promise<string[]> {
  return [(await ask('GET /cache/keys?tenant=acme&limit=100')).body['data']].flat().map(String)
}

test('the cache endpoints work with one cache per instance', async (t) => {
  const { app, ask, other, at } = await world(t, { enabled: true, provider: 'memory' })

  await t.test('the figures are shown, also for one tenant', async (t) => {
    for (const query of ['', '?a=1', '?a=2', '?a=2']) await at(ask, query)
    await at(ask, '', 'globex')
    t.match(await ask('GET /cache/stats'), {
      status: 200,
      body: { provider: 'memory', shared: false, items: 4, bytes: Number, hits: 1, misses: 4 }
    })
    t.match((await ask('GET /cache/stats?tenant=acme')).body, { items: 3, hits: 1, misses: 3 })
    t.match((await ask('GET /cache/stats', { tenant: 'globex' })).body, { items: 1, hits: 0, misses: 1 }, 'the header selects it too')
    t.match((await ask('GET /cache/stats?tenant=nobody')).body, { items: 0, bytes: 0, hits: 0, misses: 0 })
  })

  await t.test('the keys of one tenant are listed', async (t) => {
    const keys = await keysOf(ask)
    t.equal(keys.length, 3)
    t.ok(keys.every((key) => key.includes('acme') && key.includes('/clock')), keys.join())
    t.strictSame((await ask('GET /cache/keys?tenant=acme&limit=2')).body, {
      data: keys.slice(0, 2),
      pagination: { limit: 2, offset: 0, total: 3 }
    })
    t.strictSame((await ask('GET /cache/keys?tenant=acme&limit=2&offset=2')).body, {
      data: keys.slice(2),
      pagination: { limit: 2, offset: 2, total: 3 }
    })
    t.match((await ask('GET /cache/keys?tenant=acme&limit=100000')).body, { pagination: { limit: 100 } })
    t.match((await ask('GET /cache/keys')).body, { data: { length: 0 }, pagination: { total: 0 } }, "the platform's own")
  })

  await t.test('one response is removed, only of that tenant', async (t) => {
    const key = (await keysOf(ask)).find((each) => each.includes('a=1')) ?? ''
    const before = [await at(ask, '?a=1'), await at(ask, '?a=2')]
    refused(t, await ask(`DELETE /cache/key/${encodeURIComponent(key)}?tenant=globex`), 404, 'NOT_FOUND')
    refused(t, await ask(`DELETE /cache/key/${encodeURIComponent(key)}`), 404, 'NOT_FOUND')
    t.match(await ask(`DELETE /cache/key/${encodeURIComponent(key)}?tenant=acme`), { status: 200, body: { success: true } })
    refused(t, await ask(`DELETE /cache/key/${encodeURIComponent(key)}?tenant=acme`), 404, 'NOT_FOUND')
    t.not(await at(ask, '?a=1'), before[0])
    t.equal(await at(ask, '?a=2'), before[1])
  })

  await t.test("one tenant's responses are cleared on both instances", async (t) => {
    const [here, there, kept] = [await at(ask), await at(other), await at(other, '', 'globex')]
    t.match(await ask('DELETE /cache/clear?tenant=acme'), { status: 200, body: { success: true, removed: 3 } })
    t.not(await at(ask), here)
    await until('the other instance is notified', async () => await at(other) !== there)
    t.equal(await at(other, '', 'globex'), kept)
  })

  await t.test('all responses are cleared on both instances', async (t) => {
    const [here, there] = [await at(ask, '', 'globex'), await at(other, '', 'globex')]
    t.match((await ask('DELETE /cache/clear')).body, { success: true, removed: 2 })
    t.not(await at(ask, '', 'globex'), here)
    await until('the other instance is notified', async () => await at(other, '', 'globex') !== there)
  })

  await t.test('only platform administrators may change the cache, and each change is logged', async (t) => {
    const targets = ['GET /cache/stats', 'GET /cache/keys?limit=x', 'DELETE /cache/clear?tenant=acme', 'DELETE /cache/key/x?what=1']
    for (const target of targets) {
      refused(t, await caller(t, app)(target), 401, 'TOKEN_MISSING', target)
      refused(t, await caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme' }) })(target), 403, 'FORBIDDEN', target)
    }
    const entries = await app.db.selectFrom('tenantry.audit_log').select(['tenant_id', 'action', 'user_id', 'target', 'details'])
      .where('action', 'like', 'cache.%').orderBy('created_at').execute()
    t.match(entries, [
      { tenant_id: '', action: 'cache.delete', user_id: 'ops', target: /^sha256:[0-9a-f]{64}$/, details: { tenant: 'acme' } },
      { tenant_id: '', action: 'cache.clear', user_id: 'ops', target: null, details: { tenant: 'acme' } },
      { tenant_id: '', action: 'cache.clear', user_id: 'ops', target: null }
    ])
    t.equal(entries.length, 3)
  })

  await t.test('invalid requests are rejected', async (t) => {
    for (const query of ['tenant=*', 'tenant=', 'tenant=a%3Ab', 'tenant=acme&tenant=globex', 'what=1']) {
      for (const target of ['GET /cache/stats', 'GET /cache/keys', 'DELETE /cache/clear', 'DELETE /cache/key/x']) {
        refused(t, await ask(`${target}?${query}`), 400, 'VALIDATION_FAILED', `${target}?${query}`)
      }
    }
    for (const limit of ['0', '-1', '1.5', 'x', '']) {
      refused(t, await ask(`GET /cache/keys?limit=${limit}`), 400, 'VALIDATION_FAILED', limit)
    }
  })
})

test('the cache endpoints work with a shared cache', async (t) => {
  const { cache: section, redis } = await redisSection(t)
  const { ask, other, at } = await world(t, section)

  await t.test('the cache is the same on both instances', async (t) => {
    // A response does not wait until it is stored.
    const stored = () => until('the response is stored', async () => (await keysOf(other)).length === 1)
    const before = await at(ask)
    await stored()
    t.equal(await at(other), before)
    t.match((await other('GET /cache/stats?tenant=acme')).body, { provider: 'redis', shared: true, items: 1 })
    const [key = ''] = await keysOf(other)
    t.equal((await other(`DELETE /cache/key/${encodeURIComponent(key)}?tenant=acme`)).status, 200)
    const after = await at(ask)
    t.not(after, before)
    await stored()
    t.match((await other('DELETE /cache/clear')).body, { success: true, removed: 1 })
    t.not(await at(ask), after)
  })

  await t.test('the cache is empty while Redis is unreachable', async (t) => {
    await redis.stop()
    t.match(await ask('GET /cache/stats'), { status: 200, body: { items: 0 } })
    t.match((await ask('GET /cache/keys?tenant=acme')).body, { data: { length: 0 } })
    t.match((await ask('DELETE /cache/clear')).body, { success: true, removed: 0 })
  })
})
