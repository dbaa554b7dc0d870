/** Many records in one request: each changes only the columns that it names. */
import { type Test, test } from 'tap'
import { postgresDatabase } from '../helpers/postgres.js'
import type { TestDocument } from '../helpers/server.js'
import { testServer } from '../helpers/server.js'
import { type Ask, caller, refused } from './caller.js'

const document: TestDocument = {
  tables: {
    it: {
      tenantScoped: true,
      columns: {
        id: { type: 'integer', primaryKey: true },
        t: { type: 'text' },
        price: { type: 'integer', default: 10 },
        meta: { type: 'jsonb' },
        place: { type: 'text' },
        parent: { type: 'integer' }
      }
    },
    wide: {
      tenantScoped: true,
      columns: {
        id: { type: 'text', primaryKey: true },
        ...Object.fromEntries(Array.from({ length: 7 }, (_, bit) => [`c${bit}`, { type: 'text' as const }]))
      }
    },
    counted: {
      tenantScoped: true,
      columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, a: { type: 'text', default: 'new' }, b: { type: 'text' } }
    }
  },
  routes: [
    { method: 'get', path: '/it', queries: [{ table: 'it', operation: 'select', order: { column: 'id' } }] },
    { method: 'put', path: '/it', queries: [{ table: 'it', operation: 'upsert' }] },
    { method: 'put', path: '/it/:id', queries: [{ table: 'it', operation: 'upsert', id: '{{params.id}}' }] },
    { method: 'post', path: '/it', queries: [{ table: 'it', operation: 'insert' }] },
    { method: 'get', path: '/counted', queries: [{ table: 'counted', operation: 'select' }] },
    { method: 'put', path: '/counted', queries: [{ table: 'counted', operation: 'upsert' }] },
    { method: 'put', path: '/wide', queries: [{ table: 'wide', operation: 'upsert' }] }
  ]
}

test('bulk writes', async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const postgres = { connectionString, rowLevelSecurity: true }
  const app = await testServer(t, document, { engine: { provider: 'postgres', postgres }, tenants: ['one', 'two'] })
  const asTenant = (t: Test, tenant = 'one'): Ask => caller(t, app, { tenant })
  const rows = async (ask: Ask): Promise<unknown> => (await ask('GET /it')).body.data?.map(({ id, t, price }) => ({ id, t, price }))

  await t.test('a bulk upsert keeps the columns that a record leaves out', async (t) => {
    const ask = asTenant(t)
    await ask('POST /it', {
      body: [{ id: 1, t: 'a1', price: 1, meta: { k: 1 }, place: 'here' }, { id: 2, t: 'a2', price: 2 }, { id: 3, t: 'a3', price: 3 }]
    })
    const response = await ask('PUT /it', { body: [{ id: 1, price: 5 }, { id: 2, t: 'b2' }] })
    t.equal(response.status, 200)
    t.match(response.body.data, [{ id: 1, t: 'a1', price: 5, meta: { k: 1 }, place: 'here' }, { id: 2, t: 'b2', price: 2 }])
    t.strictSame(await rows(ask), [{ id: 1, t: 'a1', price: 5 }, { id: 2, t: 'b2', price: 2 }, { id: 3, t: 'a3', price: 3 }])
    await ask('PUT /it', { body: [{ id: 3, price: null }, { id: 2, t: null, price: 7 }, { id: 1 }] })
    t.strictSame(
      await rows(ask),
      [{ id: 1, t: 'a1', price: 5 }, { id: 2, t: null, price: 7 }, { id: 3, t: 'a3', price: null }],
      'an explicit null is null'
    )
  })

  await t.test('a bulk upsert returns records in the order of the request, and gives new rows their defaults', async (t) => {
    const ask = asTenant(t)
    const body = [{ id: 23, t: 'x' }, { id: 21 }, { id: 22, t: 'y' }, { id: 25, price: null }, { id: 24, t: 'z', price: 4 }, {
      id: 1,
      t: 'kept'
    }, { id: 20 }]
    const { body: { data } } = await ask('PUT /it', { body })
    t.strictSame(data?.map(({ id, t, price }) => ({ id, t, price })), [
      { id: 23, t: 'x', price: 10 },
      { id: 21, t: null, price: 10 },
      { id: 22, t: 'y', price: 10 },
      { id: 25, t: null, price: null },
      { id: 24, t: 'z', price: 4 },
      { id: 1, t: 'kept', price: 5 },
      { id: 20, t: null, price: 10 }
    ])
    const counted = await ask('PUT /counted', { body: [{ b: 'x' }, {}, { a: 'given' }, {}] })
    t.match(counted.body.data, [{ a: 'new', b: 'x' }, { a: 'new', b: null }, { a: 'given', b: null }, { a: 'new', b: null }])
    const id = counted.body.data?.[1]?.['id']
    t.match((await ask('PUT /counted', { body: [{}, { id, b: 'named' }] })).body.data, [{ a: 'new', b: null }, {
      id,
      a: 'new',
      b: 'named'
    }])
  })

  await t.test('a bulk insert gives a missing column its default and keeps an explicit null', async (t) => {
    const ask = asTenant(t)
    t.match((await ask('POST /it', { body: [{ id: 31 }, { id: 32, price: null }, { id: 33, price: 3 }] })).body.data, [{ price: 10 }, {
      price: null
    }, { price: 3 }])
    t.match((await ask('POST /it', { body: [{ id: 34, price: null }, { id: 35, price: null }] })).body.data, [{ price: null }, {
      price: null
    }])
    t.match((await ask('POST /it', { body: [{ id: 36, t: 'x' }, { id: 37 }] })).body.data, [{ price: 10, t: 'x' }, { price: 10, t: null }])
  })

  await t.test("a bulk upsert does not reach another tenant's rows", async (t) => {
    const [one, two] = [asTenant(t), asTenant(t, 'two')]
    await two('POST /it', { body: { id: 60, t: 'of two', price: 2 } })
    t.equal((await one('PUT /it', { body: [{ id: 60, t: 'of one' }, { id: 61, price: 4 }] })).status, 200)
    await one('PUT /it', { body: [{ id: 60, price: 6 }, { id: 61, t: 'x' }] })
    t.strictSame(await rows(two), [{ id: 60, t: 'of two', price: 2 }])
    t.match((await one('GET /it?limit=100')).body.data?.slice(-2), [{ id: 60, t: 'of one', price: 6 }, { id: 61, t: 'x', price: 4 }])
  })

  await t.test("a bulk upsert with a repeated key is rejected with the key's columns, and writes nothing", async (t) => {
    const ask = asTenant(t)
    const before = await rows(ask)
    const response = await ask('PUT /it', { body: [{ id: 51, t: 'x' }, { id: 52 }, { id: 51, price: 1 }] })
    refused(t, response, 400, 'VALIDATION_FAILED')
    t.strictSame(response.body.details, [{
      path: '/body/2/id',
      message: 'record 0 of this request has the same id: send each key once',
      keyword: 'uniqueItems'
    }])
    const fixed = await ask('PUT /it/7', { body: [{ t: 'x' }, { price: 1 }] })
    refused(t, fixed, 400, 'VALIDATION_FAILED')
    t.match(fixed.body.details, [{ path: '/body/1', message: /the same key from the route/ }])
    refused(t, await ask('PUT /it', { body: [{ id: 53, t: 'x' }, { id: 54, price: 'y' }] }), 400, 'VALIDATION_FAILED')
    t.strictSame(await rows(ask), before)
  })

  await t.test('a bulk upsert with too many different sets of fields is rejected; 1000 records with 32 sets are accepted', async (t) => {
    const ask = asTenant(t)
    const names = ['t', 'price', 'meta', 'place', 'parent']
    const record = (id: number) =>
      Object.fromEntries([
        ['id', id],
        ...names.filter((_, bit) => (id >> bit) % 2 === 1).map((name) => [name, name === 'price' || name === 'parent' ? id : `${id}`])
      ])
    const body = Array.from({ length: 1000 }, (_, index) => record(1000 + index))
    const { status, body: { data } } = await ask('PUT /it', { body })
    t.equal(status, 200)
    t.strictSame(data?.map(({ id }) => id), body.map(({ id }) => id))
    t.match(data?.[1], { id: 1001, t: '1001' })
    const wide = Array.from(
      { length: 101 },
      (_, index) =>
        Object.fromEntries([
          ['id', `${index}`],
          ...Array.from({ length: 7 }, (_, bit) => `c${bit}`).filter((_, bit) => (index >> bit) % 2 === 1).map((name) => [name, 'x'])
        ])
    )
    refused(t, await ask('PUT /wide', { body: wide }), 400, 'VALIDATION_FAILED')
    t.equal((await ask('PUT /wide', { body: wide.slice(1) })).status, 200)
  })
})
