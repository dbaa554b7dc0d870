/** Documents and search in a whole server, whose provider is a local server. */
import { test } from 'tap'
import { checkConfig } from '../../../lib/configuration/index.js'
import { gate } from '../../helpers/gate.js'
import { vectorOf } from '../../helpers/models.js'
import { testDocument, testServer } from '../../helpers/server.js'
import { bearer, signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'
import { wireProvider } from '../models/app.js'

const dimensions = 32

test('a document with agent.embedding serves documents, search and workflow steps', async (t) => {
  const { url, requests } = await wireProvider(t, (response, { body: { input, model } }) => {
    const texts = [input].flat().map(String)
    const data = texts.map((text, index) => ({ object: 'embedding', index, embedding: vectorOf(text, dimensions) }))
    response.setHeader('content-type', 'application/json')
      .end(JSON.stringify({ object: 'list', data, model, usage: { prompt_tokens: 3, total_tokens: 3 } }))
  })
  const app = await testServer(t, {
    agent: { enabled: true, embedding: { provider: 'local', model: 'words', baseUrl: url, dimensions } },
    workflows: [{
      id: 'library',
      steps: [
        {
          id: 'put',
          type: 'embeddings',
          operation: 'document',
          params: { id: 'pump', contentType: 'text/plain', document: '{{input.text}}' }
        },
        { id: 'vectors', type: 'embeddings', operation: 'embed', params: { texts: ['a', 'b'] } },
        { id: 'find', type: 'embeddings', operation: 'search', params: { query: '{{input.text}}', limit: 1 } }
      ]
    }, {
      id: 'order',
      steps: [
        {
          id: 'put',
          type: 'embeddings',
          operation: 'document',
          params: { id: 'order', contentType: 'text/plain', document: 'An order.', metadata: { order: '{{input.order}}' } }
        },
        {
          id: 'find',
          type: 'embeddings',
          operation: 'search',
          params: { query: 'order', mode: '{{input.mode}}', filter: { order: '{{input.order}}' }, threshold: '{{input.threshold}}' }
        }
      ]
    }]
  }, { engine: { provider: 'embedded' }, tenants: ['acme', 'globex'] })
  const acme = caller(t, app, { token: signToken({ sub: 'ada', role: 'user', tenant_id: 'acme' }) })

  const { status, body } = await acme('POST /agent/embeddings/document', {
    body: { contentType: 'text/plain', document: 'A blue valve.', id: 'valve' }
  })
  t.equal(status, 201)
  t.match(body, { id: 'valve', chunks: 1, usage: { inputTokens: 3, totalTokens: 3 } })
  t.match((await acme('POST /agent/embeddings/search', { body: { query: 'blue valve', mode: 'hybrid' } })).body, {
    results: [{ id: 'valve', content: 'A blue valve.' }]
  })
  t.ok(requests.length >= 2)

  const run = await acme('POST /agent/workflow/run', { body: { ref: 'library', input: { text: 'A red pump.' }, async: false } })
  t.match(run, {
    status: 200,
    body: { status: 'completed', result: { results: [{ id: 'pump', chunk: 0, content: 'A red pump.' }], usage: { totalTokens: 3 } } }
  })
  const threshold = '0.00000000000000000000000000000000012345678901234567891'
  for (const mode of ['vector', 'text', 'hybrid']) {
    const { statusCode, body: answer } = await app.inject({
      method: 'POST',
      url: '/agent/workflow/run',
      headers: { ...bearer({ tenant_id: 'acme' }), 'content-type': 'application/json' },
      body: `{"ref":"order","async":false,"input":{"mode":"${mode}","order":123456789012345678901,"threshold":${threshold}}}`
    })
    t.equal(statusCode, 200, answer)
    t.match(answer, '"metadata":{"order":123456789012345678901}', `${mode}: a step keeps every digit`)
  }
  const bad = await acme('POST /agent/workflow/run', { body: { ref: 'library', input: { text: '' }, async: false } })
  t.equal(bad.status, 400, "a step's members are validated like the endpoint's")
  const globex = caller(t, app, { token: signToken({ sub: 'ada', role: 'user', tenant_id: 'globex' }) })
  t.same((await globex('POST /agent/embeddings/search', { body: { query: 'pump' } })).body['results'], [])

  const { paths } = (await app.inject({ url: '/doc', headers: bearer({ tenant_id: 'acme' }) })).json()
  for (const path of ['', '/document', '/document/{id}', '/documents', '/search', '/batch', '/batch/{id}', '/reindex']) {
    t.ok(paths[`/agent/embeddings${path}`], path)
  }
})

test('a fifth document at a time is refused with the seconds to wait', async (t) => {
  const { opened, open } = gate()
  const { url } = await wireProvider(t, async (response, { body: { input, model } }) => {
    await opened
    const data = [input].flat().map((text, index) => ({ object: 'embedding', index, embedding: vectorOf(String(text), dimensions) }))
    response.setHeader('content-type', 'application/json')
      .end(JSON.stringify({ object: 'list', data, model, usage: { prompt_tokens: 3, total_tokens: 3 } }))
  })
  const app = await testServer(t, {
    agent: { enabled: true, embedding: { provider: 'local', model: 'words', baseUrl: url, dimensions } }
  }, { engine: { provider: 'embedded' }, tenants: ['acme'] })
  const acme = caller(t, app, { token: signToken({ sub: 'ada', role: 'user', tenant_id: 'acme' }) })
  let refused = 0
  const replies = Array.from({ length: 6 }, async (_, index) => {
    const reply = await acme('POST /agent/embeddings/document', { body: { contentType: 'text/plain', document: `Document ${index}.` } })
    if (reply.status !== 201) refused++
    return reply
  })
  await until('two are refused', () => refused === 2)
  open()
  for (const { status, body, headers } of await Promise.all(replies)) {
    if (status === 201) continue
    t.match([status, body, headers], [429, { code: 'TENANTRY_DOCUMENTS_BUSY', retryAfter: 5 }, { 'retry-after': '5' }])
  }
})

test('vectors that cannot be compared are a provider failure, and keep the previous document', async (t) => {
  let vector: string | null = null
  const { url } = await wireProvider(t, (response, { body: { input } }) => {
    const texts = [input].flat().map(String)
    const data = texts.map((text, index) =>
      `{"object":"embedding","index":${index},"embedding":${vector ?? JSON.stringify(vectorOf(text, dimensions))}}`
    )
    response.setHeader('content-type', 'application/json')
      .end(`{"object":"list","data":[${data.join()}],"model":"words","usage":{"prompt_tokens":3,"total_tokens":3}}`)
  })
  const app = await testServer(
    t,
    { agent: { enabled: true, embedding: { provider: 'local', model: 'words', baseUrl: url, dimensions } } },
    { engine: { provider: 'embedded' }, tenants: ['acme'] }
  )
  const acme = caller(t, app, { token: signToken({ sub: 'ada', role: 'user', tenant_id: 'acme' }) })
  const document = { id: 'pump', contentType: 'text/plain', document: 'A red pump.' }
  t.equal((await acme('POST /agent/embeddings/document', { body: document })).status, 201)
  const before = (await acme('GET /agent/embeddings/documents')).body
  const filled = (value: string) => `[${new Array<string>(dimensions).fill(value).join()}]`
  for (vector of [filled('NaN'), filled('1e999'), filled('0'), filled('null'), '[1,2]']) {
    const responses = [
      await acme('POST /agent/embeddings/document', { body: { ...document, document: 'A lost pump.' } }),
      await acme('POST /agent/embeddings', { body: { texts: ['x'] } }),
      await acme('POST /agent/embeddings/search', { body: { query: 'x' } })
    ]
    for (const { status, body } of responses) {
      t.match({ status, body }, { status: 502, body: { code: 'TENANTRY_PROVIDER_FAILED' } }, vector.slice(0, 20))
    }
  }
  vector = null
  t.same((await acme('GET /agent/embeddings/documents')).body, before)
  t.match((await acme('POST /agent/embeddings/search', { body: { query: 'pump' } })).body, {
    results: [{ id: 'pump', content: 'A red pump.' }]
  })
})

test('steps and stores are validated with the document', (t) => {
  const embedding = { provider: 'local', model: 'm', baseUrl: 'http://localhost/v1' } as const
  const faults = (document: object) => {
    try {
      checkConfig(testDocument(document), { env: {} })
      return ''
    } catch (error) {
      return String(error)
    }
  }
  const step = { id: 's', type: 'embeddings', operation: 'search', params: { query: 'x' } }
  const workflows = (given: object) => [{ id: 'w', steps: [{ ...step, ...given }] }]
  t.equal(faults({ agent: { enabled: true, embedding }, workflows: workflows({}) }), '')
  t.match(
    faults({ agent: { enabled: true, embedding }, workflows: workflows({ operation: 'find' }) }),
    /steps\/0\/operation.*expected one of embed, document, search/
  )
  t.match(faults({ agent: { enabled: true, embedding }, workflows: workflows({ params: 3 }) }), /steps\/0\/params/)
  t.match(
    faults({ agent: { enabled: true, embedding }, workflows: workflows({ data: 'x', model: 'other' }) }),
    /steps\/0\/data.*takes its values from `params`[^]*steps\/0\/model.*uses the model of `agent.embedding`/
  )
  t.match(faults({ workflows: workflows({}) }), /steps\/0\/type/)
  t.match(faults({ agent: { enabled: true, embedding, vectorStore: { provider: 'qdrant' } } }), /vectorStore\/url/)
  t.same(checkConfig(testDocument({ agent: { enabled: true, embedding } }), { env: {} }).database.vectorTable, { dimensions: 1536 })
  t.equal(
    checkConfig(testDocument({ agent: { enabled: true, embedding, vectorStore: { provider: 'qdrant', url: 'http://localhost:6333' } } }), {
      env: {}
    }).database.vectorTable,
    undefined
  )
  t.equal(checkConfig(testDocument({}), { env: {} }).database.vectorTable, undefined)
  t.end()
})
