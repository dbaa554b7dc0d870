/** Commits whose response is lost or late: Google's client tries them again. */
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { lateWrites } from '../../../lib/firestore/failures.js'
import { openFirestore } from '../../../lib/firestore/open.js'
import { placeOf } from '../../../lib/firestore/paths.js'
import type { DocumentOperation, DocumentStore } from '../../../lib/firestore/types.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { DocumentQuery } from '../../../lib/schema/query.js'
import { faultyFirestore } from '../../helpers/firestore.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller, refused } from '../../http/caller.js'
import { boundary, form } from '../../plugins/files/app.js'

const internal = 13 // of gRPC: a reset stream. The client repeats a transaction after it,
const unavailable = 14 // and a commit after this one.

const place = placeOf(tenantRef('a'), 'notes', false)
const shape = { only: null, without: new Set<string>() }
const page: DocumentOperation = { kind: 'query', place, shape, filters: [], order: [], limit: 50, offset: 0 }

function creation (documents: readonly Record<string, unknown>[], id: string | null = null): DocumentOperation {
  return { kind: 'create', place, shape, id, documents, many: id === null && documents.length !== 1 }
}

async function open (t: Test) {
  const faulty = await faultyFirestore(t)
  const { emulatorHost, projectId } = faulty
  const store = await openFirestore({ emulatorHost, projectId, maxResultBytes: 100_000 })
  t.teardown(() => store.close())
  return { ...faulty, store }
}

/** The documents of the responses, one or a list each, in the order of their ids. */
function sorted (...texts: readonly (string | null)[]): unknown[] {
  const documents = texts.flatMap((text) => {
    const found: { id: string, data?: { id: string }[] } = JSON.parse(text ?? '{}')
    return found.data ?? found
  })
  return documents.sort((one, other) => one.id < other.id ? -1 : 1)
}

for (const code of [internal, unavailable]) {
  test(`a transaction whose commit is answered with ${code} creates each document once`, async (t) => {
    const { store, loseResponse } = await open(t)
    loseResponse(code)
    const texts = await store.transaction(place.owner, async (session) => [
      await session.text(creation([{ n: 1 }])),
      await session.text(creation([{ n: 2 }, { n: 3 }, { n: 4 }]))
    ])
    const found = sorted(await store.text(page))
    t.same(found, sorted(...texts))
    t.equal(found.length, 4)
  })
}

test('documents that are created once are answered although the response of their commit was lost', async (t) => {
  const { store, loseResponse } = await open(t)
  loseResponse(unavailable)
  const one = await store.text(creation([{ n: 1 }]))
  t.same(sorted(await store.text(page)), sorted(one))
  loseResponse(unavailable)
  const many = await store.text(creation([{ n: 2 }, { n: 3 }]))
  t.same(sorted(await store.text(page)), sorted(one, many))
})

test('a write is not sent again after its request has a response', async (t) => {
  const { store, emulatorHost, projectId, refuseCommits } = await open(t)
  const impatient = await openFirestore({ emulatorHost, projectId, maxResultBytes: 100_000, timeoutMs: 100 })
  t.teardown(() => impatient.close())
  const kept = sorted(await store.text(creation([{ n: 1 }], 'kept')))
  const writes: DocumentOperation[] = [
    creation([{ n: 2 }]),
    creation([{ n: 3 }], 'own'),
    creation([{ n: 4 }, { n: 5 }]),
    { kind: 'set', place, shape, id: 'set', fields: { n: 6 } },
    { kind: 'delete', place, shape, id: 'kept' }
  ]
  const refusals = refuseCommits(unavailable)
  const errors = await Promise.all(writes.map((write) => impatient.text(write).then(() => null, (error: unknown) => error)))
  for (const error of errors) {
    t.match(error, { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
    // A try that was under way at the response ends.
    await lateWrites(error)
  }
  t.ok(refusals.count <= writes.length, 'each was sent once at most')
  refusals.allow()
  t.same(sorted(await store.text(page)), kept)
})

test('a document with an id of the caller is not overwritten', async (t) => {
  const { store } = await open(t)
  const conflict = { code: 'TENANTRY_CONFLICT' }
  await store.text(creation([{ n: 1 }], 'own'))
  await t.rejects(store.text(creation([{ n: 2 }], 'own')), conflict)
  await t.rejects(store.transaction(place.owner, (session) => session.text(creation([{ n: 2 }], 'own'))), conflict)
  t.same(sorted(await store.text(page)), [{ id: 'own', n: 1 }])
})

const add: DocumentQuery = { collection: 'orders', operation: 'add' }
const list: DocumentQuery = { collection: 'orders', operation: 'query' }
const create: DocumentQuery = { collection: 'orders', operation: 'create' }

async function server (t: Test) {
  const faulty = await faultyFirestore(t)
  const { emulatorHost, projectId } = faulty
  const app = await testServer(t, {
    databaseProvider: 'firebase',
    firebase: { projectId, emulatorHost },
    files: { path: t.testdir() },
    routes: [
      { path: '/orders', method: 'post', firebaseQueries: [add] },
      { path: '/orders', method: 'get', firebaseQueries: [list] },
      { path: '/cached', method: 'get', cache: { enabled: true, ttl: 600 }, firebaseQueries: [list] },
      { path: '/named', method: 'post', firebaseQueries: [{ ...create, docId: 'no-{{uuid()}}' }] },
      { path: '/either', method: 'post', firebaseQueries: [{ ...create, docId: '{{body.name || uuid()}}' }] },
      { path: '/orders/:id', method: 'delete', firebaseQueries: [{ collection: 'orders', operation: 'delete', docId: '{{params.id}}' }] },
      {
        path: '/several',
        method: 'post',
        firebaseQueries: [
          { collection: 'marks', operation: 'query', alias: 'before' },
          { collection: 'orders', operation: 'set', docId: '{{uuid()}}', data: { n: 1, reference: '{{uuid()}}' }, alias: 'set' },
          { ...create, docId: 'no-{{uuid()}}', data: { of: '{{results.set.id}}' }, alias: 'named' },
          { ...add, data: [{ n: 2 }, { n: 3 }], alias: 'added' }
        ]
      },
      {
        path: '/papers',
        method: 'post',
        requireAuth: true,
        multipart: true,
        request: { files: { paper: { required: true } } },
        firebaseQueries: [{ ...add, data: { paper: '{{files.paper.id}}' } }]
      }
    ]
  }, { tenants: ['a'] })
  const ask = caller(t, app, { tenant: 'a' })
  const orders = async (path = '/orders') => (await ask(`GET ${path}`)).body.data ?? []
  if (app.firestore === null) throw new Error('no Firestore')
  const firestore: DocumentStore = app.firestore
  /** The server runs the work with a Firestore that it gives little time. */
  const impatiently = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    const patient: Pick<DocumentStore, 'text' | 'transaction'> = { text: firestore.text, transaction: firestore.transaction }
    const store = await openFirestore({ emulatorHost, projectId, isDefault: true, maxResultBytes: 100_000, timeoutMs: 100 })
    t.teardown(() => store.close())
    Object.assign(firestore, { text: store.text, transaction: store.transaction })
    try {
      return await work()
    } finally {
      Object.assign(firestore, patient)
    }
  }
  return { ...faulty, app, ask, orders, impatiently }
}

test('ids from `uuid()` are the same in each try of a transaction', async (t) => {
  const { ask, orders, loseResponse } = await server(t)
  loseResponse(internal)
  const { status, body } = await ask('POST /several', { body: {} })
  t.equal(status, 200)
  const found = await orders()
  t.equal(found.length, 4)
  const ids = new Set(found.map(({ id }) => id))
  for (const name of ['set', 'named']) t.ok(ids.has(Object(body[name]).id), name)
  t.equal(Object(body['named']).of, Object(body['set']).id)
  loseResponse(unavailable)
  t.match(await ask('POST /named', { body: {} }), { status: 201 }, 'and a repeated commit finds no other document')
  t.equal((await orders()).length, 5)
})

test('an id that the request can name is not overwritten, and is new without a name', async (t) => {
  const { ask, orders, loseResponse } = await server(t)
  t.match(await ask('POST /either', { body: { name: 'own' } }), { status: 201, body: { id: 'own' } })
  refused(t, await ask('POST /either', { body: { name: 'own' } }), 409, 'CONFLICT')
  loseResponse(unavailable)
  t.match(await ask('POST /either', { body: {} }), { status: 201 })
  t.equal((await orders()).length, 2)
})

test('a write that is late keeps its idempotency key, and is seen by cached routes', async (t) => {
  const { ask, orders, hold, impatiently } = await server(t)
  const release = hold('Commit')
  const request = { body: { n: 1 }, headers: { 'idempotency-key': 'k' } }
  refused(t, await impatiently(() => ask('POST /orders', request)), 503, 'DATABASE_UNAVAILABLE')
  refused(t, await ask('POST /orders', request), 409, 'IDEMPOTENCY_ANSWER_LOST')
  t.same(await orders('/cached'), [], 'read and cached before the write is made')
  release()
  await until('the write is made', async () => (await orders()).length === 1)
  await until('the cached response is removed', async () => (await orders('/cached')).length === 1)
  t.equal((await orders()).length, 1)
})

test('a transaction that fails before its commit frees its idempotency key', async (t) => {
  const { ask, orders, hold, impatiently } = await server(t)
  const release = hold('RunQuery')
  const request = { body: {}, headers: { 'idempotency-key': 'k' } }
  refused(t, await impatiently(() => ask('POST /several', request)), 503, 'DATABASE_UNAVAILABLE')
  release()
  t.match(await ask('POST /several', request), { status: 200 })
  t.equal((await orders()).length, 4)
})

test('a deletion that was made is seen by cached routes, although it is answered with 404', async (t) => {
  const { ask, orders, loseResponse } = await server(t)
  const { body: { id } } = await ask('POST /orders', { body: {} })
  t.equal((await orders('/cached')).length, 1)
  loseResponse(unavailable)
  refused(t, await ask(`DELETE /orders/${String(id)}`), 404, 'NOT_FOUND')
  t.same(await orders('/cached'), [])
})

test('the file of a form stays if the response of the commit was lost', async (t) => {
  const { app, ask, loseResponse } = await server(t)
  loseResponse(unavailable)
  const { status, body } = await ask('POST /papers', {
    raw: form([{ name: 'paper', value: 'text', filename: 'a.txt', type: 'text/plain' }]),
    type: `multipart/form-data; boundary=${boundary}`,
    token: await signToken({ sub: 'ada', role: 'user', tenant_id: 'a' })
  })
  t.equal(status, 201)
  const { rows } = await sql`select id from tenantry.files where status = 'ready'`.execute(app.db)
  t.same(rows, [{ id: body['paper'] }])
})
