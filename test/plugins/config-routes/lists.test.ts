/** Lists of configured routes over HTTP: orders that callers choose, and pages that follow a cursor. */
import type { FastifyInstance } from 'fastify'
import { test } from 'tap'
import { ConfigError, formatFault } from '../../../lib/schema/faults.js'
import { schemaWithoutReferences } from '../../helpers/openapi.js'
import { type TestDocument, testServer } from '../../helpers/server.js'

const tables = {
  notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' }, rank: { type: 'numeric' } } }
} as const satisfies TestDocument['tables']

const create: NonNullable<TestDocument['routes']>[number] = {
  method: 'post',
  path: '/notes',
  queries: [{ table: 'notes', operation: 'insert' }]
}
const orderBy = { from: '{{query.sort}}', allow: ['title', 'rank'] }

const routes: NonNullable<TestDocument['routes']> = [
  create,
  { method: 'get', path: '/notes', queries: [{ table: 'notes', operation: 'select', pagination: 'cursor', orderBy }] },
  { method: 'get', path: '/others', queries: [{ table: 'notes', operation: 'select', pagination: 'cursor', orderBy }] },
  {
    method: 'get',
    path: '/sorted',
    request: { query: { sort: { type: 'string', description: 'By what.' } } },
    queries: [{ table: 'notes', operation: 'select', orderBy: { ...orderBy, from: "{{query.sort || 'rank.desc'}}" } }]
  },
  {
    method: 'get',
    path: '/cached',
    cache: { enabled: true, key: 'all' },
    queries: [{ table: 'notes', operation: 'select', pagination: 'cursor', limit: 1 }]
  },
  {
    method: 'get',
    path: '/both',
    queries: [{ table: 'notes', operation: 'select', orderBy }, { table: 'notes', alias: 'again', operation: 'select' }]
  },
  {
    method: 'get',
    path: '/mapped',
    queries: [{ table: 'notes', operation: 'select', pagination: 'cursor', limit: 2 }],
    response: { items: '{{results.notes.data}}', next: '{{results.notes.pagination.next}}' }
  },
  {
    method: 'get',
    path: '/shaped',
    queries: [{ table: 'notes', operation: 'select', pagination: 'cursor' }],
    response: { type: 'object', properties: { id: { type: 'integer' }, title: { type: 'string' } } }
  }
]

async function asking (app: FastifyInstance, tenant = 'acme') {
  await app.inject({
    method: 'POST',
    url: '/notes',
    headers: { 'x-tenant-id': tenant },
    payload: [{ id: 1, title: 'b', rank: 2 }, { id: 2, title: 'a', rank: 3 }, { id: 3, title: 'c', rank: 1 }]
  })
  return async (url: string, of = tenant) => (await app.inject({ url, headers: { 'x-tenant-id': of } })).json()
}

test('lists over HTTP', async (t) => {
  const app = await testServer(t, { tables, routes, cache: { enabled: true, provider: 'memory' } }, { tenants: ['acme', 'globex'] })
  const ask = await asking(app)
  const ids = (page: { data: { id: number }[] }) => page.data.map(({ id }) => id)

  await t.test('`pagination.next` leads from page to page', async (t) => {
    const first = await ask('/notes?sort=rank.desc&limit=2')
    t.match(first.data, [{ id: 2, title: 'a', rank: 3 }, { id: 1, title: 'b', rank: 2 }])
    t.strictSame(Object.keys(first.pagination), ['limit', 'next'])
    t.equal(first.pagination.limit, 2)
    const second = await ask(`/notes?sort=rank.desc&limit=2&cursor=${first.pagination.next}`)
    t.strictSame(ids(second), [3])
    t.strictSame(second.pagination, { limit: 2, next: null })
    t.match(
      await ask(`/others?sort=rank.desc&cursor=${first.pagination.next}`),
      { code: 'TENANTRY_VALIDATION_FAILED' },
      'a cursor of another route with the same query'
    )
    t.match(
      await ask(`/notes?sort=rank.desc&cursor=${first.pagination.next}`, 'globex'),
      { code: 'TENANTRY_VALIDATION_FAILED' },
      "another tenant's cursor"
    )
  })

  await t.test('page limits come from the query string', async (t) => {
    t.match(await ask('/notes?limit=0'), { details: [{ path: '/query/limit' }] })
    t.match(await ask(`/notes?cursor=${'A'.repeat(5000)}`), {
      details: [{ path: '/query/cursor', message: 'must have at most 4096 characters' }]
    })
    t.match(await ask('/notes?limit=1000'), { pagination: { limit: 100 } })
  })

  await t.test('the order must be one that the route allows', async (t) => {
    t.strictSame(ids(await ask('/sorted')), [2, 1, 3], "the template's default")
    t.strictSame(ids(await ask('/sorted?sort=title')), [2, 1, 3])
    t.strictSame(ids(await ask('/sorted?sort=title.desc')), [3, 1, 2])
    t.match(await ask('/sorted?sort=id'), {
      details: [{ path: '/query/sort', message: 'must be one of title, title.asc, title.desc, rank, rank.asc, rank.desc', keyword: 'enum' }]
    })
    t.strictSame(
      (await ask('/both?sort=title.desc')).notes.data.map(({ id }: { id: number }) => id),
      [3, 1, 2],
      'in one of several queries'
    )
  })

  await t.test('a cache key without the query string still separates pages', async (t) => {
    const first = await ask('/cached')
    t.strictSame(ids(await ask(`/cached?cursor=${first.pagination.next}`)), [2])
  })

  await t.test('a mapping and a response schema can include the cursor', async (t) => {
    t.match(await ask('/mapped'), { items: { length: 2 }, next: String })
    t.match(await ask('/shaped?limit=1'), { data: [{ id: 1, title: 'b' }], pagination: { limit: 1, next: String } })
  })

  await t.test('/doc describes the parameters and the form of the pages', async (t) => {
    const document = (await app.inject('/doc')).json()
    const parameters = Object.fromEntries(
      document.paths['/notes'].get.parameters.map(({ name, schema }: { name: string, schema: object }) => [name, schema])
    )
    t.match(parameters, {
      sort: { type: 'string', enum: ['title', 'title.asc', 'title.desc', 'rank', 'rank.asc', 'rank.desc'] },
      cursor: { type: 'string', maxLength: 4096 },
      limit: { minimum: 1 }
    })
    t.notOk('offset' in parameters)
    const sorted = document.paths['/sorted'].get.parameters.find(({ name }: { name: string }) => name === 'sort')
    t.match(sorted, { description: 'By what.', schema: { enum: ['title', 'title.asc', 'title.desc', 'rank', 'rank.asc', 'rank.desc'] } })
    const page = schemaWithoutReferences(document, document.paths['/notes'].get.responses['200'].content['application/json'].schema)
    t.match(page, {
      properties: {
        data: { items: { properties: { rank: {} } } },
        pagination: { properties: { limit: {}, next: { type: ['string', 'null'] } } }
      }
    })
  })
})

test('a cursor that would reveal excluded or transformed columns is a fault of the document', async (t) => {
  const select = { table: 'notes', operation: 'select', pagination: 'cursor' } as const
  const cases: [Omit<NonNullable<TestDocument['routes']>[number], 'method' | 'path'>, string][] = [
    [
      { queries: [{ ...select, select: 'id', order: { column: 'rank' } }] },
      '/routes/0/queries/0/pagination: a cursor reveals the values of the order and of the primary key of "notes", so every record must include them: add "rank" to `select`, or remove "rank" from `excludeFields`'
    ],
    [
      { excludeFields: ['rank'], queries: [{ ...select, orderBy: { from: '{{query.sort}}', allow: ['title', 'rank'] } }] },
      '/routes/0/queries/0/pagination: a cursor reveals the values of the order and of the primary key of "notes", so every record must include them: add "rank" to `select`, or remove "rank" from `excludeFields`'
    ],
    [
      {
        queries: [{ ...select, order: { column: 'rank' } }],
        response: { type: 'array', items: { type: 'object', properties: { id: {} } } }
      },
      '/routes/0/response: the cursor of the list reveals the values of rank, which the response omits: add them to `properties`, or order by other columns'
    ],
    [
      {
        queries: [{ ...select, order: { column: 'rank' } }],
        transform: { fields: { title: "'T: ' + item.title" }, operations: [{ type: 'compute', fields: { rank: '0' } }] }
      },
      '/routes/0/transform: the cursor of the list reveals the values of rank, which the transform replaces: give its field another name, or order by other columns'
    ],
    [
      { queries: [select, { ...select, alias: 'other' }] },
      '/routes/0/queries/0/pagination: the query string of a route can have only one `cursor`: use it in a route with one query'
    ]
  ]
  for (const [route, expected] of cases) {
    const started = testServer(t, { tables, routes: [{ method: 'get', path: '/x', ...route }] })
    const error: unknown = await started.then(() => undefined, (reason: unknown) => reason)
    t.ok(error instanceof ConfigError)
    if (error instanceof ConfigError) t.equal(formatFault(error.faults[0]!), expected)
  }
})
