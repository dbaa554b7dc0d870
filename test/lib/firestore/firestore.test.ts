/** Behaviour that only Firestore has: shared collections, indexes, contention, and unsupported queries. */
import { FieldPath, FieldValue, Transaction } from '@google-cloud/firestore'
import { test } from 'tap'
import { translate } from '../../../lib/firestore/failures.js'
import { openFirestore } from '../../../lib/firestore/open.js'
import { placeOf } from '../../../lib/firestore/paths.js'
import type { DocumentOperation } from '../../../lib/firestore/types.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { DocumentQuery } from '../../../lib/schema/query.js'
import { firestoreServer } from '../../helpers/firestore.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller, refused } from '../../http/caller.js'
import { documentFaultsOf } from '../queries/helpers.js'
import { documentRoutes } from './document.js'

const shape = { only: null, without: new Set<string>() }

/** An error in the form that Google's client throws. */
function grpcError (code: number, message = 'a text of Firestore with projects/my-app in it'): Error {
  return Object.assign(new Error(message), { code })
}

test('one document can use shared collections, indexes and both stores', async (t) => {
  const { emulatorHost, projectId } = await firestoreServer(t)
  const query = (operation: DocumentQuery['operation'], docId = false): DocumentQuery => ({
    collection: 'countries',
    operation,
    ...docId && { docId: '{{params.id}}' }
  })
  const app = await testServer(t, {
    databaseProvider: 'firebase',
    firebase: { projectId, emulatorHost, sharedCollections: ['countries'] },
    tables: {
      logs: {
        columns: {
          id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
          tenant_id: { type: 'text', notNull: true },
          note: { type: 'text' }
        }
      }
    },
    routes: [
      ...documentRoutes,
      { path: '/countries/:id', method: 'put', firebaseQueries: [query('set', true)] },
      { path: '/countries/:id', method: 'get', firebaseQueries: [query('get', true)] },
      {
        path: '/in-sql/:id',
        method: 'get',
        firebaseQueries: [{ collection: 'notes', operation: 'get', docId: '{{params.id}}', store: 'sql' }]
      },
      {
        path: '/mixed/:id',
        method: 'get',
        queries: [{ table: 'logs', operation: 'select', alias: 'logs' }],
        firebaseQueries: [{ collection: 'notes', operation: 'get', docId: '{{params.id}}', alias: 'note' }]
      }
    ]
  }, { tenants: ['a', 'b', '__a__'] })
  const [a, b, odd] = ['a', 'b', '__a__'].map((tenant) => caller(t, app, { tenant }))
  if (a === undefined || b === undefined || odd === undefined) throw new Error('no callers')

  await t.test('only shared collections are common to all tenants', async (t) => {
    await a('PUT /countries/de', {
      body: { name: 'Germany', capital: { $reference: 'countries/berlin' }, first: { $reference: 'notes/n1' } }
    })
    t.match(await b('GET /countries/de'), {
      status: 200,
      body: { name: 'Germany', capital: { $reference: 'countries/berlin' }, first: { $reference: null } }
    }, "and reveals nothing of another tenant's document")
    await a('PUT /notes/n1', { body: { kind: 'of a' } })
    refused(t, await b('GET /notes/n1'), 404, 'NOT_FOUND')
    refused(t, await odd('GET /notes/n1'), 404, 'NOT_FOUND')
    await odd('PUT /notes/n1', { body: { kind: 'of odd' } })
    t.match([(await a('GET /notes/n1')).body, (await odd('GET /notes/n1')).body], [{ kind: 'of a' }, { kind: 'of odd' }])
  })

  await t.test("a tenant's own document can read shared collections, but not write them", async (t) => {
    const admin = await caller(t, app, { token: await signToken({ sub: 'admin', role: 'admin', tenant_id: 'a' }) })
    const own = (operation: DocumentQuery['operation']) => ({
      routes: [{ path: '/own/:id', method: operation === 'get' ? 'get' : 'put', firebaseQueries: [query(operation, true)] }]
    })
    refused(t, await admin('POST /tenant/config', { body: own('set') }), 400, 'CONFIG_INVALID', 'a write')
    t.match((await admin('POST /tenant/config', { body: own('get') })).status, /20[01]/)
    t.match(await a('GET /own/de'), { status: 200, body: { name: 'Germany' } })
  })

  await t.test('a query names its store, and a route can read both', async (t) => {
    refused(t, await a('GET /in-sql/n1'), 404, 'NOT_FOUND')
    t.match(await a('GET /mixed/n1'), { status: 200, body: { logs: { data: { length: 0 } }, note: { kind: 'of a' } } })
  })

  await t.test('a write with an id that Firestore does not accept is rejected', async (t) => {
    for (const id of ['__x__', 'a%2Fb', '漢'.repeat(501)]) {
      refused(
        t,
        await a(`PUT /notes/${id.includes('%') ? id : encodeURIComponent(id)}`, { body: {} }),
        400,
        'VALIDATION_FAILED',
        id.slice(0, 10)
      )
    }
    for (const body of [{ a: [[1]] }, { __x__: 1 }, { '': 1 }]) {
      refused(t, await a('PUT /notes/x', { body }), 400, 'VALIDATION_FAILED', JSON.stringify(body))
    }
    refused(t, await a('PUT /notes/x', { raw: '{"n":9223372036854775808}' }), 400, 'VALIDATION_FAILED', 'an integer of 65 bits')
    refused(
      t,
      await a('PUT /notes/x', { raw: '{"n":0.12345678901234567890}' }),
      400,
      'VALIDATION_FAILED',
      'a decimal that a double would change'
    )
    refused(t, await a('POST /notes', { body: Array.from({ length: 501 }, () => ({})) }), 400, 'VALIDATION_FAILED', '501 documents')
    refused(t, await a('GET /notes?offset=10001'), 400, 'VALIDATION_FAILED', 'a large offset')
    refused(
      t,
      await a(`GET /in?x=${Array.from({ length: 31 }, (_, index) => `v${index}`).join(',')}`),
      400,
      'VALIDATION_FAILED',
      '31 values'
    )
  })

  await t.test('`/doc` says which endpoints do not reach documents in Firestore', async (t) => {
    const describedBy = async (ask: Ask): Promise<[Record<string, string | undefined>, string]> => {
      const { paths } = (await ask('GET /doc')).body as { paths: Record<string, Record<string, { description?: string }>> }
      const { info } = (await ask('GET /doc/realtime')).body as { info: { description: string } }
      const endpoints = [
        ['get', '/admin/entities/{table}'],
        ['delete', '/admin/entities/{table}/{id}'],
        ['post', '/publish/init'],
        ['post', '/publish/entity'],
        ['get', '/realtime/events'],
        ['get', '/webhooks/deliveries']
      ] as const
      return [Object.fromEntries(endpoints.map(([method, path]) => [`${method} ${path}`, paths[path]?.[method]?.description])), info.description]
    }
    const [endpoints, realtime] = await describedBy(a)
    for (const [endpoint, description] of Object.entries(endpoints)) t.match(description, /documents in Firestore/i, endpoint)
    t.match(realtime, /Firestore cannot be watched/)
    const without = await testServer(t, { databaseProvider: 'embedded', routes: [] }, { tenants: ['a'] })
    const [others, rooms] = await describedBy(caller(t, without, { tenant: 'a' }))
    for (const [endpoint, description] of Object.entries(others)) t.match(description, /^(?![^]*Firestore)[^]+$/, endpoint)
    t.notMatch(rooms, /Firestore/)
  })

  await t.test('`/doc` says that writes send no events', async (t) => {
    const { paths } = (await a('GET /doc')).body as { paths: Record<string, Record<string, { description?: string }>> }
    t.match(paths['/notes/{id}']?.['put']?.description, /in Firestore: changes send no `entity/)
    t.notOk(paths['/notes/{id}']?.['get']?.description?.includes('Firestore') === true)
  })

  await t.test('a missing index is a 400, with its link for platform administrators', async (t) => {
    const link = 'https://console.firebase.google.com/v1/r/project/my-app/firestore/indexes?create_composite=abc'
    // The emulators need no indexes.
    Object.assign(app.firestore ?? {}, {
      text: async () => {
        throw translate(grpcError(9, `9 FAILED_PRECONDITION: The query requires an index. You can create it here: ${link}`))
      }
    })
    const of = async (claims: object) => await caller(t, app, { token: await signToken({ sub: 'u', ...claims }) })('GET /notes')
    for (const claims of [{ role: 'admin', tenant_id: 'a' }, { role: 'user', tenant_id: 'a' }]) {
      const response = await of(claims)
      refused(t, response, 400, 'INDEX_MISSING', JSON.stringify(claims))
      t.notMatch(response.text, /console|my-app/)
    }
    const response = await of({ role: 'admin' })
    refused(t, response, 400, 'INDEX_MISSING', 'the platform')
    t.equal(response.body['index'], link)
  })
})

test('a request with an idempotency key that fails after its write to Firestore does not write again', async (t) => {
  const { emulatorHost, projectId } = await firestoreServer(t)
  const add: DocumentQuery = { collection: 'orders', operation: 'add', data: { n: 1 } }
  const copies = '[body.t, body.t, body.t], [body.t, body.t, body.t]'
  const app = await testServer(t, {
    databaseProvider: 'firebase',
    firebase: { projectId, emulatorHost },
    routes: [
      { path: '/orders', method: 'post', firebaseQueries: [add], integrations: [{ type: 'nowhere', action: 'call', params: {} }] },
      {
        path: '/pairs',
        method: 'post',
        firebaseQueries: [{ ...add, alias: 'a' }, { ...add, alias: 'b' }],
        transform: { fields: { x: `result.a.id == '' ? [] : [[${copies}], [${copies}]]` } }
      },
      { path: '/orders', method: 'get', firebaseQueries: [{ collection: 'orders', operation: 'query' }] }
    ],
    customIntegrations: [{ name: 'nowhere', baseUrl: 'http://127.0.0.1:9', actions: { call: { method: 'post', path: '/' } } }]
  }, { tenants: ['a'] })
  const ask = caller(t, app, { tenant: 'a' })
  const body = { t: 'a'.repeat(600_000) }
  const count = async () => Object((await ask('GET /orders')).body['data']).length
  for (const [path, status, total] of [['/orders', 502, 1], ['/pairs', 422, 3]] as const) {
    const request = { body, headers: { 'idempotency-key': 'k' } }
    t.match(await ask(`POST ${path}`, request), { status }, path)
    refused(t, await ask(`POST ${path}`, request), 409, 'IDEMPOTENCY_ANSWER_LOST', path)
    t.equal(await count(), total, path)
  }
})

test('contention is retried, and then a 409', async (t) => {
  const { emulatorHost, projectId } = await firestoreServer(t)
  const store = await openFirestore({ emulatorHost, projectId, maxResultBytes: 1000 })
  t.teardown(() => store.close())
  let tries = 0
  t.equal(
    await store.transaction(tenantRef('a'), async () => {
      if (++tries === 1) throw grpcError(10)
      return 'done'
    }),
    'done'
  )
  t.equal(tries, 2)
  t.match(translate(grpcError(10)), { code: 'TENANTRY_DOCUMENT_CONTENTION', statusCode: 409, headers: { 'retry-after': '1' } })
  const place = placeOf(tenantRef('a'), 'notes', false)
  await t.rejects(
    store.transaction(place.owner, async (session) => {
      for (let n = 0; n <= 500; n++) await session.text({ kind: 'set', place, shape, id: `n${n}`, fields: {} })
    }),
    { code: 'TENANTRY_BAD_REQUEST' },
    '501 writes'
  )
  t.equal(await store.text({ kind: 'get', place, shape, id: 'n0' }), null, 'none of them takes effect')
  await store.text({ kind: 'set', place, shape, id: 'long', fields: { text: 'x'.repeat(2000) } })
  const page: DocumentOperation = { kind: 'query', place, shape, filters: [], order: [], limit: 10, offset: 0 }
  await t.rejects(store.text(page), { code: 'TENANTRY_ANSWER_TOO_LARGE' })
  await t.rejects(store.transaction(place.owner, (session) => session.text(page)), { code: 'TENANTRY_ANSWER_TOO_LARGE' })
})

test("Firestore's errors reveal no internals", async (t) => {
  for (
    const [code, name] of [
      [3, 'INVALID_VALUE'],
      [4, 'DATABASE_UNAVAILABLE'],
      [6, 'CONFLICT'],
      [7, 'DATABASE_UNAVAILABLE'],
      [8, 'DATABASE_BUSY'],
      [9, 'INDEX_MISSING'],
      [14, 'DATABASE_UNAVAILABLE'],
      [16, 'DATABASE_UNAVAILABLE']
    ] as const
  ) {
    const error: unknown = translate(grpcError(code))
    t.match(error, { code: `TENANTRY_${name}`, message: /^(?!.*my-app)/ }, String(code))
    if (/UNAVAILABLE|BUSY/.test(name)) t.match(error, { statusCode: 503, headers: { 'retry-after': '1' } })
  }
  const other = new Error('an internal fault')
  t.equal(translate(other), other)
})

test('a query that Firestore cannot run is a fault of the document', async (t) => {
  const firestore = { isDefault: true, sharedCollections: new Set<string>() }
  const faults = (query: Partial<DocumentQuery>) => documentFaultsOf({ collection: 'notes', operation: 'query', ...query }, { firestore })
  for (const operator of ['like', 'ilike', 'fts', 'contains'] as const) {
    t.match(faults({ filters: [{ column: 'a', operator, value: 'x' }] }), [/^\/q\/filters\/0\/operator: Firestore/], operator)
  }
  t.match(faults({ filters: [{ not: { column: 'a', value: 1 } }] }), [/^\/q\/filters\/0\/not: .*neq/])
  t.match(faults({ filters: [{ column: '__name__', value: 'x' }] }), [/^\/q\/filters\/0\/column: .*reserved/])
  t.match(faults({ filters: [{ column: 'id', operator: 'array-contains', value: 'x' }] }), [/^\/q\/filters\/0\/operator: /])
  t.match(faults({ filters: [{ column: 'a', operator: 'in', value: Array.from({ length: 31 }, (_, index) => index) }] }), [
    /^\/q\/filters\/0\/value: .*30/
  ])
  t.match(faults({ filters: [{ column: 'a', value: [[1]] }] }), [/^\/q\/filters\/0\/value: /])
  t.match(faults({ order: { column: 'a', nullsFirst: true } }), [/^\/q\/order\/nullsFirst: /])
  const ofFilters = (query: Parameters<typeof faults>[0]) =>
    faults({ ...query, pagination: 'cursor', filters: [{ or: [{ column: 'a', operator: 'gt', value: 1 }, { column: 'b', value: 2 }] }] })
      .filter((fault) => fault.startsWith('/q/filters'))
  t.match(ofFilters({}), [/^\/q\/filters\/0: .*add "a" to `order`/])
  t.same(ofFilters({ order: { column: 'a' } }), [])
  t.match(faults({ order: { column: '__a__' } }), [/^\/q\/order\/column: /])
  for (const collection of ['a/b', '..', '__x__']) t.match(faults({ collection }), [/^\/q\/collection: /], collection)
  t.match(documentFaultsOf({ collection: 'a', operation: 'query', store: 'firestore' }, { firestore: null }), [
    /^\/q\/store: Firestore is not available/
  ])
})

test('a page in a transaction is read in parts, and ends when it is too large', async (t) => {
  const { emulatorHost, projectId } = await firestoreServer(t)
  const store = await openFirestore({ emulatorHost, projectId, maxResultBytes: 2 * 1_048_576 })
  t.teardown(() => store.close())
  const place = placeOf(tenantRef('a'), 'notes', false)
  const page = { kind: 'query', place, shape, filters: [], order: [], limit: 20, offset: 0 } as const
  for (let n = 1; n <= 9; n++) await store.text({ kind: 'set', place, shape, id: `n${n}`, fields: { n, text: 'x'.repeat(10) } })
  const parts = t.capture(Transaction.prototype, 'getAll', Transaction.prototype.getAll)
  const sizes = () => parts().map(({ args }) => args.filter((each) => 'path' in each).length)
  const whole = await store.text(page)
  t.equal(await store.transaction(place.owner, (session) => session.text(page)), whole)
  t.same(sizes(), [2, 2, 2, 2, 1])

  const some = { ...page, shape: { ...shape, only: new Set(['n']) }, limit: 3, offset: 1 }
  t.equal(await store.transaction(place.owner, (session) => session.text(some)), await store.text(some))
  t.same(sizes(), [2, 1])

  for (let n = 1; n <= 9; n++) await store.text({ kind: 'set', place, shape, id: `n${n}`, fields: { text: 'x'.repeat(1_000_000) } })
  await t.rejects(store.transaction(place.owner, (session) => session.text(page)), { code: 'TENANTRY_ANSWER_TOO_LARGE' })
  t.same(sizes(), [2, 2], 'the other documents are not read')
})

test('a tenant runs ten operations at a time, and delays no other tenant', async (t) => {
  const { emulatorHost, projectId } = await firestoreServer(t)
  const store = await openFirestore({ emulatorHost, projectId, maxResultBytes: 1000 })
  t.teardown(() => store.close())
  let started = 0
  let release = (): void => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const calls = Array.from({ length: 110 }, () =>
    store.transaction(tenantRef('a'), async () => {
      started++
      await released
    })
  )
  const results = Promise.allSettled(calls)
  const read = (tenant: string) =>
    store.text({ kind: 'get', place: placeOf(tenantRef(tenant), 'notes', false), shape, id: 'n1' })
  await t.rejects(read('a'), { code: 'TENANTRY_DATABASE_BUSY', statusCode: 503, headers: { 'retry-after': '1' } }, 'a hundred wait')
  t.equal(await read('b'), null)
  t.equal(await store.transaction(tenantRef('b'), async () => started), 10)
  release()
  t.match(new Set((await results).map(({ status }) => status)), new Set(['fulfilled']))
  t.equal(await read('a'), null)
})

test('set keeps the named fields of a document and removes the others in one commit', async (t) => {
  const { emulatorHost, projectId } = await firestoreServer(t)
  const store = await openFirestore({ emulatorHost, projectId, maxResultBytes: 1000 })
  t.teardown(() => store.close())
  const place = placeOf(tenantRef('a'), 'notes', false)
  const set = { kind: 'set', place, shape, id: 'n' } as const
  const sets = t.capture(Transaction.prototype, 'set', Transaction.prototype.set)
  const sent = () => sets().map(({ args }) => args.slice(1))
  const kept = ['secret', 'absent']

  t.equal(await store.text({ ...set, fields: { old: 1, secret: 2 }, kept }), '{"old":1,"secret":2,"id":"n"}')
  t.same(sent(), [[{ old: 1, secret: 2 }]], 'a new document')
  t.equal(await store.text({ ...set, fields: { new: 3 }, kept }), '{"secret":2,"new":3,"id":"n"}')
  t.same(sent(), [[{ old: FieldValue.delete(), new: 3 }, { mergeFields: [new FieldPath('old'), new FieldPath('new')] }]])
  const read = JSON.parse(await store.text({ ...set, kind: 'get' }) ?? '{}')
  t.match(read, { secret: 2, new: 3 })
  const texts = await store.transaction(place.owner, async (session) => [
    await session.text({ ...set, fields: {}, kept: ['new'] }),
    await session.text({ ...set, fields: { secret: 4 }, kept: ['secret'] })
  ])
  t.same(texts, ['{"new":3,"id":"n"}', '{"secret":4,"id":"n"}'], 'the second one reads the result of the first')
})
