/** Cached responses over HTTP, on every store: their owner, their lifetime, and how often they are computed. */
import { type Test, test } from 'tap'
import type { TestDocument } from '../../helpers/server.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, caller } from '../../http/caller.js'
import { save } from '../../http/tenants/world.js'
import type { CacheSection } from '../cache/stores.js'
import { forEachStore } from '../cache/stores.js'

const cache = { enabled: true, ttl: 600 }
const id = { type: 'integer', primaryKey: true } as const

const tables = {
  people: { tenantScoped: true, columns: { id, name: { type: 'text' } } },
  notes: {
    tenantScoped: true,
    columns: { id, title: { type: 'text', notNull: true }, person_id: { type: 'integer', references: 'people.id' } }
  },
  countries: { columns: { code: { type: 'text', primaryKey: true }, name: { type: 'text' } } }
} as const satisfies TestDocument['tables']

type Route = NonNullable<TestDocument['routes']>[number]

const write = (path: string, table: string): Route => ({ method: 'post', path, queries: [{ table, operation: 'insert' }] })

const noteList: Route = {
  method: 'get',
  path: '/notes',
  cache,
  queries: [{ table: 'notes', operation: 'select', order: { column: 'id' } }]
}

const routes: Route[] = [
  noteList,
  { method: 'get', path: '/people', cache, queries: [{ table: 'people', operation: 'select', select: '*, notes(title)' }] },
  { method: 'get', path: '/names', cache, queries: [{ table: 'people', operation: 'select', select: 'name' }] },
  { method: 'get', path: '/countries', cache, queries: [{ table: 'countries', operation: 'select' }] },
  { method: 'get', path: '/docs', cache, firebaseQueries: [{ collection: 'docs', operation: 'query' }] },
  { method: 'get', path: '/docs/:id', cache, firebaseQueries: [{ collection: 'docs', operation: 'get', docId: '{{params.id}}' }] },
  {
    method: 'get',
    path: '/pairs',
    cache: { ...cache, key: '{{query.a}}:{{query.b}}' },
    queries: [{ table: 'countries', operation: 'select' }],
    response: { a: '{{query.a}}', b: '{{query.b}}' }
  },
  {
    method: 'get',
    path: '/paged',
    cache: { ...cache, key: 'all' },
    queries: [{ table: 'notes', operation: 'select', order: { column: 'id' } }]
  },
  write('/notes', 'notes'),
  write('/people', 'people'),
  write('/countries', 'countries'),
  { method: 'put', path: '/docs/:id', firebaseQueries: [{ collection: 'docs', operation: 'set', docId: '{{params.id}}' }] },
  { method: 'delete', path: '/notes/:id', queries: [{ table: 'notes', operation: 'delete', id: '{{params.id}}' }] },
  {
    method: 'post',
    path: '/twice',
    queries: [{ table: 'notes', operation: 'insert', data: '{{body}}' }, {
      table: 'notes',
      operation: 'insert',
      alias: 'again',
      data: '{{body}}'
    }]
  }
]

/** HIT or MISS, and the body. */
async function look (ask: Ask, path: string): Promise<[unknown, unknown]> {
  const { headers, body } = await ask(`GET ${path}`)
  return [headers['x-cache'], body.data?.map(({ title, name, id }) => title ?? name ?? id) ?? body]
}

/** Until it is stored: no response waits for that. */
async function kept (ask: Ask, path: string): Promise<void> {
  await until(`${path} is cached`, async () => (await look(ask, path))[0] === 'HIT')
}

async function serves (t: Test, section: CacheSection): Promise<void> {
  const app = await testServer(t, { tables, routes, cache: section }, {
    tenants: [{ id: 'acme', plan: 'enterprise' }, { id: 'globex', plan: 'enterprise' }]
  })
  const acme = caller(t, app, { tenant: 'acme' })
  const globex = caller(t, app, { tenant: 'globex' })
  const anonymous = caller(t, app)

  await t.test('two tenants never share a cached response of one URL', async (t) => {
    await acme('POST /notes', { body: { id: 1, title: 'of acme' } })
    await globex('POST /notes', { body: { id: 1, title: 'of globex' } })
    for (const [ask, title] of [[acme, 'of acme'], [globex, 'of globex']] as const) {
      t.same(await look(ask, '/notes'), ['MISS', [title]])
      await kept(ask, '/notes')
      t.same(await look(ask, '/notes'), ['HIT', [title]])
    }
    t.ok((await app.cache.keys('acme')).length > 0)
  })

  await t.test('values of a key cannot move from one template to the next', async (t) => {
    const pair = async (query: string) => (await acme(`GET /pairs?${query}`)).body
    t.strictSame(await pair('a=x:y&b=z'), { a: 'x:y', b: 'z' })
    await kept(acme, '/pairs?a=x:y&b=z')
    t.strictSame(await pair('a=x&b=y:z'), { a: 'x', b: 'y:z' })
    t.strictSame((await look(acme, '/pairs?a=x:y&b=z&utm=1'))[0], 'HIT')
  })

  await t.test('a custom key does not hide limit and offset', async (t) => {
    await acme('POST /notes', { body: { id: 50, title: 'next' } })
    await kept(acme, '/paged')
    t.same((await look(acme, '/paged?limit=1'))[1], ['of acme'])
    t.same((await look(acme, '/paged?limit=1&offset=1'))[1], ['next'])
    t.same(await look(acme, '/paged?utm=1'), ['HIT', ['of acme', 'next']])
    await acme('DELETE /notes/50')
  })

  await t.test("a write drops its tenant's responses of its table, embedded ones too, and no others", async (t) => {
    await acme('POST /people', { body: { id: 1, name: 'Ann' } })
    await acme('POST /notes', { body: { id: 2, title: 'second', person_id: 1 } })
    for (const path of ['/notes', '/people', '/names']) await kept(acme, path)
    await kept(globex, '/notes')
    await acme('POST /notes', { body: { id: 3, title: 'third' } })
    t.same(await look(acme, '/notes'), ['MISS', ['of acme', 'second', 'third']])
    t.match(await look(acme, '/people'), ['MISS'])
    t.match(await look(acme, '/names'), ['HIT'])
    t.match(await look(globex, '/notes'), ['HIT'])
    await acme('DELETE /notes/3')
    t.same(await look(acme, '/notes'), ['MISS', ['of acme', 'second']])
  })

  await t.test('a write to a table without tenants drops the cached responses of every tenant', async (t) => {
    for (const ask of [acme, globex, anonymous]) await kept(ask, '/countries')
    await anonymous('POST /countries', { body: { code: 'DE', name: 'Germany' } })
    for (const ask of [acme, globex, anonymous]) t.same(await look(ask, '/countries'), ['MISS', ['Germany']])
  })

  await t.test('cached document responses depend on their collection and tenant, also without a tenant', async (t) => {
    for (const ask of [acme, globex, anonymous]) await ask('PUT /docs/1', { body: { name: 'before' } })
    for (const ask of [acme, globex, anonymous]) for (const path of ['/docs', '/docs/1']) await kept(ask, path)
    await anonymous('PUT /docs/1', { body: { name: 'after' } })
    for (const ask of [acme, globex]) t.match(await look(ask, '/docs'), ['HIT', ['before']])
    t.match(await look(anonymous, '/docs'), ['MISS', ['after']])
    t.match(await look(anonymous, '/docs/1'), ['MISS', { name: 'after' }])
  })

  await t.test('a failed write changes nothing', async (t) => {
    await kept(acme, '/notes')
    t.equal((await acme('POST /notes', { body: { id: 1, title: 'taken' } })).status, 409)
    t.equal((await acme('POST /twice', { body: { id: 77, title: 'rolled back' } })).status, 409)
    t.equal((await acme('DELETE /notes/999')).status, 404)
    t.match(await look(acme, '/notes'), ['HIT', ['of acme', 'second']])
  })

  await t.test("a tenant's routes and the platform's are cached alike, and drop each other's responses", async (t) => {
    const admin = caller(t, app, { token: signToken({ sub: 'root', role: 'admin', tenant_id: 'acme' }) })
    await save(t, admin, [{ ...noteList, path: '/own/notes' }, write('/own/notes', 'notes')])
    await kept(acme, '/own/notes')
    await kept(acme, '/notes')
    t.equal((await acme('POST /own/notes', { body: { id: 10, title: 'by the own route' } })).status, 201)
    for (const path of ['/notes', '/own/notes']) t.same(await look(acme, path), ['MISS', ['of acme', 'second', 'by the own route']])
    for (const path of ['/notes', '/own/notes']) await kept(acme, path)
    await acme('POST /notes', { body: { id: 11, title: "by the platform's" } })
    t.match(await look(acme, '/own/notes'), ['MISS'])
  })

  await t.test("a deleted tenant's cached responses are dropped", async (t) => {
    await kept(globex, '/notes')
    await app.tenants.delete('globex')
    await app.tenants.create({ id: 'globex', name: 'another' })
    t.same(await look(globex, '/notes'), ['MISS', []])
    t.match(await look(acme, '/names'), ['HIT'])
  })
}

test('cached responses', (t) => forEachStore(t, serves))
