/** Requests to Qdrant, against the forms that Qdrant describes. */
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { openQdrantIndex } from '../../../lib/vectors/qdrant.js'
import { checkQdrantRequest, checkQdrantResponse } from '../../helpers/qdrant-api.js'
import { qdrantServer } from '../../helpers/qdrant.js'

const none = new URLSearchParams()
const points = '/collections/tenantry/points'

test('requests have the form that Qdrant describes', async (t) => {
  const { url, apiKey, requests } = await qdrantServer(t)
  const index = await openQdrantIndex({ url, apiKey, space: { model: 'a-model', dimensions: 2 } })
  const acme = tenantRef('acme')
  const version = '1b671a64-40d5-491e-99b0-da01ff1f3341'
  const chunks = [{ position: 0, content: 'north', embedding: [0, 1] }, { position: 1, content: 'east', embedding: [1, 0] }]
  await index.write(acme, { id: 'a', version, contentType: 'text/plain', metadata: { pages: 3, nothing: null }, chunks }, null)
  const found = await index.nearest(acme, [0, 1], { limit: 1, threshold: 0.5, filter: { pages: 3, nothing: null } })
  t.same(found, [{ id: 'a', chunk: 0, score: 1, version }])
  await index.discard(acme, 'a', version)
  await index.removeAll(acme)
  await index.check()
  t.same([...new Set(requests)], [
    'GET /collections/tenantry/exists',
    'PUT /collections/tenantry',
    'PUT /collections/tenantry/index',
    'GET /collections/tenantry',
    `PUT ${points}`,
    `POST ${points}/query`,
    `POST ${points}/delete`
  ])
})

test('a request or response of another form is noticed', async (t) => {
  const must = [{ key: 'tenant', match: { value: 'acme' } }]
  const query = { query: [0, 1], filter: { must }, limit: 1, with_payload: ['document'], score_threshold: 0.5 }
  const asked = (body: unknown, parameters = none) => () => checkQdrantRequest('POST', `${points}/query`, parameters, body)
  t.doesNotThrow(asked(query))
  t.throws(asked({ ...query, limit: -1 }), /limit/)
  t.throws(asked({ ...query, top: 1 }), /additional properties/)
  t.throws(asked({ ...query, filter: { must: [{ key: 'tenant', match: { valu: 'acme' } }] } }), /filter/)
  t.throws(asked({ ...query, query: ['north'] }), /query/)
  t.throws(asked(query, new URLSearchParams({ wait: 'true' })), /query/, 'the parameter is that of writes')
  t.throws(() => checkQdrantRequest('POST', `${points}/queries`, none, query), /has no POST/)
  t.throws(() => checkQdrantRequest('GET', '/collections/tenantry', none, {}), /has no body/)
  const index = (type: unknown) => () =>
    checkQdrantRequest('PUT', '/collections/tenantry/index', new URLSearchParams({ wait: 'true' }), {
      field_name: 'tenant',
      field_schema: { type, is_tenant: true }
    })
  t.doesNotThrow(index('keyword'))
  t.throws(index('word'), /field_schema/)
  const answered = (result: unknown) => () => checkQdrantResponse('POST', `${points}/query`, 200, { time: 0.1, status: 'ok', result })
  t.doesNotThrow(answered({ points: [{ id: 1, version: 1, score: 0.5, payload: { document: 'a' } }] }))
  t.throws(answered({ points: [{ id: 1, version: 1 }] }), /score/)
})
