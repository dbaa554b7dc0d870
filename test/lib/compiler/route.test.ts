import { isDeepStrictEqual } from 'node:util'
import { test } from 'tap'
import { compileConnectors } from '../../../lib/connectors/index.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { Query } from '../../../lib/schema/query.js'
import type { Route } from '../../../lib/schema/route.js'
import { onSql, scopeOf } from '../queries/helpers.js'
import { catalogueOf, table } from '../queries/tables.js'
import { compile, documented, faultsOf } from './routes.js'

const list: Route = { path: '/articles', method: 'get', queries: [{ table: 'articles', operation: 'select' }] }

test('a route is compiled to frozen data without a server', async (t) => {
  const declared: Route = {
    path: '/authors/:author/articles/:id',
    method: 'PATCH',
    description: 'Change an article',
    tags: ['Articles'],
    requiredPermissions: ['articles:write'],
    public: false,
    rateLimit: { max: 5, windowMs: 1000 },
    queries: [{ table: 'articles', operation: 'update', id: '{{params.id}}' }]
  }
  const route = compile(declared)
  t.match(route, {
    method: 'PATCH',
    requireAuth: true,
    publicTenant: false,
    permissions: ['articles:write'],
    rateLimit: { max: 5, windowMs: 1000 },
    cache: null,
    queries: [{ key: 'articles', table: 'articles', write: true, resultKind: 'record', missing: 'notFound' }],
    tenantScoped: true,
    transaction: false,
    readsResults: false,
    status: 200,
    transform: null,
    response: null
  })
  const documentation = documented(declared)
  t.match(documentation, {
    summary: 'Change an article',
    tags: ['Articles'],
    params: { properties: { author: { type: 'string' }, id: { type: 'string' } } }
  })
  for (const part of [route, route.request, route.queries, route.permissions, documentation, ...route.queries]) t.ok(Object.isFrozen(part))
  const bound = onSql(route.queries[0]!).bind(scopeOf({ params: { id: '00000000-0000-4000-8000-000000000001' }, body: { title: 'x' } }))
  t.match(bound.statement.text, /^with|^update/)
})

test('the same route and tables compile to the same data', async (t) => {
  const plain = (route: Route) => JSON.parse(JSON.stringify(compile(route)))
  t.ok(isDeepStrictEqual(plain(list), plain(list)))
  t.match(plain(list), { method: 'GET', queries: [{ key: 'articles' }] })
  t.match(documented(list), { summary: 'GET /articles', response: { 200: { type: 'object' } } })
})

test("a route's missing members have defaults", async (t) => {
  t.match(compile(list), {
    requireAuth: false,
    publicTenant: true,
    permissions: { length: 0 },
    rateLimit: null,
    cache: null,
    status: 200,
    tenantScoped: true
  })
  t.match(compile({ path: '/plain', method: 'get', response: { ok: true } }), { queries: { length: 0 }, tenantScoped: false, transaction: false })
  t.equal(compile({ path: '/countries', method: 'get', queries: [{ table: 'countries', operation: 'select' }] }).tenantScoped, false)
})

test('several queries that include a write run in one transaction', async (t) => {
  const read = { table: 'countries', operation: 'select' } as const
  const write = { table: 'articles', operation: 'insert', data: { title: 'x' } } as const
  t.equal(compile({ path: '/x', method: 'post', queries: [write] }).transaction, false, 'a single statement needs no explicit transaction')
  t.equal(compile({ path: '/x', method: 'get', queries: [read, { ...read, alias: 'again' }] }).transaction, false)
  const both = compile({ path: '/x', method: 'post', queries: [read, write] })
  t.match(both, { transaction: true, status: 200, readsResults: false })
  t.equal(compile({ path: '/x', method: 'post', queries: [write] }).status, 201)
  t.equal(
    compile({
      path: '/x',
      method: 'post',
      queries: [write, { table: 'articles', operation: 'insert', alias: 'copy', data: { title: '{{results.articles.title}}' } }]
    }).readsResults,
    true
  )
})

test('a template that reads a member which no result has is a fault with the nearest name', async (t) => {
  const select = 'id, title, meta, author:authors(name)'
  const queries: Route['queries'] = [
    { table: 'articles', operation: 'select', alias: 'page', select },
    { table: 'articles', operation: 'select', alias: 'one', id: '{{params.id}}', select, excludeFields: ['title'] }
  ]
  const route = (response: unknown, changes: Partial<Route> = {}): Route => ({ path: '/a/:id', method: 'get', queries, response, ...changes })
  const wrong = {
    'page.dta': ['dta', 'data, pagination', 'data'],
    'page.pagination.totl': ['totl', 'limit, offset, total', 'total'],
    'page.data[0].titel': ['titel', 'id, title, meta, author', 'title'],
    'page.data[0].author.nme': ['nme', 'name', 'name'],
    'one.mta': ['mta', 'id, meta, author', 'meta']
  }
  for (const [path, [name, known, meant]] of Object.entries(wrong)) {
    const expected = `/routes/0/response/x: \`results.${path}\`: the result has no member "${name}" there: expected one of ${known}, did you mean "${meant}"?`
    for (const text of [`{{results.${path}}}`, `{{results.${path} || 1}}`]) t.strictSame(faultsOf(route({ x: text })), [expected], text)
  }
  t.match(faultsOf(route({ x: '{{results.page.data.id}}' })), [/a list has no member "id": write the index of an item, such as `\[0\]`$/])
  const known = ['page', 'page.data', 'page.data[0].meta.any.thing', 'page.pagination.total', 'one.id', 'one.title', 'one.author.name']
  for (const path of known) t.strictSame(faultsOf(route({ x: `{{results.${path}}}` })), [], path)

  const later: Route['queries'] = [...queries, { table: 'reviews', operation: 'select', filters: [{ column: 'article_id', value: '{{results.one.idd}}' }] }]
  t.match(faultsOf(route(undefined, { queries: later })), [/^\/routes\/0\/queries\/2\/filters\/0\/value: .*"idd" there.*did you mean "id"/])
  const created: Route['queries'] = [{ table: 'articles', operation: 'insert' }]
  for (const path of ['id', 'data[0].id']) {
    t.strictSame(faultsOf({ path: '/a', method: 'post', queries: created, response: { x: `{{results.articles.${path}}}` } }), [], path)
  }
})

test('a template of a later query, condition, call or message that reads an excluded field of a result is a fault', async (t) => {
  const reason = (name: string) => `callers without full access have no "${name}" here, because of \`excludeFields\`: omit it by \`response\` instead`
  const select = 'id, title, meta, author:authors(name)'
  const one: Query = { table: 'articles', operation: 'select', alias: 'one', id: '{{params.id}}', select }
  const page: Query = { table: 'articles', operation: 'select', alias: 'page', select, excludeFields: ['title'] }
  const route = (changes: Partial<Route>): Route => ({ path: '/a/:id', method: 'post', excludeFields: ['name'], ...changes })
  const filtered = (value: string): Query => ({ table: 'articles', operation: 'select', alias: 'found', filters: [{ column: 'title', value }] })
  const connectors = compileConnectors({}, { origin: 'platform', env: {}, faults: new FaultList() })
  const call = { type: 'http', action: 'request' }
  const cases: [Partial<Route>, string, string][] = [
    [{ queries: [one, filtered('{{results.one.author.name}}')] }, '/queries/1/filters/0/value: `results.one.author.name`', 'name'],
    [{ queries: [page, filtered('{{results.page.data[0].title || 1}}')] }, '/queries/1/filters/0/value: `results.page.data.0.title`', 'title'],
    [
      { queries: [{ ...one, excludeFields: ['title'] }, { table: 'articles', operation: 'insert', data: { title: 'of {{results.one.title}}' } }] },
      '/queries/1/data/title: `results.one.title`',
      'title'
    ],
    [
      { queries: [one], integrations: [{ ...call, params: { url: 'https://example.com', query: { a: '{{results.one.author.name}}' } } }] },
      '/integrations/0/params/query/a: `results.one.author.name`',
      'name'
    ],
    [
      { queries: [page], integrations: [{ ...call, params: { url: 'https://example.com' }, condition: 'results.page.data[0].title == "x"' }] },
      '/integrations/0/condition: `results.page.data.0.title`',
      'title'
    ],
    [
      { queries: [page], integrations: [{ ...call, params: { url: 'https://example.com' }, condition: '{{results.page.data}}[0].title == "x"' }] },
      '/integrations/0/condition: `results.page.data.0.title`',
      'title'
    ],
    [{ queries: [page], realtime: { room: 'a', data: '{{results.page.data[0].title}}' } }, '/realtime/data: `results.page.data.0.title`', 'title'],
    [
      {
        firebaseQueries: [
          { collection: 'notes', operation: 'get', docId: '{{params.id}}', alias: 'note', excludeFields: ['owner'] },
          { collection: 'copies', operation: 'create', data: { owner: '{{results.note.owner}}' } }
        ],
        excludeFields: []
      },
      '/firebaseQueries/1/data/owner: `results.note.owner`',
      'owner'
    ]
  ]
  for (const [changes, at, name] of cases) {
    const faults = faultsOf(route(changes), { connectors })
    t.strictSame(faults.map((fault) => fault.replace('[0]', '.0')), [`/routes/0${at}: ${reason(name)}`], at)
  }

  const shown = { response: { a: '{{results.one.author.name}}', b: '{{results.page.data[0].title}}' } }
  t.strictSame(faultsOf(route({ queries: [one, page], ...shown })), [], '`response` may read them')
  t.strictSame(faultsOf(route({ queries: [one, page], transform: { fields: { x: 'result.page.data[0].title' } } })), [], '`transform` too')
  const meta = { ...one, excludeFields: ['title'] }
  t.strictSame(faultsOf(route({ queries: [meta, filtered('{{results.one.meta.title}}')] })), [], 'a member within a JSON column is not excluded')
  t.strictSame(faultsOf(route({ queries: [one, { table: 'articles', operation: 'insert', data: { meta: '{{results.one}}' } }] })), [], 'a whole result')
})

test('an excluded column under another name is an excluded field too', async (t) => {
  const named: Query = { table: 'articles', operation: 'select', alias: 'one', id: '{{params.id}}', select: 'id, name:title', excludeFields: ['title'] }
  const route = (changes: Partial<Route>, ...later: Query[]): Route => ({ path: '/a/:id', method: 'post', queries: [named, ...later], ...changes })
  t.strictSame(faultsOf(route({ response: { a: '{{results.one.name}}' } })), [], '`response` may read it')
  t.strictSame(faultsOf(route({ transform: { fields: { x: 'item.name' } } })), [], '`transform` too')
  const copy: Query = { table: 'articles', operation: 'insert', data: { title: '{{results.one.name}}' } }
  t.match(faultsOf(route({}, copy)), [/`results.one.name`: callers without full access have no "name" here/])
})

test('a computed field that reads a member which no result has is a fault', async (t) => {
  const route = (fields: Record<string, string>, response?: unknown): Route => ({
    ...list,
    queries: [{ table: 'articles', operation: 'select', select: 'id, author:authors(name)' }],
    transform: { fields },
    response
  })
  t.match(faultsOf(route({ x: 'result.pagination.totl + 1' })), [/^\/routes\/0\/transform\/fields\/x: `result.pagination.totl`: .*did you mean "total"/])
  t.match(faultsOf(route({ x: 'item.author.nme' })), [/`item.author.nme`: .*did you mean "name"/])
  const computed = { pages: 'result.pagination.total / 20', size: 'size(item.author.name)', twice: 'item.size * 2' }
  t.strictSame(faultsOf(route(computed, { pages: '{{results.articles.pages}}', size: '{{results.articles.data[0].size}}' })), [])
  t.match(faultsOf(route(computed, { pages: '{{results.articles.page}}' })), [/no member "page"/])
})

test("a cached route has a time to live in ms, its own or the document's", async (t) => {
  t.equal(compile({ ...list, cache: { enabled: true, ttl: 5 } }).cache?.ttlMs, 5000)
  t.equal(compile({ ...list, cache: { enabled: true } }).cache?.ttlMs, 60_000)
  t.equal(compile({ ...list, cache: { enabled: true } }, { cache: { enabled: false, ttl: 60 } }).cache, null)
  t.equal(compile({ ...list, cache: { enabled: false } }).cache, null)
})

test('all faults of a route are reported together, and the route is not compiled', async (t) => {
  const faults = faultsOf({
    ...list,
    queries: [{ table: 'artcles', operation: 'select' }],
    request: { params: { id: { type: 'string' } } },
    transform: { fields: { x: 'item.' } },
    response: { y: '{{qurey.y}}' }
  })
  for (
    const pointer of ['/routes/0/queries/0/table', '/routes/0/request/params/id', '/routes/0/transform/fields/x', '/routes/0/response/y']
  ) {
    t.ok(faults.some((fault) => fault.startsWith(pointer)), `${pointer} in ${faults.join('; ')}`)
  }
})

test('a route is validated against the tables it is compiled with', async (t) => {
  const catalogue = catalogueOf(table('notes', ['id integer!', 'text text']))
  const notes: Route = { path: '/notes', method: 'get', queries: [{ table: 'notes', operation: 'select' }] }
  t.match(faultsOf(notes), [/there is no table "notes"/])
  t.match(documented(notes, { catalogue }).response[200], {
    properties: { data: { items: { properties: { id: { type: 'integer' }, text: { type: ['string', 'null'] } } } } }
  })
  t.match(faultsOf({ ...list, excludeFields: ['titel'] }), [/excludeFields\/0.*title/])
  t.match(faultsOf({ ...list, queries: [list.queries![0]!, list.queries![0]!] }), [/two queries have the result name "articles"/])
})

test('excludeFields of documents names fields at the top level', async (t) => {
  const expected = 'expected the name of a top-level field of the documents'
  const docs: NonNullable<Route['firebaseQueries']>[number] = { collection: 'docs', operation: 'query' }
  const of = (more: Partial<Route>): string[] => faultsOf({ path: '/docs', method: 'get', firebaseQueries: [docs], ...more })
  t.same(of({ firebaseQueries: [{ ...docs, excludeFields: ['owner', 'owner.ssn', 'a-b', '', '2fa_secret', 'first name', 'größe'] }] }), [
    `/routes/0/firebaseQueries/0/excludeFields/1: "owner.ssn" is not a valid field: ${expected}`,
    `/routes/0/firebaseQueries/0/excludeFields/3: "" is not a valid field: ${expected}`
  ])
  t.same(of({ excludeFields: ['id', 'owner.ssn'] }), [`/routes/0/excludeFields/1: "owner.ssn" is not a valid field: ${expected}`])
  const mixed = { firebaseQueries: [docs], queries: [{ table: 'notes', operation: 'select' } as const] }
  const catalogue = catalogueOf(table('notes', ['id integer!', 'text text']))
  t.same(faultsOf({ path: '/both', method: 'get', ...mixed, excludeFields: ['owner', 'id'] }, { catalogue }), [])
  t.same(faultsOf({ path: '/both', method: 'get', ...mixed, excludeFields: ['owner.ssn'] }, { catalogue }), [
    `/routes/0/excludeFields/0: "owner.ssn" is not a valid field: ${expected}`
  ])
})

test('a template that reads a field which the request rules do not allow is a fault with the nearest name', async (t) => {
  const writing = (data: unknown, request: Route['request']): Route => ({
    path: '/articles',
    method: 'post',
    request,
    queries: [{ table: 'articles', operation: 'insert', data }]
  })
  const body = { title: { type: 'string' } } as const
  const expected = '/routes/0/queries/0/data/title: the request has no `body.titel`, because its `body` rules do not declare "titel", did you mean "title"?'
  for (const text of ['{{body.titel}}', "no. {{body.titel || 'x'}}"]) t.strictSame(faultsOf(writing({ title: text }, { body })), [expected], text)
  t.strictSame(faultsOf(writing({ title: '{{body.title}}' }, { body })), [])
  t.strictSame(faultsOf(writing({ title: '{{body.titel}}' }, { body, additionalFields: true })), [], 'additional fields are allowed')
  t.strictSame(faultsOf(writing({ title: '{{body.titel}}' }, undefined)), [], 'no rules')

  const query = { search: { type: 'string' } } as const
  const ordered = (response: unknown): Route => ({
    path: '/articles',
    method: 'get',
    request: { query },
    queries: [{ table: 'articles', operation: 'select', orderBy: { from: '{{query.sort}}', allow: ['title'] } }],
    response
  })
  t.strictSame(faultsOf(ordered({ by: '{{query.sort}}', at: '{{query.limit}}' })), [], 'fields that the list declares')
  t.match(faultsOf(ordered({ by: '{{query.serch}}' })), [/no `query\.serch`.*did you mean "search"/])
})

test('an array is accepted as a body only if each item becomes a record', async (t) => {
  const rules = { body: { title: { type: 'string', required: true } } } as const
  const refuses = (query: object) => {
    const { request } = compile({
      path: '/x',
      method: 'post',
      request: rules,
      queries: [{ table: 'articles', operation: 'insert', ...query }]
    })
    try {
      request.validate({ params: {}, query: {}, body: [{ title: 'x' }] })
      return false
    } catch {
      return true
    }
  }
  t.equal(refuses({}), false)
  t.equal(refuses({ data: '{{body}}' }), false)
  t.equal(refuses({ single: true }), true, 'one record')
  t.equal(refuses({ data: { title: '{{body.title}}' } }), true)
})

test('an expression that reads a field which the request rules do not allow is a fault with the nearest name', async (t) => {
  const rules: Route['request'] = {
    query: { verbose: { type: 'boolean' } },
    body: {
      quantity: { type: 'integer' },
      owner: { type: 'object', properties: { email: { type: 'string' } } },
      box: { type: 'object', properties: {}, additionalFields: true },
      tags: { type: 'array', items: { type: 'string' } }
    }
  }
  const reading = (text: string, request = rules): Route => ({
    path: '/articles',
    method: 'post',
    request,
    queries: list.queries,
    transform: { fields: { x: text } }
  })
  for (
    const [text, message] of [
      ['body.quantty', /no `body\.quantty`.*"quantty".*did you mean "quantity"/],
      ['body["quantty"] > 1', /quantity/],
      ['has(body.quantty)', /quantity/],
      ['{{body.quantty}} > 1', /quantity/],
      ['body.owner.mail', /no `body\.owner\.mail`.*did you mean "email"/],
      ['query.verbos', /did you mean "verbose"/],
      ['[1].map(x, body.quantty)', /quantity/]
    ] as const
  ) t.match(faultsOf(reading(text)), [message], text)
  for (
    const text of [
      'body.quantity',
      'body.owner.email',
      'body.box.anything.at.all',
      'body.tags[0]',
      'size(body.tags)',
      'body[0].quantity',
      'query.verbose',
      'query.limit',
      'body',
      'params'
    ]
  ) {
    t.strictSame(faultsOf(reading(text)), [], text)
  }
  t.match(
    faultsOf({
      path: '/articles',
      method: 'post',
      request: rules,
      workflow: { steps: [{ id: 'a', type: 'database', operation: 'select', table: 'articles', condition: 'body.quantty > 1' }] }
    }),
    [/workflow.*did you mean "quantity"/],
    'a step of an inline workflow'
  )
  t.strictSame(faultsOf(reading('body.other + query.other', { ...rules, additionalFields: true })), [], 'additional fields are allowed')
  t.strictSame(faultsOf(reading('body.other + query.verbose', { query: rules?.query })), [], 'a part without rules')
})
