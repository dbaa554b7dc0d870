/** Steps that call tools, in runs that one process starts and others run. */
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { gate } from '../../helpers/gate.js'
import { startInstance } from '../../helpers/instances.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'
import { agentOf } from '../models/app.js'
import { type AskedCall, boss, document, modelWithTools } from './tools-app.js'

const asks = (id: string) => ({ id, type: 'llm' as const, prompt: id, params: { tools: ['add_note'] } })

/** A server that starts runs and does not run them, and processes that do. */
async function open (t: Test, calls: readonly AskedCall[]) {
  const engine = await postgresSection(t)
  const model = await modelWithTools(t, calls)
  const own: TestDocument = {
    ...document,
    agent: agentOf('local', model.url),
    workflows: [{ id: 'one', steps: [asks('ask')] }, { id: 'two', steps: [asks('first'), asks('second')] }]
  }
  const app = await testServer(t, { ...own, queue: { workers: 0 } }, { engine, tenants: ['acme'] })
  const ask = caller(t, app)
  return {
    app,
    ask,
    model,
    startWorker: () => startInstance(t, own, engine),
    async start (headers: Record<string, string>, ref: string): Promise<string> {
      const { status, body, text } = await ask('POST /agent/workflow/run', { headers, body: { ref } })
      t.equal(status, 202, text)
      return String(body['workflowId'])
    },
    async ended (id: string) {
      const status = async () => (await ask(`GET /agent/workflow/status?workflowId=${id}`, { token: boss() })).body
      await until('the run ends', async () => !['queued', 'running'].includes(String((await status())['status'])))
      return await status()
    },
    async notes (): Promise<number> {
      const { rows } = await sql`select from notes where tenant_id = 'acme'`.execute(app.db)
      return rows.length
    }
  }
}

test("a run in another process calls tools with its caller's permissions, and loses them when the caller does", async (t) => {
  const { ask, model, start, startWorker, ended, notes } = await open(t, [{ name: 'add_note', input: { body: { title: 'a note' } } }])
  const worker = await startWorker()
  const { body: { key, id } } = await ask('POST /tenant/api-keys', { token: boss(), body: { name: 'k', scopes: [] } })
  const headers = { 'x-api-key': secretText(String(key), 'an API key') }
  t.match(await ended(await start(headers, 'one')), { status: 'completed' })
  t.equal(await notes(), 1)

  const door = gate()
  model.wait = () => door.opened
  model.results.length = 0
  const run = await start(headers, 'one')
  await until('the model is called', () => model.asked() === 2)
  t.match(await ask(`DELETE /tenant/api-keys/${String(id)}`, { token: boss() }), { status: 200 })
  await until('the other process is notified', async () => (await fetch(`${worker.address}/notes`, { headers })).status === 401)
  door.open()
  t.match(await ended(run), { status: 'completed' })
  t.match(model.results, [/API key not recognized/])
  t.equal(await notes(), 1)
})

test('a tool whose process is killed after the call is not called again by another process', { timeout: 240_000 }, async (t) => {
  const { app, model, start, startWorker, ended, notes } = await open(t, [{ name: 'add_note', input: { body: { title: 'a note' } } }])
  const first = await startWorker()
  const door = gate()
  model.wait = async () => {
    if (model.results.length === 2) await door.opened
  }
  const id = await start({ authorization: `Bearer ${signToken({ sub: 'ada', role: 'user', tenant_id: 'acme' })}` }, 'two')
  await until('the second step has called its tool', () => model.results.length === 2)
  t.equal(await notes(), 2)
  t.equal(await first.stop('SIGKILL'), null)

  // As if the killed process's claim had expired.
  await app.events.change({ topic: 'queue', tenant: '' }, async () => {
    await sql`update tenantry_queue.job set started_on = started_on - interval '1 hour' where state = 'active'`.execute(app.db)
  })
  door.open()
  const second = await startWorker()
  t.match(await ended(id), {
    status: 'failed',
    error: { code: 'TENANTRY_STEP_ANSWER_LOST' },
    steps: [{ id: 'first', status: 'completed' }, { id: 'second', status: 'failed' }]
  })
  t.equal(await notes(), 2, 'neither the tool of the completed step nor that of the lost one is called again')
  t.equal(model.asked(), 2)
  t.equal(await second.stop(), 0)
})
