/** Cached responses: the same URL has a separate response for each tenant and each caller. */
import { test } from 'tap'
import { signToken } from '../../helpers/tokens.js'
import { createWorld, marker, type Routes, save, userOf } from './world.js'

const cache = { enabled: true, ttl: 60 }
const routes: Routes = [
  { method: 'post', path: '/mine/notes', queries: [{ table: 'notes', operation: 'insert' }] },
  { method: 'get', path: '/mine/cached', cache, queries: [{ table: 'notes', operation: 'select' }] },
  { method: 'get', path: '/mine/fixed', cache: { ...cache, key: 'the same for all' }, queries: [{ table: 'notes', operation: 'select' }] },
  {
    method: 'get',
    path: '/mine/named',
    cache: { ...cache, key: 'victim:{{query.k}}' },
    queries: [{ table: 'notes', operation: 'select' }]
  },
  { method: 'get', path: '/mine/excluded', cache, excludeFields: ['body'], queries: [{ table: 'notes', operation: 'select' }] },
  { method: 'get', path: '/mine/caller', cache, requireAuth: true, response: { sub: '{{auth.sub}}', tenant: '{{tenant.id}}' } }
]

test('cached responses', async (t) => {
  const { app, attacker, victim, stranger, platform } = await createWorld(t)
  await save(t, attacker, routes)
  await save(t, victim, routes)
  await victim('POST /mine/notes', { body: { title: marker, body: marker } })
  const hits = ['/platform/cached', '/mine/cached', '/mine/cached?a=1&b=2', '/mine/fixed', '/mine/named?k=1', '/mine/excluded']

  await t.test("a tenant's cached responses are not served to others", async (t) => {
    for (const path of hits) {
      t.match(await victim(`GET ${path}`), { status: 200, headers: { 'x-cache': 'MISS' } })
      const again = await victim(`GET ${path}`)
      t.match([again.headers['x-cache'], again.text.includes(marker)], ['HIT', true], path)
      const { headers, text } = await attacker(`GET ${path}`)
      t.match([headers['x-cache'], text.includes(marker)], ['MISS', false], `${path} for another tenant`)
      t.notMatch((await attacker(`GET ${path}`)).text, marker)
      t.notMatch((await stranger(`GET ${path}`, { tenant: 'attacker' })).text, marker)
      t.notMatch(
        (await attacker(`GET ${path}`, { headers: { 'x-forwarded-host': 'victim', 'x-original-url': path, 'x-tenant': 'victim' } })).text,
        marker
      )
    }
  })

  await t.test("a caller's cached response is not served to a caller with fewer permissions", async (t) => {
    t.match((await victim('GET /mine/excluded')).text, marker)
    const { body } = await userOf(t, app, 'victim')('GET /mine/excluded')
    t.same(body.data?.map((note) => Object.hasOwn(note, 'body')), [false], 'fields for administrators')
    const first = userOf(t, app, 'victim', { sub: 'first' })
    t.match((await first('GET /mine/caller')).body, { sub: 'first', tenant: 'victim' })
    t.match((await userOf(t, app, 'victim', { sub: 'second' })('GET /mine/caller')).body, { sub: 'second', tenant: 'victim' })
    t.match((await userOf(t, app, 'attacker', { sub: 'first' })('GET /mine/caller')).body, { sub: 'first', tenant: 'attacker' })
  })

  await t.test('a changed document drops its cached responses', async (t) => {
    await save(
      t,
      victim,
      routes.map((route) => route.path === '/mine/fixed' ? { ...route, queries: [{ table: 'people', operation: 'select' }] } : route)
    )
    t.same((await victim('GET /mine/fixed')).body.data, [])
  })

  await t.test("a deleted tenant's cached responses are dropped", async (t) => {
    t.match(await victim('GET /platform/cached'), { headers: { 'x-cache': 'HIT' } })
    t.match(await platform('DELETE /tenants/victim'), { status: 200 })
    t.match(await platform('POST /tenants', { body: { id: 'victim', name: 'another' } }), { status: 201 })
    // A token of the same second would belong to the deleted tenant.
    const later = signToken({ sub: 'admin', role: 'admin', tenant_id: 'victim', iat: Math.floor(Date.now() / 1000) + 2 })
    const { text, headers } = await victim('GET /platform/cached', { token: later })
    t.match([headers['x-cache'], text.includes(marker)], ['MISS', false])
  })
})
