/** Batches of documents, and reindexing of documents. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { test } from 'tap'
import { failure, retryIn } from '../../../lib/errors.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createBatches } from '../../../plugins/embeddings/batches.js'
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

/** Makes delayed jobs due until the batch has ended. */
async function endedSoon (app: FastifyInstance, ask: Ask, statusUrl: unknown): Promise<Record<string, unknown>> {
  const { body } = await until(async () => {
    await app.events.change({ topic: 'queue', tenant: '' }, async (transaction) => {
      await sql`update tenantry_queue.job set start_after = created_on where state < 'active' and start_after > created_on`.execute(transaction)
    })
    return await ask(`GET ${String(statusUrl)}`)
  }, ({ body }) => body['status'] === 'completed')
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
    t.match(await endedSoon(app, acme, body['statusUrl']), { done: 2, failed: { length: 0 } })
    t.same(models.calls.slice(before).map(({ texts }) => texts[0]), ['first', 'second', 'second'])
    models.before = () => undefined
  })

  /** Sends texts as a batch. The failures of a text are those of its first tries. */
  async function tried (failures: Readonly<Record<string, readonly Error[]>>) {
    const tries = new Map<string, number>()
    models.before = async ({ texts: [text = ''] }) => {
      const nth = tries.get(text) ?? 0
      tries.set(text, nth + 1)
      const error = failures[text]?.[nth]
      if (error !== undefined) throw error
    }
    const documents = Object.keys(failures).map((document) => text(document))
    const { body } = await acme('POST /agent/embeddings/batch', { body: { documents } })
    const { done, failed } = await endedSoon(app, acme, body['statusUrl'])
    models.before = () => undefined
    return { done, failed, tries: Object.fromEntries(tries) }
  }
  const times = (count: number, error: Error) => Array<Error>(count).fill(error)

  await t.test('each document has four tries of its own', async (t) => {
    const error = failure('providerFailed')
    t.match(await tried({ first: times(9, error), second: times(3, error), third: times(1, error), fourth: [] }), {
      done: 3,
      failed: [{ index: 0, error: error.message }],
      tries: { first: 4, second: 4, third: 2, fourth: 1 }
    })
  })

  await t.test('a wait for a place is not a try', async (t) => {
    const [busy, error] = [failure('documentsBusy', retryIn(1)), failure('providerFailed')]
    t.match(await tried({ first: [error, ...times(5, busy), error, error] }), { done: 1, failed: { length: 0 }, tries: { first: 9 } })
  })

  await t.test('the next try of a document is not before the time that its provider names', async (t) => {
    let failed = false
    models.before = async () => {
      if (failed) return
      failed = true
      throw failure('providerBusy', retryIn(600))
    }
    const { body } = await acme('POST /agent/embeddings/batch', { body: { documents: [text('later')] } })
    const { delay } = await until(async () => {
      const { rows: [row] } = await sql<{ delay: number }>`select extract(epoch from start_after - created_on)::float8 as delay
        from tenantry_queue.job where state < 'active' and start_after > created_on`.execute(app.db)
      return row ?? { delay: 0 }
    }, ({ delay }) => delay > 0)
    t.ok(delay >= 600, `${delay} s`)
    t.match(await endedSoon(app, acme, body['statusUrl']), { done: 1 })
    models.before = () => undefined
  })

  await t.test('a document is set aside together with the job that continues', async (t) => {
    const entered = gate()
    models.before = async ({ signal }) => {
      entered.open()
      await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    }
    const { body } = await acme('POST /agent/embeddings/batch', { body: { documents: [text('first'), text('second')] } })
    await entered.opened
    const { db, engine } = app
    const batches = createBatches({
      db,
      dbFor: (tenant) => engine.kyselyFor(tenant),
      queue: {
        send: async () => {
          throw failure('queueFull', retryIn(1))
        }
      },
      service: {
        putWith: async () => {
          throw new Error('no document is stored')
        }
      },
      now: Date.now
    })
    await t.rejects(batches.setAside({ tenant: tenantRef('acme'), data: { batchId: body['batchId'] } }), { code: 'TENANTRY_QUEUE_FULL' })
    t.match((await acme(`GET ${String(body['statusUrl'])}`)).body, { status: 'running', done: 0, failed: { length: 0 } })
    models.before = () => undefined
    await sql`delete from tenantry_queue.job where state = 'active'`.execute(db)
  })

  await t.test('a batch has 1 to 100 valid documents', async (t) => {
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
