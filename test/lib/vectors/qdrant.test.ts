/** Requests of the store, and responses of its stand-in, against Qdrant's description. */
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { openQdrantIndex } from '../../../lib/vectors/qdrant.js'
import { startPrism } from '../../helpers/prism.js'
import { qdrantServer } from '../../helpers/qdrant.js'
import { qdrantDocument } from '../../helpers/qdrant-api.js'

const operations = [
  'get /collections/{collection_name}/exists',
  'put /collections/{collection_name}',
  'put /collections/{collection_name}/index',
  'get /collections/{collection_name}',
  'put /collections/{collection_name}/points',
  'post /collections/{collection_name}/points/query',
  'post /collections/{collection_name}/points/delete'
]

const must = [{ key: 'tenant', match: { value: 'acme' } }]
const query = { query: [0, 1], filter: { must }, limit: 1, with_payload: ['document'], score_threshold: 0.5 }

/** Calls again after a failure, as jobs do: Prism ends idle connections after five seconds, which a busy process may notice too late. */
async function twice<Result> (work: () => Promise<Result>): Promise<Result> {
  return await work().catch(work)
}

test("requests and responses match Qdrant's description", async (t) => {
  const { url, apiKey, collections, requests } = await qdrantServer(t)
  const prism = await startPrism(t, qdrantDocument(operations), url)
  const index = await twice(() => openQdrantIndex({ url: prism, apiKey, space: { model: 'a-model', dimensions: 2 } }))
  const acme = tenantRef('acme')
  const version = '1b671a64-40d5-491e-99b0-da01ff1f3341'

  await t.test('all requests of the store match it', async (t) => {
    const chunks = [{ position: 0, content: 'north', embedding: [0, 1] }, { position: 1, content: 'east', embedding: [1, 0] }]
    const document = { id: 'a', version, contentType: 'text/plain', metadata: { pages: 3, nothing: null }, chunks }
    await twice(() => index.write(acme, document, null))
    const found = await twice(() => index.nearest(acme, [0, 1], { limit: 1, threshold: 0.5, filter: { pages: 3, nothing: null } }))
    t.same(found, [{ id: 'a', chunk: 0, score: 1, version }])
    await twice(() => index.discard(acme, 'a', version))
    await twice(() => index.removeAll(acme))
    await twice(() => index.check())
    const described = requests.map((request) => {
      const [method = '', path = ''] = request.split(' ')
      return `${method.toLowerCase()} ${path.replace('/tenantry', '/{collection_name}')}`
    })
    t.same([...new Set(described)], operations)
  })

  await t.test('a request of another form is rejected', async (t) => {
    const refusals: Readonly<Record<string, readonly unknown[]>> = {
      'PUT ': [{ vectors: { size: 2, distance: 'Near' } }, { vectors: { size: 2, distance: 'Cosine' }, hnsw: {} }],
      'PUT /index': [{ field_name: 'tenant', field_schema: { type: 'word' } }, { field_schema: 'keyword' }],
      'PUT /points': [{ points: [{ id: 'a', vector: 'north' }] }, { points: [{ vector: [0, 1] }] }],
      'POST /points/query': [
        { ...query, limit: -1 },
        { ...query, top: 1 },
        { ...query, filter: { must: [{ key: 'tenant', match: { valu: 'acme' } }] } },
        { ...query, query: ['north'] }
      ],
      'POST /points/delete': [{ filter: { must: {}, most: [] } }, {}]
    }
    const send = async (operation: string, body: unknown) => {
      const [method = '', path = ''] = operation.split(' ')
      const response = await fetch(`${prism}/collections/tenantry${path}`, {
        method,
        headers: { 'content-type': 'application/json', 'api-key': apiKey },
        body: JSON.stringify(body)
      })
      return response.status
    }
    t.equal(await send('POST /points/query', query), 200)
    const before = requests.length
    for (const [operation, bodies] of Object.entries(refusals)) {
      for (const body of bodies) t.equal(await send(operation, body), 422, `${operation} ${JSON.stringify(body)}`)
    }
    t.equal(await send('POST /points/queries', query), 404)
    t.equal(await send('PUT /index?wait=maybe', { field_name: 'tenant', field_schema: 'keyword' }), 422)
    t.equal(requests.length, before, 'no such request reaches the server')
  })

  await t.test('a response of another form is rejected', async (t) => {
    Object.assign(collections.get('tenantry') ?? {}, { size: 'two' })
    await t.rejects(index.check(), { code: 'TENANTRY_VECTOR_STORE_UNAVAILABLE' })
  })
})
