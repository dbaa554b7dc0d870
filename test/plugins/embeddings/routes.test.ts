/** The endpoints of documents and search, with two tenants. */
import { test } from 'tap'
import { deflatedSpaces, endlessFont, longPdf, pdfLines, pdfOf, pdfReaders } from '../../helpers/pdf.js'
import { until } from '../../helpers/until.js'
import { engines, open, putPdf } from './app.js'

const guide = '# Pumps\n\nThe red pump moves water.\n\n# Valves\n\nA blue valve stops steam.'
const markdown = { contentType: 'text/markdown', document: guide }

for (const [name, database] of Object.entries(engines)) {
  test(name, async (t) => {
    const { app, models, as, platform } = await open(t, { engine: await database(t) })
    const [acme, globex] = [as('acme'), as('globex')]
    const found = async (ask: typeof acme, body: object) => {
      const { status, body: { results } } = await ask('POST /agent/embeddings/search', { body })
      t.equal(status, 200)
      return (results as { id: string, chunk: number, content: string, score: number, metadata: object }[])
    }

    await t.test('texts are embedded in order, with the usage', async (t) => {
      const { status, body } = await acme('POST /agent/embeddings', { body: { texts: ['a b', 'c'] } })
      t.equal(status, 200)
      t.match(body, { model: 'words-1', usage: { inputTokens: 2, outputTokens: 0, totalTokens: 2, cost: 2e-6 } })
      t.equal((body['embeddings'] as number[][]).length, 2)
      t.match(models.calls.at(-1), { tenant: 'acme', user: { id: 'ada' } })
      for (const texts of [[], [''], ['x'.repeat(32_001)], Array.from({ length: 257 }, () => 'x'), 'x']) {
        t.equal((await acme('POST /agent/embeddings', { body: { texts } })).status, 400)
      }
    })

    await t.test('a document is split, found by meaning, and replaced under its id', async (t) => {
      const { status, body } = await acme('POST /agent/embeddings/document', {
        body: { ...markdown, id: 'guide', metadata: { lang: 'en' } }
      })
      t.equal(status, 201)
      t.match(body, { success: true, id: 'guide', chunks: 2, usage: { totalTokens: Number } })
      const [best, other] = await found(acme, { query: 'a red pump for water', limit: 2 })
      t.match(best, { id: 'guide', chunk: 0, content: 'Pumps\n\nThe red pump moves water.', metadata: { lang: 'en' } })
      t.ok(best!.score > other!.score && best!.score <= 1)
      const again = await acme('POST /agent/embeddings/document', {
        body: { contentType: 'text/plain', document: 'Only compressors.', id: 'guide' }
      })
      t.equal(again.status, 200)
      t.match(again.body, { success: true, id: 'guide', chunks: 1 })
      t.same((await found(acme, { query: 'red pump' })).map(({ content }) => content), ['Only compressors.'])
    })

    await t.test('metadata keeps every digit of its numbers, in lists and results too', async (t) => {
      const hooli = as('hooli')
      const numbers = '{"a":{"b":{"c":0.12345678901234567890123}},"id":12345678901234567890}'
      const document = `{"id":"numbers","contentType":"text/plain","document":"Numbers.","metadata":${numbers}}`
      t.equal((await hooli('POST /agent/embeddings/document', { raw: document })).status, 201)
      const listed = await hooli('GET /agent/embeddings/documents')
      const results = await hooli('POST /agent/embeddings/search', { body: { query: 'Numbers', mode: 'text' } })
      for (const { text } of [listed, results]) t.ok(text.includes(`"metadata":${numbers}`), text)
      t.equal((await hooli('POST /agent/embeddings/batch', { raw: `{"documents":[${document}]}` })).status, 202)
      await app.tenants.delete('hooli')
    })

    await t.test("another tenant's document is invisible to every request", async (t) => {
      t.same(await found(globex, { query: 'compressors' }), [])
      t.same(await found(globex, { query: 'compressors', mode: 'text' }), [])
      t.same(await found(globex, { query: 'compressors', mode: 'hybrid' }), [])
      t.same((await globex('GET /agent/embeddings/documents')).body, { data: [], pagination: { limit: 20, offset: 0, total: 0 } })
      t.equal((await globex('DELETE /agent/embeddings/document/guide')).status, 404)
      t.equal(
        (await globex('POST /agent/embeddings/document', { body: { contentType: 'text/plain', document: 'Ours.', id: 'guide' } })).status,
        201,
        'ids belong to the tenant'
      )
      t.same((await found(acme, { query: 'compressors' })).map(({ content }) => content), ['Only compressors.'])
    })

    await t.test('a search accepts modes, limits and filters', async (t) => {
      await acme('POST /agent/embeddings/document', { body: { ...markdown, id: 'second', metadata: { lang: 'en', year: 2026 } } })
      t.same((await found(acme, { query: 'compressors -pump', mode: 'text' })).map(({ id }) => id), ['guide'])
      const hybrid = await found(acme, { query: 'blue valve', mode: 'hybrid', limit: 1 })
      t.match(hybrid, [{ id: 'second', chunk: 1, score: 2 / 61 }])
      t.same((await found(acme, { query: 'valve', filter: { year: 2026 } })).map(({ id, chunk }) => `${id} ${chunk}`), [
        'second 1',
        'second 0'
      ])
      t.same(await found(acme, { query: 'valve', filter: { year: '2026' } }), [])
      t.equal((await found(acme, { query: 'blue valve steam', threshold: 0.6 })).length, 1)
      const { body } = await acme('POST /agent/embeddings/search', { body: { query: 'valve', mode: 'text' } })
      t.same(body['usage'], { inputTokens: 0, outputTokens: 0, totalTokens: 0, cost: 0 })
      for (
        const bad of [
          { query: '' },
          { query: 'x'.repeat(4001) },
          { query: 'x', limit: 0 },
          { query: 'x', limit: 101 },
          { query: 'x', threshold: 1.5 },
          { query: 'x', filter: { a: {} } },
          { query: 'x', filter: { a: '\u0000' } },
          { query: 'x', filter: { '\n': {} } },
          { query: 'x', filter: { ['x'.repeat(129)]: 1 } },
          { query: 'x', filter: Object.fromEntries(Array.from({ length: 21 }, (_, index) => [index, 1])) },
          { query: 'x', mode: 'all' },
          { query: 'x', tenant: 'globex' }
        ]
      ) {
        t.equal((await acme('POST /agent/embeddings/search', { body: bad })).status, 400, JSON.stringify(bad).slice(0, 80))
      }
      const long = await acme('POST /agent/embeddings/search', { body: { query: 'x', filter: { ['/'.repeat(100_000)]: [1] } } })
      t.ok(JSON.stringify(long.body).length < 1000, 'a long name is not repeated')
      t.equal(
        (await acme('POST /agent/embeddings/search', { body: { query: '\ud800 \u0000 valve' } })).status,
        200,
        'unpaired surrogates are accepted'
      )
    })

    await t.test('documents are listed and deleted, with one audit entry for each change', async (t) => {
      const { body } = await acme('GET /agent/embeddings/documents?limit=1')
      t.match(body, {
        data: [{ id: 'second', contentType: 'text/markdown', metadata: { lang: 'en', year: 2026 }, chunks: 2, createdAt: /^2/ }],
        pagination: { limit: 1, offset: 0, total: 2 }
      })
      t.same((await acme('DELETE /agent/embeddings/document/guide')).body, { success: true })
      t.equal((await acme('DELETE /agent/embeddings/document/guide')).status, 404)
      const entries = await app.db.selectFrom('tenantry.audit_log').select(['action', 'target', 'user_id']).where('tenant_id', '=', 'acme')
        .where('action', 'like', 'document.%').orderBy('id').execute()
      t.same(entries.map(({ action, target, user_id: user }) => `${action} ${target} ${user}`), [
        'document.create guide ada',
        'document.replace guide ada',
        'document.create second ada',
        'document.delete guide ada'
      ])
    })

    await t.test('HTML and PDF documents are accepted', async (t) => {
      const html = { contentType: 'text/html', document: '<h1>Fans</h1><p>A green fan &amp; a grille</p><script>hidden()</script>' }
      t.equal((await acme('POST /agent/embeddings/document', { body: { ...html, id: 'html' } })).status, 201)
      t.same((await found(acme, { query: 'green fan', limit: 1 })).map(({ content }) => content), ['Fans\n\nA green fan & a grille'])
      const bytes = pdfOf(pdfLines(['A yellow turbine spins.']))
      const pdf = { ...await putPdf(app, 'acme', bytes), id: 'pdf' }
      t.match((await acme('POST /agent/embeddings/document', { body: pdf })).body, { id: 'pdf', chunks: 1 })
      t.same((await found(acme, { query: 'yellow turbine', limit: 1 })).map(({ content }) => content), ['A yellow turbine spins.'])
      t.equal((await globex('POST /agent/embeddings/document', { body: pdf })).status, 404, "another tenant's file")
    })

    await t.test('invalid documents are rejected with the reason', async (t) => {
      const plain = { contentType: 'text/plain', document: 'x' }
      const nested = JSON.parse(`${'{"a":'.repeat(5)}1${'}'.repeat(5)}`)
      for (
        const body of [
          {},
          { contentType: 'text/plain' },
          { contentType: 'image/png', document: 'x' },
          { contentType: 'application/pdf', document: 'x' },
          { ...plain, fileId: '8f14e45f-ceea-467f-9a2e-1f5e4c3b2a10' },
          { ...plain, id: '' },
          { ...plain, id: 'x'.repeat(201) },
          { ...plain, id: 'a\nb' },
          { ...plain, metadata: [] },
          { ...plain, metadata: nested },
          { ...plain, metadata: { a: 'x'.repeat(9000) } },
          { ...plain, metadata: { a: '\u0000' } },
          { ...plain, metadata: Object.fromEntries(Array.from({ length: 65 }, (_, index) => [index, 1])) },
          { ...plain, metadata: { ['x'.repeat(129)]: 1 } },
          { ...plain, tenant: 'globex' }
        ]
      ) {
        const { status, body: { details } } = await acme('POST /agent/embeddings/document', { body })
        t.equal(status, 400, JSON.stringify(body).slice(0, 80))
        t.ok(details?.length)
      }
      t.match((await acme('POST /agent/embeddings/document', { body: { ...plain, document: ' \n ' } })).body, {
        code: 'TENANTRY_DOCUMENT_UNREADABLE',
        message: 'The document has no text'
      })
      t.match(
        (await acme('POST /agent/embeddings/document', { body: { contentType: 'text/markdown', document: '# a\nb\n'.repeat(2001) } })).body,
        { code: 'TENANTRY_DOCUMENT_UNREADABLE', message: /more than 2000 chunks/ }
      )
    })

    await t.test('callers without a token, a tenant or the permission are rejected', async (t) => {
      const { body: { results: none } } = await as('initech')('POST /agent/embeddings/search', { body: { query: 'pump' } })
      t.same(none, [])
      t.equal((await platform('POST /agent/embeddings/search', { body: { query: 'pump' } })).status, 400, 'the platform has no documents')
      t.equal((await acme('POST /agent/embeddings/reindex')).status, 403)
      t.equal((await as('acme', { role: 'admin' })('POST /agent/embeddings/reindex')).status, 403)
      t.match(await platform('POST /agent/embeddings/reindex'), { status: 202, body: { success: true, stale: false } })
      t.equal((await app.inject({ method: 'POST', url: '/agent/embeddings', payload: { texts: ['x'] } })).statusCode, 401)
    })

    await t.test('an idempotency key makes a repeated request store one document', async (t) => {
      const send = () =>
        acme('POST /agent/embeddings/document', {
          body: { contentType: 'text/plain', document: 'once' },
          headers: { 'idempotency-key': 'a-key' }
        })
      const [one, two] = [await send(), await send()]
      t.equal(one.status, 201)
      t.same(two.body, one.body)
    })

    await t.test("deleting a tenant deletes its documents, and no other tenant's", async (t) => {
      await app.tenants.delete('acme')
      const rows = await app.db.selectFrom('tenantry.agent_chunks').select('tenant_id').distinct().execute()
      t.same(rows.map(({ tenant_id: tenant }) => tenant), ['globex'])
    })
  })
}

test('hostile PDF files end neither the server nor requests of other tenants', async (t) => {
  const { app, as } = await open(t)
  const [acme, globex] = [as('acme'), as('globex')]
  t.equal((await acme('GET /agent/embeddings/documents')).status, 200, 'the tenant is created')
  const hostile = {
    font: await putPdf(app, 'acme', pdfOf('BT /F1 12 Tf (A) Tj ET', { font: endlessFont })),
    bomb: await putPdf(app, 'acme', pdfOf(deflatedSpaces(600), { deflate: 'done' }))
  }
  for (const [name, body] of Object.entries(hostile)) {
    const answers = [acme('POST /agent/embeddings/document', { body })]
    await until('the file is read', () => pdfReaders(process.pid).length === 1)
    answers.push(globex('POST /agent/embeddings/document', { body: { contentType: 'text/plain', document: 'a red pump' } }))
    const [refused, other] = await Promise.all(answers)
    t.match(refused, { status: 422, body: { code: 'TENANTRY_DOCUMENT_UNREADABLE', message: /needs too much time or memory/ } }, name)
    t.equal(other?.status, 201)
  }
})

test('an app that closes ends the processes that read PDF files', async (t) => {
  const { app, as } = await open(t)
  t.equal((await as('acme')('GET /agent/embeddings/documents')).status, 200, 'the tenant is created')
  const actor = { userId: 'ada', address: null }
  const reading = t.rejects(
    app.embeddings.put('acme', await putPdf(app, 'acme', longPdf()), { actor, user: null, signal: new AbortController().signal }),
    { code: 'TENANTRY_STOPPING' }
  )
  await until('the file is read', () => pdfReaders(process.pid).length === 1)
  await app.close()
  await reading
  t.same(pdfReaders(process.pid), [])
})
