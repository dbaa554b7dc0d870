import { Validator } from '@seriousme/openapi-schema-validator'
import { test } from 'tap'
import type { Route } from '../../../lib/schema/route.js'
import { composeDocument } from '../../../plugins/openapi/document.js'
import { compile, documented } from './routes.js'

const path = '/articles'
const uuid = '00000000-0000-4000-8000-000000000001'
const list: Route = { path, method: 'get', queries: [{ table: 'articles', operation: 'select', select: 'id, title' }] }
const one: Route = { path, method: 'get', queries: [{ table: 'articles', operation: 'select', select: 'id, title', id: uuid }] }
const insert: Route = { path, method: 'post', queries: [{ table: 'articles', operation: 'insert', select: 'id, title' }] }
const deletion: Route = { path, method: 'delete', queries: [{ table: 'articles', operation: 'delete', id: uuid }] }

const id = { type: 'string', format: 'uuid' }
const record = { type: 'object', properties: { id, title: { type: 'string' } }, required: ['id', 'title'] }
const pagination = {
  type: 'object',
  properties: { limit: { type: 'integer' }, offset: { type: 'integer' }, total: { type: 'integer' } },
  required: ['limit', 'offset', 'total']
}
const pageOf = (items: object) => ({
  type: 'object',
  properties: { data: { type: 'array', items }, pagination },
  required: ['data', 'pagination']
})
const recordsOf = (items: object) => ({ type: 'object', properties: { data: { type: 'array', items } }, required: ['data'] })

/** The response schema, without the description of the status. */
function replyOf (route: Route): object {
  const { description: _, ...schema } = documented(route).response[compile(route).status] ?? {}
  return schema
}

const bodyOf = (route: Route) => documented(route).body

test('a response is documented in the form of its query', async (t) => {
  t.strictSame(replyOf(list), pageOf(record))
  t.strictSame(replyOf(one), record)
  t.match(replyOf(deletion), { properties: { success: { type: 'boolean' }, softDeleted: { type: 'boolean' } }, required: ['success'] })
  const [query] = list.queries ?? []
  t.strictSame(replyOf({ path, method: 'get', queries: [{ ...query!, alias: 'all' }, { ...one.queries![0]!, alias: 'one' }] }), {
    type: 'object',
    properties: { all: pageOf(record), one: record },
    required: ['all', 'one']
  })
})

test('a creating write returns one record, or `data` with many', async (t) => {
  t.equal(compile(insert).status, 201)
  t.strictSame(replyOf(insert), { anyOf: [record, recordsOf(record)] })
  const change = (members: object): Route => ({ ...insert, queries: [{ ...insert.queries![0]!, ...members }] })
  t.strictSame(replyOf(change({ operation: 'upsert' })), { anyOf: [record, recordsOf(record)] })
  t.strictSame(replyOf(change({ single: true })), record, 'not if it accepts one record')
  t.strictSame(replyOf(change({ data: { title: '{{body.title}}' } })), record, 'nor if its data is one record')
  t.strictSame(replyOf({ path, method: 'post', firebaseQueries: [{ collection: 'notes', operation: 'add' }] }), {
    anyOf: [1, 2].map((form) => {
      const note = { type: 'object', properties: { id: { type: 'string' } }, required: ['id'], additionalProperties: true }
      return form === 1 ? note : recordsOf(note)
    })
  })
})

test('a response schema describes each record of a list, and the envelope stays', async (t) => {
  const title = { type: 'object', properties: { title: { type: 'string' } } }
  const array = { type: 'array', items: title }
  t.strictSame(replyOf({ ...list, response: title }), pageOf(title))
  t.strictSame(replyOf({ ...list, response: array }), pageOf(title))
  t.strictSame(replyOf({ ...list, response: title, transform: { fields: { all: 'result.pagination.total' } } }), pageOf(title))
  t.strictSame(replyOf({ ...one, response: title }), title)
  t.strictSame(replyOf({ ...one, response: array }), title, 'a record is not an array')
  t.strictSame(replyOf({ ...insert, response: title }), { anyOf: [title, recordsOf(title)] })
  const envelope = { type: 'object', properties: { data: array } }
  t.strictSame(replyOf({ ...list, response: envelope }), envelope, 'a schema of the envelope describes the whole response')
})

test('a mapping is documented by its members', async (t) => {
  const response = {
    ok: true,
    version: 2,
    kind: 'articles',
    nothing: null,
    all: '{{results.articles}}',
    rows: '{{results.articles.data}}',
    unknown: '{{results.articles.data || 1}}',
    caller: '{{auth.sub}}',
    nested: { text: 'by {{auth.sub}}' },
    list: [1]
  }
  t.strictSame(replyOf({ ...list, response }), {
    type: 'object',
    properties: {
      ok: { type: 'boolean' },
      version: { type: 'number' },
      kind: { type: 'string' },
      nothing: { type: 'null' },
      all: pageOf(record),
      rows: { type: 'array', items: record },
      unknown: {},
      caller: {},
      nested: { type: 'object', properties: { text: {} } },
      list: { type: 'array' }
    },
    required: ['ok', 'version', 'kind', 'nothing', 'nested', 'list']
  })
  t.strictSame(replyOf({ path, method: 'get', response: '{{query.q}}' }), {})
})

test('a mapping that is one template may be null where the result may lack the value', async (t) => {
  const withAuthor: Route = {
    path,
    method: 'get',
    queries: [{ table: 'articles', operation: 'select', select: 'id, author:authors(name)', id: uuid }]
  }
  const name = { type: 'string' }
  const author = { type: 'object', properties: { name }, required: ['name'] }
  const embedded = { ...author, type: ['object', 'null'] }
  const ofAuthor = (response: unknown) => replyOf({ ...withAuthor, response })
  t.strictSame(ofAuthor('{{results.articles.author.name}}'), { anyOf: [name, { type: 'null' }] }, 'of an embedded record that may be null')
  t.strictSame(ofAuthor('{{results.articles.author}}'), embedded)
  t.strictSame(ofAuthor('{{results.articles.id}}'), id)
  t.strictSame(ofAuthor('{{results.articles}}'), { type: 'object', properties: { id, author: embedded }, required: ['id', 'author'] })
  t.strictSame(ofAuthor({ name: '{{results.articles.author.name}}' }), { type: 'object', properties: { name } }, 'a member is left out')
  const computed: Route = { ...withAuthor, transform: { fields: { kind: 'item.id' } }, response: '{{results.articles.kind}}' }
  t.strictSame(replyOf(computed), {}, 'a computed field has any type')
})

test('computed fields are documented where they are added', async (t) => {
  const transform = { fields: { shout: 'item.title + "!"', count: 'result.data.size()' } }
  const shouted = { ...record, properties: { ...record.properties, shout: {} }, required: ['id', 'title', 'shout'] }
  const page = pageOf(shouted)
  t.strictSame(replyOf({ ...list, transform }), {
    ...page,
    properties: { ...page.properties, count: {} },
    required: ['data', 'pagination', 'count']
  })
  t.strictSame(replyOf({ ...one, transform: { operations: [{ type: 'compute', fields: { shout: 'item.title + "!"' } }] } }), shouted)
  t.match(replyOf({ ...list, transform, response: { rows: '{{results.articles.data}}' } }), {
    properties: { rows: { type: 'array', items: shouted } }
  })
})

test('a write documents the columns that it accepts from the body', async (t) => {
  const body = Object(bodyOf(insert))
  const [row, rows] = body.anyOf
  t.strictSame(rows, { type: 'array', items: row, maxItems: 1000 })
  t.equal(row.additionalProperties, false)
  t.strictSame(row.required, ['title'], 'columns that are not null and have no default')
  t.strictSame(row.properties.views, { type: 'integer' })
  t.strictSame(row.properties.slug, { type: ['string', 'null'] })
  t.notOk('tenant_id' in row.properties, 'the tenant comes from the request')
  t.notOk('title_length' in row.properties, 'generated columns are not accepted')

  t.notOk(
    'title' in
      Object(bodyOf({ ...insert, excludeFields: ['title'], queries: [{ table: 'articles', operation: 'insert' }] })).anyOf[0].properties,
    'excluded fields are not documented'
  )
  const update = Object(bodyOf({ path, method: 'patch', queries: [{ table: 'articles', operation: 'update', id: uuid }] }))
  t.strictSame(update.properties, row.properties)
  t.notOk('required' in update)
  t.strictSame(
    Object(bodyOf({ path, method: 'post', queries: [{ table: 'articles', operation: 'insert', single: true }] })),
    row,
    'one record'
  )
  t.notOk(
    'required' in
      Object(
        bodyOf({
          path,
          method: 'put',
          queries: [{
            table: 'articles',
            operation: 'upsert',
            onConflict: ['slug'],
            filters: [{ column: 'slug', value: 'x' }, { column: 'title', value: 'x' }]
          }]
        })
      ).anyOf[0],
    'columns that the query itself sets'
  )
})

test('a body that no rules describe is documented by the members that templates read, and is optional', async (t) => {
  const select: Route = { ...list, method: 'post', queries: [{ ...list.queries![0]!, filters: [{ column: 'title', value: '{{body.t}}' }] }] }
  const step = { id: 'find', type: 'database', operation: 'select', table: 'articles', limit: '{{query.n}}' } as const
  const run = (condition: string, input?: object): Route =>
    ({ path, method: 'post', workflow: { steps: [{ ...step, condition }], ...input !== undefined && { input } } })
  const read = (...names: string[]) => ({ type: 'object', properties: Object.fromEntries(names.map((name) => [name, {}])) })
  for (
    const [route, body] of [
      [select, read('t')],
      [{ path, method: 'post', response: { a: '{{body.a}}', b: '{{body.b.c}}', again: '{{body.a}}' } }, read('a', 'b')],
      [{ path, method: 'post', response: { all: '{{body}}' } }, {}],
      [run('input.a == 1 || body.b == 2'), read('a', 'b')],
      [run('input.a == body.b', { a: '{{query.q}}' }), read('b')]
    ] as const
  ) t.match(documented(route), { body, bodyOptional: true })
  t.strictSame(Object(documented(run('true')).querystring).properties, { n: { type: 'string' } }, 'steps of workflows read the query string too')
  const form: Route = { path, method: 'post', requireAuth: true, multipart: true, response: { t: '{{body.t}}', file: '{{files.file.id}}' } }
  t.strictSame(bodyOf(form), { type: 'object', properties: { t: {}, file: { type: 'string', format: 'binary' } } })
  for (const route of [{ path, method: 'post', response: {} }, { path, method: 'get', response: { a: '{{body.a}}' } }, deletion] as const) {
    t.notOk('body' in documented(route))
  }
})

test('data that names its columns documents the fields that its templates read', async (t) => {
  const data = {
    title: '{{body.name}}',
    slug: '{{body.meta.slug}}',
    meta: { by: '{{body.meta.by}}' },
    status: 'is {{body.status || "new"}}',
    author_id: '{{auth.sub}}',
    views: 1
  }
  t.strictSame(bodyOf({ ...insert, queries: [{ table: 'articles', operation: 'insert', data }] }), {
    type: 'object',
    properties: {
      name: { type: 'string' },
      meta: { type: 'object', properties: { slug: { type: ['string', 'null'] }, by: {} } },
      status: {}
    },
    required: ['name']
  })
  t.equal(
    bodyOf({ ...insert, queries: [{ table: 'articles', operation: 'insert', data: { title: 'x' } }] }),
    undefined,
    'the body is not read'
  )
  t.match(bodyOf({ ...insert, queries: [{ table: 'articles', operation: 'insert', data: '{{body.items}}' }] }), {
    type: 'object',
    properties: { items: { anyOf: [{ required: ['title'] }, { type: 'array' }] } },
    required: ['items']
  })
})

test('`request` rules document the body, and a route that only reads has no body', async (t) => {
  const rules = { title: { type: 'string', required: true, maxLength: 5 } } as const
  const ruled = Object(bodyOf({ ...insert, request: { body: rules } }))
  t.match(ruled, { anyOf: [{ properties: { title: { type: 'string', maxLength: 5 } } }, { type: 'array' }] })
  t.match(
    bodyOf({ ...insert, request: { query: { q: { type: 'string' } } } }),
    { anyOf: [{ required: ['title'] }, {}] },
    'rules of another part'
  )
  t.equal(bodyOf(list), undefined)
  t.equal(bodyOf(deletion), undefined)
  t.match(bodyOf({ path, method: 'post', firebaseQueries: [{ collection: 'notes', operation: 'add' }] }), {
    anyOf: [{ type: 'object', additionalProperties: true }, { type: 'array' }]
  })
  t.match(bodyOf({ path, method: 'post', queries: [{ ...insert.queries![0]!, alias: 'a' }, { ...insert.queries![0]!, alias: 'b' }] }), {
    allOf: [{}, {}]
  }, 'two queries that accept the body')
})

test('the documented errors follow from the parts of a route', async (t) => {
  t.strictSame(documented(list).errors, [400, 401, 429, 500, 503])
  t.strictSame(documented({ ...list, requireAuth: true, resourceLimit: { resource: 'llm', metric: 'tokens' } }).errors, [
    400,
    401,
    'resourceLimit',
    403,
    409,
    429,
    500,
    503
  ])
  t.strictSame(
    documented({ path, method: 'get', response: { ok: true } }).errors,
    [400, 401, 429, 500, 503],
    'a route without queries also waits for a migration'
  )
  t.strictSame(documented({ path, method: 'post', response: { ok: true } }).errors, [400, 401, 413, 415, 429, 500, 503])
  t.strictSame(documented({ ...deletion, requireAuth: true }).errors, [400, 401, 403, 404, 409, 413, 415, 429, 500, 503])
  t.strictSame(
    documented({ ...list, transform: { fields: { shout: 'item.title' } } }).errors,
    [400, 401, 422, 429, 500, 503],
    'an expression may exceed its budget'
  )
})

test('the whole document is valid OpenAPI 3.1', async (t) => {
  const routes: Route[] = [
    list,
    insert,
    deletion,
    { ...one, path: '/one', response: { type: 'object', properties: { title: { type: 'string' } } } },
    { ...list, path: '/mapped', response: { rows: '{{results.articles.data}}', nothing: null } },
    {
      ...insert,
      path: '/two',
      queries: [{ ...insert.queries![0]!, alias: 'a' }, { ...insert.queries![0]!, alias: 'b', data: { title: '{{body.a.b}}' } }]
    },
    { ...list, path: '/computed', transform: { fields: { shout: 'item.title' } } },
    { path: '/docs/:id', method: 'put', firebaseQueries: [{ collection: 'notes', operation: 'set', docId: '{{params.id}}' }] }
  ]
  const document = JSON.parse(
    composeDocument({
      shell: { openapi: '3.1.0', info: { title: 'x', version: '1' } },
      replaced: new Set(),
      routes: routes.map((route) => ({
        methods: [compile(route).method],
        url: route.path,
        config: { access: 'open', openapi: documented(route) },
        schema: undefined
      })),
      schemas: {},
      tenancy: true,
      idempotency: true
    }).text
  )
  const { valid, errors } = await new Validator().validate(document)
  t.ok(valid, JSON.stringify(errors))
  t.match(document.paths['/articles'].get.security, [{}, { bearer: { length: 0 } }], 'an optional token is documented')
})
