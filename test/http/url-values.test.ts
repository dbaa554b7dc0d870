/** Values of a query string: all forms of lists, and texts for columns without a JSON type. */
import { test } from 'tap'
import type { TestDocument } from '../helpers/server.js'
import { testServer } from '../helpers/server.js'
import { type Ask, caller, refused } from './caller.js'

const order = { column: 'id' }
type Operator = 'eq' | 'neq' | 'gt' | 'gte' | 'in' | 'contains' | 'overlaps'
const filter = (column: string, operator: Operator, name: string) =>
  ({ column, operator, value: `{{query.${name}}}`, optional: true }) as const
const document: TestDocument = {
  tables: {
    it: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, tags: { type: 'text[]' }, extra: { type: 'jsonb' } } }
  },
  routes: [
    { method: 'post', path: '/it', queries: [{ table: 'it', operation: 'insert' }] },
    {
      method: 'get',
      path: '/it',
      queries: [{
        table: 'it',
        operation: 'select',
        order,
        filters: [filter('id', 'in', 'ids'), filter('tags', 'overlaps', 'tags'), filter('extra', 'contains', 'extra')]
      }]
    },
    {
      method: 'get',
      path: '/declared',
      request: {
        query: {
          ids: { type: 'array', items: { type: 'integer' } },
          tags: { type: 'array', items: { type: 'string' } },
          extra: { type: 'string' }
        }
      },
      queries: [{
        table: 'it',
        operation: 'select',
        order,
        filters: [filter('id', 'in', 'ids'), filter('tags', 'overlaps', 'tags'), filter('extra', 'contains', 'extra')]
      }]
    },
    { method: 'put', path: '/docs/:id', firebaseQueries: [{ collection: 'docs', operation: 'set', docId: '{{params.id}}' }] },
    {
      method: 'get',
      path: '/docs',
      firebaseQueries: [{
        collection: 'docs',
        operation: 'query',
        filters: [
          filter('n', 'gte', 'min'),
          filter('n', 'eq', 'n'),
          filter('zip', 'eq', 'zip'),
          filter('n', 'neq', 'not'),
          filter('n', 'in', 'list'),
          filter('flag', 'eq', 'flag'),
          filter('o', 'contains', 'o'),
          { not: filter('n', 'gt', 'notOver') }
        ]
      }]
    },
    {
      method: 'get',
      path: '/docs/declared',
      request: {
        query: {
          min: { type: 'number' },
          zip: { type: 'string' },
          over: { type: 'string' },
          list: { type: 'array', items: { type: 'string' } }
        }
      },
      firebaseQueries: [{
        collection: 'docs',
        operation: 'query',
        filters: [filter('n', 'gte', 'min'), filter('zip', 'eq', 'zip'), filter('n', 'gt', 'over'), filter('n', 'in', 'list')]
      }]
    }
  ]
}

test('values of a query string', async (t) => {
  const app = await testServer(t, document, { tenants: ['one', 'two'] })
  const ask = caller(t, app, { tenant: 'one' })
  const ids = async (target: string, by: Ask = ask) => (await by(`GET ${target}`)).body.data?.map(({ id }) => id)
  await ask('POST /it', {
    body: [{ id: 1, tags: ['a'], extra: { a: 1 } }, { id: 2, tags: ['b'], extra: { a: '1' } }, { id: 3, tags: ['c'], extra: ['red', 7] }, {
      id: 4,
      extra: 'red'
    }]
  })
  const docs = {
    d1: { n: 5, zip: '12345' },
    d2: { n: 7, zip: 12345, flag: true },
    d3: { n: '9', flag: 'true', o: { a: { b: 1 } } },
    d4: { o: ['x'] }
  }
  for (const [id, body] of Object.entries(docs)) await ask(`PUT /docs/${id}`, { body })
  await caller(t, app, { tenant: 'two' })('PUT /docs/other', { body: { n: 8 } })

  await t.test('a list is a text with commas, a repeated parameter, or both; whether or not it is declared as an array', async (t) => {
    for (const path of ['/it', '/declared']) {
      for (const query of ['ids=1,3', 'ids=1&ids=3', 'ids=1,%203', 'tags=a,c', 'tags=a&tags=c']) {
        t.strictSame(await ids(`${path}?${query}`), [1, 3], `${path}?${query}`)
      }
      t.strictSame(await ids(`${path}?ids=1,2&ids=4`), [1, 2, 4], path)
      t.strictSame(await ids(`${path}?ids=2`), [2], path)
      t.strictSame(await ids(`${path}?ids=`), [], path)
      refused(t, await ask(`GET ${path}?ids=1,x`), 400, 'VALIDATION_FAILED', path)
    }
    t.match((await ask('GET /declared?ids=1,x')).body.details, [{ path: '/query/ids/1' }])
  })

  await t.test('contains on jsonb reads JSON from a query string', async (t) => {
    const found = (text: string) => ids(`/it?extra=${encodeURIComponent(text)}`)
    t.strictSame(await found('{"a":1}'), [1])
    t.strictSame(await found('{"a":"1"}'), [2])
    t.strictSame(await found('["red"]'), [3])
    t.strictSame(await found('red'), [3, 4], 'any other text stays a text')
    t.strictSame(await found('7'), [3])
    const response = await ask('GET /it?extra=%7Bbad')
    refused(t, response, 400, 'VALIDATION_FAILED')
    t.match(response.body.details, [{ path: '/query/extra', message: /not valid JSON/ }])
  })

  await t.test('a text that the route declares is only compared as a text', async (t) => {
    t.strictSame(await ids('/declared?extra=red'), [3, 4])
    t.strictSame(await ids('/declared?extra=7'), [])
    t.strictSame(await ids(`/declared?extra=${encodeURIComponent('{"a":1}')}`), [])
    t.strictSame(await ids('/declared?extra=%7Bbad'), [])
    t.strictSame(await ids('/docs/declared?zip=12345'), ['d1'])
    t.strictSame(await ids('/docs/declared?over=6'), ['d3'])
    t.strictSame(await ids('/docs/declared?list=5,9'), ['d3'], 'the items of a list')
  })

  await t.test("a filter of documents compares a query string's text as each type that it can represent", async (t) => {
    t.strictSame(await ids('/docs?min=6'), ['d2', 'd3'])
    t.strictSame(await ids('/docs?min=7'), ['d2', 'd3'])
    t.strictSame(await ids('/docs?n=7'), ['d2'])
    t.strictSame(await ids('/docs?n=9'), ['d3'])
    t.strictSame(await ids('/docs?zip=12345'), ['d1', 'd2'])
    t.strictSame(await ids('/docs?flag=true'), ['d2', 'd3'])
    t.strictSame(await ids('/docs?not=7'), ['d1', 'd3'])
    t.strictSame(await ids('/docs?list=5,9'), ['d1', 'd3'])
    t.strictSame(await ids('/docs?list=5&list=7'), ['d1', 'd2'])
    t.strictSame(await ids(`/docs?o=${encodeURIComponent('{"a":{"b":1}}')}`), ['d3'])
    t.strictSame(await ids('/docs?o=x'), ['d4'])
    refused(t, await ask('GET /docs?o=%5Bx'), 400, 'VALIDATION_FAILED')
    t.strictSame(await ids('/docs?min=99999999999999999999'), [], 'a number that a double cannot represent')
    t.strictSame(await ids('/docs/declared?min=6'), ['d2'], 'a declared number is only compared as a number')
    t.strictSame(await ids('/docs?notOver=6'), ['d1'])
  })
})
