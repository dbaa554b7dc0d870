/** JSON with a huge number of keys, from callers and from services that routes call. */
import { test } from 'tap'
import { postgresDatabase } from '../helpers/postgres.js'
import { remote } from '../helpers/remote.js'
import { listen, testServer } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'

const members = (count: number) => JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, index) => [`key${index}`, 1])))

test('JSON with too many keys is rejected before it is parsed', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const [few, many] = [members(3), members(300_000)]
  const upstream = await remote(t, ({ path }, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(path === '/few' ? few : many)
  })
  const columns = Object.fromEntries(Array.from({ length: 19 }, (_, index) => [`column_${index}`, { type: 'text' as const }]))
  const app = await testServer(t, {
    tables: { things: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, ...columns } } },
    customIntegrations: [{ name: 'upstream', baseUrl: upstream.origin, actions: { get: { method: 'GET', path: '/{{params.path}}' } } }],
    routes: [
      { path: '/things', method: 'post', requireAuth: true, queries: [{ table: 'things', operation: 'insert' }] },
      { path: '/call/:path', method: 'get', integrations: [{ type: 'upstream', action: 'get', params: { path: '{{params.path}}' } }] },
      { path: '/hook', method: 'post', response: { ok: true } }
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['a'] })
  const origin = await listen(app)
  const post = async (path: string, body: string) =>
    await fetch(origin + path, { method: 'POST', headers: { 'content-type': 'application/json', ...bearer({ tenant_id: 'a' }) }, body })

  const body = await post('/hook', members(60_000))
  t.equal(body.status, 400)
  t.match(await body.json(), {
    code: 'TENANTRY_BAD_REQUEST',
    message: 'The body has more than 10,000 different keys, where a key after other keys counts again'
  })

  const rows = Array.from(
    { length: 1000 },
    (_, id) => ({ id, ...Object.fromEntries(Object.keys(columns).map((name) => [name, `text ${id}`])) })
  )
  const inserted = await post('/things', JSON.stringify(rows))
  t.equal(inserted.status, 201, await inserted.text())

  t.equal((await fetch(`${origin}/call/few`)).status, 200)
  for (const response of await Promise.all(Array.from({ length: 10 }, () => fetch(`${origin}/call/many`)))) {
    t.equal(response.status, 502)
    t.match(await response.json(), {
      code: 'TENANTRY_PROVIDER_ANSWER_TOO_COMPLEX',
      integration: 'upstream',
      action: 'get',
      message: /10,000 different keys/
    })
  }
})
