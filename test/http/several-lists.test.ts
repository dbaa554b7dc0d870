/** Responses with several lists: the caller's page applies only to a route's single list. */
import { test } from 'tap'
import type { TestDocument } from '../helpers/server.js'
import { testServer } from '../helpers/server.js'
import { caller, refused } from './caller.js'

const order = { column: 'id' }
const document: TestDocument = {
  tables: { it: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true } } } },
  routes: [
    { method: 'post', path: '/it', queries: [{ table: 'it', operation: 'insert' }] },
    { method: 'get', path: '/it', queries: [{ table: 'it', operation: 'select', order }] },
    {
      method: 'get',
      path: '/several',
      queries: [
        { table: 'it', operation: 'select', alias: 'first', order, limit: 1 },
        { table: 'it', operation: 'select', alias: 'rest', order, offset: 1 },
        { table: 'it', operation: 'select', alias: 'asked', order, limit: '{{query.size || 2}}' }
      ],
      firebaseQueries: [{ collection: 'docs', operation: 'query' }]
    },
    {
      method: 'get',
      path: '/strict',
      request: { query: { q: { type: 'string' } } },
      queries: [{ table: 'it', operation: 'select', alias: 'a', order }, { table: 'it', operation: 'select', alias: 'b', order }]
    },
    {
      method: 'post',
      path: '/wi',
      workflow: {
        steps: [
          { id: 'newest', type: 'database', operation: 'select', table: 'it', order, limit: 1 },
          { id: 'asked', type: 'database', operation: 'select', table: 'it', order, limit: '{{query.limit || 2}}' }
        ]
      },
      response: { newest: '{{steps.newest.result.data}}', asked: '{{steps.asked.result.data}}' }
    }
  ]
}

test('several lists', async (t) => {
  const app = await testServer(t, document, { tenants: ['one'] })
  const ask = caller(t, app, { tenant: 'one' })
  await ask('POST /it', { body: [1, 2, 3, 4].map((id) => ({ id })) })
  const idsOf = (list: unknown): unknown => {
    const { data = list }: { data?: unknown } = Object(list)
    return Array.isArray(data) ? data.map((row: unknown) => Object(row).id) : data
  }

  await t.test("the caller's limit and offset page a route's only list", async (t) => {
    t.strictSame(idsOf((await ask('GET /it?limit=2&offset=1')).body), [2, 3])
    t.strictSame(idsOf((await ask('GET /it?limit=0')).body), [])
  })

  await t.test("the caller's limit and offset do not affect lists of several queries", async (t) => {
    for (const query of ['', '?limit=0', '?limit=3&offset=2', '?limit=x']) {
      const { status, body } = await ask(`GET /several${query}`)
      t.equal(status, 200, query)
      t.strictSame([idsOf(body['first']), idsOf(body['rest']), idsOf(body['asked'])], [[1], [2, 3, 4], [1, 2]], query)
    }
    const { body } = await ask('GET /several?size=3')
    t.strictSame(idsOf(body['asked']), [1, 2, 3], "a template reads the caller's size")
    refused(t, await ask('GET /several?size=x'), 400, 'VALIDATION_FAILED')
    refused(t, await ask('GET /strict?limit=1'), 400, 'VALIDATION_FAILED', 'where it is not declared')
  })

  await t.test("the caller's limit reaches a step of an inline workflow only through a template", async (t) => {
    for (const [query, asked] of [['', [1, 2]], ['?limit=3', [1, 2, 3]], ['?limit=0&offset=1', []]] as const) {
      const { body } = await ask(`POST /wi${query}`, { body: {} })
      t.strictSame([idsOf(body['newest']), idsOf(body['asked'])], [[1], asked], query)
    }
  })
})
