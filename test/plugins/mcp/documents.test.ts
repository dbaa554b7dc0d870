/** Documents of tenants as resources. */
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { documentsCursor } from '../../../plugins/mcp/documents.js'
import { vectorOf } from '../../helpers/models.js'
import { wireProvider } from '../models/app.js'
import { serve, token } from './app.js'

const dimensions = 32

/** A server with documents as resources. */
async function open (t: Test) {
  const { url } = await wireProvider(t, (response, { body: { input, model } }) => {
    const data = [input].flat().map((text, index) => ({ object: 'embedding', index, embedding: vectorOf(String(text), dimensions) }))
    response.setHeader('content-type', 'application/json')
      .end(JSON.stringify({ object: 'list', data, model, usage: { prompt_tokens: 3, total_tokens: 3 } }))
  })
  const embedding = { provider: 'local', model: 'words', baseUrl: url, dimensions } as const
  // The embedded engine has pgvector.
  const served = await serve(t, { agent: { enabled: true, embedding }, mcp: { url: '', documents: true } }, {
    engine: { provider: 'embedded' }
  })
  const put = async (tenant: string, id: string, document: string) => {
    const response = await served.app.inject({
      method: 'POST',
      url: '/agent/embeddings/document',
      headers: token(tenant),
      payload: { id, contentType: 'text/plain', document }
    })
    t.equal(response.statusCode, 201, response.body)
  }
  return { ...served, put }
}

test("a tenant's documents are its resources, and no other tenant reads them", async (t) => {
  const { connect, put } = await open(t)
  const strange = 'terms/of use?#%'
  await put('acme', strange, 'Refunds are possible within thirty days.')
  for (let index = 0; index < 51; index++) await put('acme', `d${index}`, `The text of ${index}.`)
  await put('globex', 'secret', 'Only for globex.')

  const [acme, globex] = [await connect(token('acme')), await connect(token('globex'))]
  const { resources } = await acme.listResources()
  t.equal(resources[0]?.uri, 'tenantry:///notes', 'routes come first')
  const documents = resources.filter(({ uri }) => uri.startsWith('tenantry://documents/'))
  t.equal(new Set(documents.map(({ uri }) => uri)).size, 52, 'of two pages')
  const found = documents.find(({ name }) => name === strange)
  t.match(found, {
    uri: `tenantry://documents/${encodeURIComponent(strange)}`,
    mimeType: 'text/plain',
    description: /text\/plain in 1 chunks/
  })
  t.match(await acme.readResource({ uri: found?.uri ?? '' }), {
    contents: [{ mimeType: 'text/plain', text: 'Refunds are possible within thirty days.' }]
  })
  t.match((await acme.listResourceTemplates()).resourceTemplates, [{ name: 'get_notes_by_id' }, {
    uriTemplate: 'tenantry://documents/{id}'
  }])

  t.strictSame((await globex.listResources()).resources.map(({ uri }) => uri), ['tenantry:///notes', 'tenantry://documents/secret'])
  for (const uri of [found?.uri ?? '', 'tenantry://documents/', 'tenantry://documents/%', 'tenantry://documents/%00', 'tenantry://documents/none']) {
    await t.rejects(globex.readResource({ uri }), /not found/i, uri)
  }
})

test('documents that are stored or deleted between two pages move no others', async (t) => {
  const { app, connect, put } = await open(t)
  const names = Array.from({ length: 102 }, (_, index) => `d${index}`)
  for (const name of names) await put('acme', name, `The text of ${name}.`)
  const remove = async (id: string) => {
    t.equal(await app.embeddings.remove('acme', id, { userId: null, address: null }), true)
  }
  // Documents of one time are sorted by id.
  await sql`update tenantry.agent_documents set created_at = date_trunc('milliseconds', now()) where id like 'd%7' or id like 'd%1'`
    .execute(app.db)
  const client = await connect(token('acme'))
  const listed: string[] = []
  let pages = 0
  for (let cursor: string | undefined = documentsCursor; cursor !== undefined; pages++) {
    const { resources, nextCursor } = await client.listResources({ cursor })
    listed.push(...resources.map(({ name }) => name))
    cursor = nextCursor
    if (pages === 0) for (const name of listed.slice(-2)) await remove(name)
    else for (const name of ['new', 'newer', 'newest']) await put('acme', `${name} ${pages}`, 'Stored after the page was read.')
  }
  t.equal(pages, 3)
  t.equal(listed.length, names.length, 'none is listed twice')
  t.same([...listed].sort(), [...names].sort(), 'each is listed')

  for (const text of ['\n50', '\n1767225600000', '\n1767225600000 ', '\nx d1', '\n1767225600000 \u0000', '\n999999999999999 d1']) {
    const cursor = Buffer.from(text).toString('base64url')
    const refusal = { code: -32602, message: /The cursor was not issued by this server/ }
    await t.rejects(client.listResources({ cursor }), refusal, JSON.stringify(text))
  }
})

test('documents are resources only if the document enables it', async (t) => {
  const embedding = { provider: 'local', model: 'words', baseUrl: 'http://127.0.0.1:1/v1', dimensions } as const
  const { connect } = await serve(t, { agent: { enabled: true, embedding } }, { engine: { provider: 'embedded' } })
  const client = await connect(token('acme'))
  t.strictSame((await client.listResourceTemplates()).resourceTemplates.map(({ name }) => name), ['get_notes_by_id'])
  await t.rejects(serve(t, { mcp: { url: '', documents: true } }), {
    message: /\/mcp\/documents: documents require `agent.embedding`, which is missing/
  })
})
