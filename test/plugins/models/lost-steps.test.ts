/** Steps whose process is killed during a model's response: the call is charged once, and not repeated. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { pgvectorDatabase } from '../../helpers/pgvector.js'
import { type DatabaseSection, postgresSection } from '../../helpers/postgres.js'
import { startProgram } from '../../helpers/program.js'
import { type TestDocument, testDocument, testEnv, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'
import { agentOf, begin, chunk, finish, ledger, plans, wireProvider } from './app.js'

/** A server that starts runs without running them, and a function that starts a process to run them. */
async function open (t: Test, document: TestDocument, engine: DatabaseSection) {
  const sender = await testServer(t, { ...document, queue: { workers: 0 } }, { engine, tenants: [{ id: 'acme', plan: 'large' }] })
  return {
    sender,
    acme: caller(t, sender, { token: signToken({ sub: 'ada', role: 'user', tenant_id: 'acme' }) }),
    startWorker: () =>
      startProgram(t, 'test/programs/server.ts', { ...testEnv, TEST_DOCUMENT: JSON.stringify(testDocument(document, engine)) })
  }
}

/** Expires the killed process's claim. */
async function forget ({ db, events }: FastifyInstance): Promise<void> {
  await events.change({ topic: 'queue', tenant: '' }, async () => {
    await sql`update tenantry_queue.job set started_on = started_on - interval '1 hour' where state = 'active'`.execute(db)
  })
  await sql`update tenantry.usage_instances set seen_at = seen_at - interval '30 seconds' where id in (select instance_id from tenantry.usage_reservations)`
    .execute(db)
}

test('a step whose process is killed after the call was sent fails, and the call is charged once', { timeout: 240_000 }, async (t) => {
  const engine = await postgresSection(t)
  const wire = await wireProvider(t, (response) => {
    begin(response)
    // A second call would succeed.
    if (wire.requests.length > 1) response.end(chunk('Red.') + finish({ input: 10, output: 5 }))
    else response.write(chunk('one two'))
  })
  const document: TestDocument = {
    plans,
    agent: agentOf('local', wire.url),
    workflows: [{ id: 'colour', steps: [{ id: 'ask', type: 'llm', prompt: 'A colour', retry: { attempts: 3, backoffMs: 0 } }] }]
  }
  const { sender, acme, startWorker } = await open(t, document, engine)

  const { body: { workflowId } } = await acme('POST /agent/workflow/run', { body: { ref: 'colour' } })
  const first = await startWorker()
  await until('the model is called', () => wire.requests.length === 1)
  t.equal(await first.stop('SIGKILL'), null)
  await wire.requests[0]?.closed
  t.equal((await ledger(sender, 'acme')).tokens, 0, 'nothing is booked yet')

  await forget(sender)
  const second = await startWorker()
  const status = async (id: unknown) => (await acme(`GET /agent/workflow/status?workflowId=${String(id)}`)).body
  const ends = (id: unknown) =>
    until('the run ends', async () => !['queued', 'running'].includes(String((await status(id))['status'])))
  await ends(workflowId)
  t.match(await status(workflowId), {
    status: 'failed',
    error: { code: 'TENANTRY_STEP_ANSWER_LOST', message: /may have been charged.*not repeated/ },
    steps: [{ id: 'ask', status: 'failed' }]
  })
  t.equal(wire.requests.length, 1, 'the model is not called again')
  await until("the killed process's reservation is booked", async () => (await ledger(sender, 'acme')).open === 0)
  // A prompt of 11 tokens and a response of up to 100.
  t.strictSame(await ledger(sender, 'acme'), { tokens: 111, cost: 211, open: 0 })

  const { body: other } = await acme('POST /agent/workflow/run', { body: { ref: 'colour' } })
  await ends(other['workflowId'])
  t.match(await status(other['workflowId']), { status: 'completed', result: 'Red.' }, 'another run calls it')
  t.equal(wire.requests.length, 2)
  t.equal(await second.stop(), 0)
})

test(
  'an embeddings step whose process is killed after the call was sent fails, and the call is charged once',
  { timeout: 240_000 },
  async (t) => {
    const { connectionString } = await pgvectorDatabase(t)
    const engine = { provider: 'postgres', postgres: { connectionString } } as const
    const wire = await wireProvider(t, (response) => {
      // A second call would succeed.
      if (wire.requests.length === 1) return
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify({
          object: 'list',
          model: 'vectors',
          data: [{ index: 0, embedding: [1, 2, 3, 4] }],
          usage: { prompt_tokens: 2, total_tokens: 2 }
        })
      )
    })
    const document: TestDocument = {
      plans,
      agent: agentOf('local', wire.url, { embedding: { provider: 'local', model: 'vectors', baseUrl: wire.url, dimensions: 4 } }),
      workflows: [
        {
          id: 'colour',
          steps: [{
            id: 'ask',
            type: 'embeddings',
            operation: 'embed',
            params: { texts: ['a colour'] },
            retry: { attempts: 3, backoffMs: 0 }
          }]
        }
      ]
    }
    const { sender, acme, startWorker } = await open(t, document, engine)

    const { body: { workflowId } } = await acme('POST /agent/workflow/run', { body: { ref: 'colour' } })
    const first = await startWorker()
    await until('the model is called', () => wire.requests.length === 1)
    t.equal(await first.stop('SIGKILL'), null)
    await wire.requests[0]?.closed

    await forget(sender)
    await startWorker()
    const status = async () => (await acme(`GET /agent/workflow/status?workflowId=${String(workflowId)}`)).body
    await until('the run ends', async () => !['queued', 'running'].includes(String((await status())['status'])))
    t.match(await status(), { status: 'failed', error: { code: 'TENANTRY_STEP_ANSWER_LOST' }, steps: [{ id: 'ask', status: 'failed' }] })
    t.equal(wire.requests.length, 1, 'the model is not called again')
    await until("the killed process's reservation is booked", async () => (await ledger(sender, 'acme')).open === 0)
    t.ok((await ledger(sender, 'acme')).tokens > 0)
  }
)
