/** Batches of documents, and reindexing of documents. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import { failure } from '../../../lib/errors.js'
import { atOnce } from '../../helpers/at-once.js'
import { gate } from '../../helpers/gate.js'
import { fakeModels } from '../../helpers/models.js'
import { pgvectorDatabase } from '../../helpers/pgvector.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { startProgram } from '../../helpers/program.js'
import { qdrantServer } from '../../helpers/qdrant.js'
import { type Ask, refused } from '../../http/caller.js'
import { open } from './app.js'

const text = (document: string, id?: string) => ({ contentType: 'text/plain', document, ...id !== undefined && { id } })

async function until<Value> (look: () => Promise<Value>, isDone: (value: Value) => boolean): Promise<Value> {
  for (;;) {
    const value = await look()
    if (isDone(value)) return value
    await sleep(25)
  }
}

async function ended (ask: Ask, statusUrl: unknown): Promise<Record<string, unknown>> {
  const { body } = await until(() => ask(`GET ${String(statusUrl)}`), ({ body }) => body['status'] === 'completed')
  return body
}

test('batches', async (t) => {
  const { app, models, as } = await open(t)
  const [acme, globex] = [as('acme'), as('globex')]

  await t.test("documents are stored in the background, and failures have their document's index", async (t) => {
    const documents = [text('a red pump', 'one'), text(' '), text('a blue valve'), {
      contentType: 'application/pdf',
      fileId: '8f14e45f-ceea-467f-9a2e-1f5e4c3b2a10'
    }]
    t.equal((await acme('POST /agent/embeddings/batch', { body: { documents } })).status, 404, 'files are looked up first')
    const { status, body } = await acme('POST /agent/embeddings/batch', { body: { documents: documents.slice(0, 3) } })
    t.equal(status, 202)
    t.match(body, { status: 'queued', total: 3, statusUrl: `/agent/embeddings/batch/${String(body['batchId'])}` })
    t.same(await ended(acme, body['statusUrl']), {
      batchId: body['batchId'],
      status: 'completed',
      total: 3,
      done: 2,
      failed: [{ index: 1, error: 'The document has no text' }]
    })
    t.equal((await globex(`GET ${String(body['statusUrl'])}`)).status, 404, 'another tenant cannot see the batch')
    const { rows } = { rows: await app.db.selectFrom('tenantry.agent_batch_documents').select(['position', 'input']).execute() }
    t.equal(rows.length, 3)
    t.ok(rows.every(({ input }) => input === null), 'a finished batch keeps no text')
    const entries = await app.db.selectFrom('tenantry.audit_log').select(['action', 'user_id']).where('action', 'like', 'document.%')
      .execute()
    t.same(entries, [{ action: 'document.create', user_id: 'ada' }, { action: 'document.create', user_id: 'ada' }])
  })

  await t.test('a failing provider is retried, without documents that were done', async (t) => {
    let failures = 0
    models.before = async ({ texts }) => {
      if (texts[0] !== 'second' || failures++ > 0) return
      throw failure('providerBusy')
    }
    const before = models.calls.length
    const { body } = await acme('POST /agent/embeddings/batch', { body: { documents: [text('first', 'first'), text('second', 'second')] } })
    // The next attempt is due in seconds.
    await until(async () => failures, (count) => count > 0)
    await until(
      async () =>
        await app.db.updateTable('tenantry_queue.job').set({ start_after: new Date(0) } as never).where('state', '=', 'retry')
          .returning('id').executeTakeFirst(),
      (row) => row !== undefined
    )
    t.match(await ended(acme, body['statusUrl']), { done: 2, failed: { length: 0 } })
    t.same(models.calls.slice(before).map(({ texts }) => texts[0]), ['first', 'second', 'second'])
    models.before = () => undefined
  })

  await t.test('bounds', async (t) => {
    for (
      const documents of [[], Array.from({ length: 101 }, () => text('x')), [text('x'), { contentType: 'text/plain' }], [{
        ...text('x'),
        extra: 1
      }]]
    ) {
      t.equal((await acme('POST /agent/embeddings/batch', { body: { documents } })).status, 400)
    }
    t.match(
      (await acme('POST /agent/embeddings/batch', { body: { documents: [text('x'), { contentType: 'text/plain' }] } })).body.details,
      [{ path: '/body/documents/1/document' }]
    )
    t.equal((await acme('GET /agent/embeddings/batch/8f14e45f-ceea-467f-9a2e-1f5e4c3b2a10')).status, 404)
  })
})

test('a batch of a killed process is continued by another one, and no document is stored twice', async (t) => {
  const { connectionString } = await pgvectorDatabase(t)
  const gateFile = join(t.testdir(), 'gate')
  const { app, as } = await open(t, { engine: { postgres: { connectionString } }, workers: 0 })
  const env = { TEST_DATABASE: connectionString, TEST_GATE: gateFile }
  const first = await startProgram(t, 'test/programs/embeddings.ts', env)
  const documents = Array.from({ length: 6 }, (_, index) => text(index === 3 ? 'stop here' : `document ${index}`))
  const acme = as('acme')
  const { body } = await acme('POST /agent/embeddings/batch', { body: { documents } })
  await until(async () => first.output(), (output) => output.includes('the document that stops'))
  t.match((await acme(`GET ${String(body['statusUrl'])}`)).body, { status: 'running', done: 3 })
  await first.stop('SIGKILL')
  await writeFile(gateFile, '')
  await startProgram(t, 'test/programs/embeddings.ts', env)
  t.match(await ended(acme, body['statusUrl']), { status: 'completed', done: 6, failed: { length: 0 } })
  t.match((await acme('GET /agent/embeddings/documents')).body, { pagination: { total: 6 } })
  const entries = await app.db.selectFrom('tenantry.audit_log').select('id').where('action', '=', 'document.create').execute()
  t.equal(entries.length, 6)
})

test('another model', (t) =>
  atOnce(t, {
    'the start names both models, and says how to continue': async (t) => {
      const { connectionString } = await pgvectorDatabase(t)
      const engine = { postgres: { connectionString } }
      const first = await open(t, { engine })
      for (const tenant of ['acme', 'globex']) {
        await first.as(tenant)('POST /agent/embeddings/document', { body: text('a red pump', 'pump') })
      }
      await first.app.close()
      const models = fakeModels(32, 'words-2')
      await t.rejects(open(t, { engine, models, dimensions: 32 }), {
        message:
          /embedded with "words-1" \(64 dimensions, in pgvector\), but the configuration names "words-2" \(32 dimensions, in pgvector\).*agent\.embedding\.reindex/
      })
      const { as, platform, app } = await open(t, { engine, models, dimensions: 32, reindex: true })
      const search = async (tenant: string, mode: string) =>
        (await as(tenant)('POST /agent/embeddings/search', { body: { query: 'red pump', mode } })).body['results']
      t.same(await search('acme', 'vector'), [], 'vectors of the old model are not compared')
      t.match(await search('acme', 'text'), [{ id: 'pump' }])
      t.match(await platform('POST /agent/embeddings/reindex'), { status: 202, body: { stale: true } })
      t.match(
        await until(() => search('acme', 'vector'), (found) => Array.isArray(found) && found.length > 0),
        [{ id: 'pump', content: 'a red pump' }]
      )
      t.match(await until(() => search('globex', 'vector'), (found) => Array.isArray(found) && found.length > 0), [{ id: 'pump' }])
      t.match(await platform('POST /agent/embeddings/reindex'), { status: 202, body: { stale: false } })
      const entries = await app.db.selectFrom('tenantry.audit_log').select(['tenant_id', 'target']).where('action', '=', 'document.reindex')
        .orderBy('tenant_id').execute()
      t.same(entries, [{ tenant_id: 'acme', target: 'pump' }, { tenant_id: 'globex', target: 'pump' }])
      await app.close()
      await (await open(t, { engine, models, dimensions: 32 })).app.close()
    },

    'a document whose tenant is deleted while it is written leaves no vectors': async (t) => {
      const { connectionString } = await postgresDatabase(t)
      const qdrant = await qdrantServer(t)
      const vectorStore = { provider: 'qdrant' as const, url: qdrant.url, apiKey: qdrant.apiKey }
      const { app, as } = await open(t, { engine: { postgres: { connectionString } }, vectorStore })
      const [reached, written] = [gate(), gate()]
      qdrant.fails = async (request) => {
        if (request !== 'PUT /collections/tenantry/points') return false
        reached.open()
        await written.opened
        return false
      }
      const late = as('acme')('POST /agent/embeddings/document', { body: text('a late pump', 'pump') })
      await reached.opened
      await app.tenants.delete('acme')
      written.open()
      refused(t, await late, 404, 'TENANT_UNKNOWN')
      t.equal(qdrant.collections.get('tenantry')?.points.size, 0)
      t.same(await app.db.selectFrom('tenantry.agent_stale_vectors').selectAll().execute(), [])
    },

    'a move to Qdrant reindexes the documents, and its errors contain no text of them': async (t) => {
      const { connectionString } = await postgresDatabase(t)
      const engine = { postgres: { connectionString } }
      const qdrant = await qdrantServer(t)
      const vectorStore = { provider: 'qdrant' as const, url: qdrant.url, apiKey: qdrant.apiKey }
      const { app, as } = await open(t, { engine, vectorStore })
      const [acme, globex] = [as('acme'), as('globex')]
      const store = (ask: Ask, body: object) => ask('POST /agent/embeddings/document', { body })
      const found = async (ask: Ask) =>
        ((await ask('POST /agent/embeddings/search', { body: { query: 'pump' } })).body['results'] as { content: string }[]).map((
          { content }
        ) => content)
      t.equal((await store(acme, text('a red pump', 'pump'))).status, 201)
      t.equal((await store(globex, text('the pump of globex', 'pump'))).status, 201)
      t.same(await found(acme), ['a red pump'])
      t.equal((await store(acme, text('a green pump', 'pump'))).status, 200)
      t.same(await found(acme), ['a green pump'])
      t.equal(qdrant.collections.get('tenantry')?.points.size, 2)

      qdrant.fails = (request) => request === 'PUT /collections/tenantry/points'
      const refused = await store(acme, text('a lost pump', 'pump'))
      t.match(refused, {
        status: 503,
        body: { code: 'TENANTRY_VECTOR_STORE_UNAVAILABLE', message: 'The vector store cannot be reached; try again' }
      })
      t.notMatch(refused.text, /internal text/)
      t.same(await found(acme), ['a green pump'])

      qdrant.fails = (request) => request.endsWith('/points/delete')
      t.equal((await store(acme, text('a new pump', 'pump'))).status, 200, 'remaining old vectors have no effect')
      t.equal(qdrant.collections.get('tenantry')?.points.size, 3)
      t.same(await found(acme), ['a new pump'])
      t.equal((await acme('DELETE /agent/embeddings/document/pump')).status, 200)
      t.same(await found(acme), [])
      qdrant.fails = () => false
      await store(acme, text('one more pump', 'pump'))
      await app.tenants.delete('acme')
      t.same([...qdrant.collections.get('tenantry')!.points.values()].map(({ payload }) => payload['tenant']), ['globex'])
      t.same(await found(globex), ['the pump of globex'])
      await app.close()
      await t.rejects(open(t, { engine, vectorStore, models: fakeModels(32), dimensions: 32 }), {
        message: /has vectors of 64 numbers, but agent\.embedding\.dimensions is 32/
      })
      await t.rejects(open(t, { engine, vectorStore: { ...vectorStore, apiKey: 'another' } }), {
        message: 'The vector store cannot be reached; try again'
      })
    }
  }))
