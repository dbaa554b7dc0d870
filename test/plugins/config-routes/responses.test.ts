/** Responses of configured routes over HTTP: visibility of excluded fields, cache keys, computed fields. */
import { type Test, test } from 'tap'
import type { TestDocument } from '../../helpers/server.js'
import { testServer } from '../../helpers/server.js'
import type { TokenClaims } from '../../helpers/tokens.js'
import { bearer } from '../../helpers/tokens.js'

const tables = {
  notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' }, secret: { type: 'text' } } }
} as const

interface Asked {
  readonly claims?: TokenClaims
  readonly headers?: Record<string, string>
}

/** Sends requests to a server with the routes and two notes of the tenant "acme". */
async function asking (t: Test, document: TestDocument) {
  const app = await testServer(t, {
    tables,
    ...document,
    routes: [...document.routes ?? [], { method: 'post', path: '/notes', queries: [{ table: 'notes', operation: 'insert' }] }]
  }, { tenants: ['acme', 'globex'] })
  const created = await app.inject({
    method: 'POST',
    url: '/notes',
    headers: { 'x-tenant-id': 'acme' },
    payload: [{ id: 1, title: 'one', secret: 's1' }, { id: 2, title: 'two', secret: 's2' }]
  })
  t.equal(created.statusCode, 201, created.body)
  return async (url: string, { claims, headers }: Asked = {}) => {
    const response = await app.inject({
      url,
      headers: { ...(claims === undefined ? { 'x-tenant-id': 'acme' } : bearer(claims)), ...headers }
    })
    return { body: response.json(), cache: response.headers['x-cache'] }
  }
}

const hidden: NonNullable<TestDocument['routes']>[number] = {
  method: 'get',
  path: '/hidden',
  excludeFields: ['secret'],
  queries: [{ table: 'notes', operation: 'select', id: 1 }]
}

test("excluded fields are visible to administrators, and to a tenant's own users who name their tenant", async (t) => {
  const ask = await asking(t, { routes: [hidden] })
  const sees = async (asked: Asked) => 'secret' in (await ask('/hidden', asked)).body
  t.equal(await sees({}), false, 'a caller without a token')
  t.equal(await sees({ claims: { tenant_id: 'acme' } }), false)
  t.equal(await sees({ claims: { tenant_id: 'acme' }, headers: { 'x-tenant-id': 'acme' } }), true)
  t.equal(await sees({ claims: { tenant_id: 'acme', role: 'admin' } }), true)
})

test('with `tenancy.dashboardPermission` naming the tenant is not enough', async (t) => {
  const ask = await asking(t, { tenancy: { dashboardPermission: 'dashboard:read' }, routes: [hidden] })
  const sees = async (claims: TokenClaims, headers: Record<string, string> = { 'x-tenant-id': 'acme' }) =>
    'secret' in (await ask('/hidden', { claims, headers })).body
  t.equal(await sees({ tenant_id: 'acme' }), false)
  t.equal(await sees({ tenant_id: 'acme', permissions: ['other:read'] }), false)
  t.equal(await sees({ tenant_id: 'acme', permissions: ['dashboard:read'] }), true)
  t.equal(await sees({ tenant_id: 'acme', permissions: ['dashboard:read'] }, {}), false, 'nor is the permission alone')
  t.equal(await sees({ tenant_id: 'acme', role: 'admin' }), true, 'administrators need none')
})

test('`cache.varyBy` keeps a response for each value', async (t) => {
  const ask = await asking(t, {
    cache: { enabled: true, provider: 'memory' },
    routes: [{
      method: 'get',
      path: '/greeting',
      cache: { enabled: true, varyBy: ['headers.accept-language'] },
      queries: [{ table: 'notes', operation: 'select' }]
    }]
  })
  const cacheOf = async (language: string) => (await ask('/greeting', { headers: { 'accept-language': language } })).cache
  t.equal(await cacheOf('de'), 'MISS')
  t.equal(await cacheOf('en'), 'MISS')
  t.equal(await cacheOf('de'), 'HIT')
  t.equal(await cacheOf('en'), 'HIT')
})

test('`cache.key` replaces path and query string, and never the tenant', async (t) => {
  const ask = await asking(t, {
    cache: { enabled: true, provider: 'memory' },
    routes: [{
      method: 'get',
      path: '/by-title',
      cache: { enabled: true, key: 'title:{{query.title}}' },
      queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'title', value: '{{query.title}}' }] }]
    }]
  })
  t.equal((await ask('/by-title?title=one&ignored=1')).cache, 'MISS')
  const again = await ask('/by-title?title=one&ignored=2')
  t.equal(again.cache, 'HIT', 'values outside the key make no difference')
  t.match(again.body, { data: [{ title: 'one' }] })
  t.match(await ask('/by-title?title=two'), { cache: 'MISS', body: { data: [{ title: 'two' }] } })
  const other = await ask('/by-title?title=one', { headers: { 'x-tenant-id': 'globex' } })
  t.equal(other.cache, 'MISS')
  t.strictSame(other.body.data, [])
})

test("a transform computes its fields in order: first the records', then the response's", async (t) => {
  const ask = await asking(t, {
    routes: [
      {
        method: 'get',
        path: '/list',
        queries: [{ table: 'notes', operation: 'select', select: 'id, title', order: { column: 'id' } }],
        transform: {
          fields: { shout: 'item.title + "!"', total: 'result.pagination.total' },
          operations: [{ type: 'compute', fields: { loud: 'item.shout + "!"' } }, {
            type: 'compute',
            fields: { broken: 'item.title.none' }
          }]
        }
      },
      {
        method: 'get',
        path: '/one',
        queries: [{ table: 'notes', operation: 'select', select: 'title', id: 1 }],
        transform: { fields: { shout: 'item.title + "!"' } },
        response: { said: '{{results.notes.shout}}' }
      }
    ]
  })
  t.strictSame((await ask('/list')).body, {
    data: [
      { id: 1, title: 'one', shout: 'one!', loud: 'one!!', broken: null },
      { id: 2, title: 'two', shout: 'two!', loud: 'two!!', broken: null }
    ],
    pagination: { limit: 20, offset: 0, total: 2 },
    total: 2
  })
  t.strictSame((await ask('/one')).body, { said: 'one!' }, 'a mapping can read computed fields')
})

test('stored JSON with more than 50,000 different keys is rejected where it is read, and other records are served', async (t) => {
  const app = await testServer(t, {
    tables: { sheets: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, data: { type: 'json' } } } },
    routes: [
      { method: 'post', path: '/sheets', queries: [{ table: 'sheets', operation: 'insert', select: 'id' }] },
      {
        method: 'get',
        path: '/sheets',
        queries: [{ table: 'sheets', operation: 'select' }],
        transform: { fields: { n: 'size(item.data)' } }
      },
      { method: 'get', path: '/texts', queries: [{ table: 'sheets', operation: 'select' }] }
    ]
  }, { tenants: ['acme', 'globex'] })
  const ask = async (method: 'GET' | 'POST', url: string, tenant: string, payload?: object) => {
    const { statusCode, body } = await app.inject({
      method,
      url,
      headers: { 'x-tenant-id': tenant },
      ...payload !== undefined && { payload }
    })
    return { status: statusCode, body: JSON.parse(body) }
  }
  const data = (id: number) => Object.fromEntries(Array.from({ length: 9_000 }, (_, index) => [`key ${id} ${index}`, 1]))
  for (let id = 1; id <= 6; id++) {
    const { status } = await ask('GET', '/sheets', 'acme')
    t.equal(status, 200, `${id - 1} rows of 9,000 keys`)
    t.equal((await ask('POST', '/sheets', 'acme', { id, data: data(id) })).status, 201)
  }
  t.match(await ask('GET', '/sheets', 'acme'), {
    status: 400,
    body: { code: 'TENANTRY_ANSWER_TOO_LARGE', message: /more than 50,000 different keys.*: request fewer records or fields/ }
  })
  t.match(await ask('GET', '/sheets?limit=2', 'acme'), { status: 200, body: { data: [{ n: 9000 }, { n: 9000 }] } })
  t.equal((await ask('GET', '/texts', 'acme')).status, 200, 'unparsed JSON is not counted')
  t.match(await ask('GET', '/sheets', 'globex'), { status: 200, body: { data: { length: 0 } } })
})
