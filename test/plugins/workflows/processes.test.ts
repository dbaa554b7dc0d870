/** Processes that die while they run workflows. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { CompiledQuery } from 'kysely'
import pg from 'pg'
import { Webhook } from 'standardwebhooks'
import { type Test, test } from 'tap'
import { atOnce } from '../../helpers/at-once.js'
import { postgresDatabase, postgresServer } from '../../helpers/postgres.js'
import { startProgram } from '../../helpers/program.js'
import { remote } from '../../helpers/remote.js'
import type { TestDocument } from '../../helpers/server.js'
import { testEnv, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'

// Each is one more process.
const steps = Array.from({ length: 6 }, (_, index) => `step-${index + 1}`)
const calls = steps.filter((_, index) => index % 2 === 0)
const writes = steps.filter((_, index) => index % 2 === 1)

const tables: TestDocument['tables'] = {
  notes: {
    tenantScoped: true,
    columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text', notNull: true } },
    unique: [['title']]
  }
}

function documentOf (origin: string): TestDocument {
  return {
    tables,
    customIntegrations: [{ name: 'counter', baseUrl: origin, actions: { count: { method: 'POST', path: '/count/{{params.step}}' } } }],
    workflows: [{
      id: 'six',
      webhookOnComplete: `${origin}/done`,
      steps: steps.map((id) =>
        calls.includes(id)
          ? { id, type: 'integration' as const, integration: 'counter', action: 'count', params: { step: id }, timeoutMs: 60_000 }
          : { id, type: 'database' as const, operation: 'insert', table: 'notes', data: { title: id }, select: 'title' }
      )
    }]
  }
}

// One waits for its database, the other for processes.
test('workflows survive processes that die', (t) =>
  atOnce(t, {
    'a run whose worker is killed in every step completes, and no finished step runs again': isKilled,
    'a run that kills a process twice at the same step has failed, and its callback is notified': isSetAside,
    'a run whose database is lost during its steps completes, and no step fails': losesItsDatabase
  }))

async function isKilled (t: Test): Promise<void> {
  const { connectionString } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const

  /** Keys of the calls, in order. The first call of each step never gets a response. */
  const keys: string[] = []
  const callbacks: { readonly headers: Record<string, string>, readonly body: string }[] = []
  const service = createServer((request, response) => {
    if (request.url === '/done') {
      text(request).then((body) => {
        callbacks.push({ headers: Object(request.headers), body })
        response.end()
      }, () => {})
      return
    }
    const key = String(request.headers['idempotency-key'])
    keys.push(key)
    if (keys.filter((one) => one === key).length > 1) response.setHeader('content-type', 'application/json').end('{"done":true}')
  })
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    service.closeAllConnections()
    service.close()
  })
  const { port } = service.address() as AddressInfo
  const document = documentOf(`http://127.0.0.1:${port}`)

  const sender = await testServer(t, { ...document, queue: { workers: 0 } }, { engine, tenants: ['a'] })
  const run = async (text: string) => (await sender.db.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text))).rows
  const ask = caller(t, sender, { token: signToken({ sub: 'u', role: 'user', tenant_id: 'a' }) })

  // A writer of the same title waits until this is rolled back.
  const blockers = new Map<string, pg.Client>()
  for (const id of writes) {
    const client = new pg.Client({ connectionString })
    await client.connect()
    t.teardown(() => client.end())
    await client.query('begin')
    await client.query("insert into notes (tenant_id, title) values ('a', $1)", [id])
    blockers.set(id, client)
  }

  const { body: { workflowId } } = await ask('POST /agent/workflow/run', { body: { ref: 'six' } })
  const startWorker = () =>
    startProgram(t, 'test/programs/workflows.ts', { ...testEnv, TEST_DATABASE: connectionString, TEST_DOCUMENT: JSON.stringify(document) })
  const keyOf = (step: string) => `${String(workflowId)}:${step}`
  for (const step of steps) {
    const worker = await startWorker()
    const blocker = blockers.get(step)
    await until(`${step} runs`, async () =>
      blocker === undefined
        ? keys.includes(keyOf(step))
        : (await run(
            "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%insert into%notes%'"
          )).length === 1)
    t.equal(await worker.stop('SIGKILL'), null)
    await blocker?.query('rollback')
    // As if it had timed out.
    await sender.events.change({ topic: 'queue', tenant: '' }, async (transaction) => {
      await transaction.executeQuery(
        CompiledQuery.raw("update tenantry_queue.job set started_on = started_on - interval '1 hour' where state = 'active'")
      )
    })
  }
  await startWorker()
  const status = async () => (await ask(`GET /agent/workflow/status?workflowId=${String(workflowId)}`)).body
  await until('the run ends', async () => !['queued', 'running'].includes(String((await status())['status'])))
  t.match(await status(), { status: 'completed', result: { title: 'step-6' }, steps: steps.map((id) => ({ id, status: 'completed' })) })
  t.same(keys, calls.flatMap((step) => [keyOf(step), keyOf(step)]), 'a call whose response was lost is repeated once, with the same key')
  t.same(
    (await run('select title from notes')).map(({ title }) => title).toSorted(),
    writes.toSorted(),
    'each row was written once'
  )
  await until('its end is announced', () => callbacks.length > 0)
  const { body: { secret } } = await ask('GET /webhooks/secret', { token: signToken({ sub: 'chief', role: 'admin', tenant_id: 'a' }) })
  for (const { headers, body } of callbacks) {
    t.match(new Webhook(String(secret)).verify(body, headers), {
      type: 'workflow.completed',
      data: { workflowId, workflow: 'six', status: 'completed', result: { title: 'step-6' } }
    })
  }
  t.equal(new Set(callbacks.map(({ headers }) => headers['webhook-id'])).size, 1)
  t.match(await run('select attempt from tenantry.workflow_runs'), [{ attempt: steps.length + 1 }])
}

async function isSetAside (t: Test): Promise<void> {
  const { connectionString } = await postgresDatabase(t)
  const called: string[] = []
  const callbacks: unknown[] = []
  const service = await remote(t, ({ path, body }, response) => {
    if (path === '/done') callbacks.push(JSON.parse(body))
    else called.push(path)
    // The second step never gets a response.
    if (path !== '/count/step-3') response.setHeader('content-type', 'application/json').end('{"done":true}')
  })
  const document = documentOf(service.origin)
  const sender = await testServer(t, { ...document, queue: { workers: 0 } }, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants: ['a']
  })
  const ask = caller(t, sender, { token: signToken({ sub: 'u', role: 'user', tenant_id: 'a' }) })
  const { body: { workflowId } } = await ask('POST /agent/workflow/run', { body: { ref: 'six' } })
  const startWorker = () =>
    startProgram(t, 'test/programs/workflows.ts', { ...testEnv, TEST_DATABASE: connectionString, TEST_DOCUMENT: JSON.stringify(document) })
  for (const round of [1, 2]) {
    const worker = await startWorker()
    await until('the step runs', () => called.filter((path) => path === '/count/step-3').length === round)
    t.equal(await worker.stop('SIGKILL'), null)
    await sender.events.change({ topic: 'queue', tenant: '' }, async (transaction) => {
      await transaction.executeQuery(
        CompiledQuery.raw("update tenantry_queue.job set started_on = started_on - interval '1 hour' where state = 'active'")
      )
    })
  }
  const third = await startWorker()
  await until('its end is announced', () => callbacks.length === 1)
  t.match(callbacks, [{ type: 'workflow.failed', data: { workflowId, status: 'failed', error: { message: /Two processes ended/ } } }])
  t.match((await ask(`GET /agent/workflow/status?workflowId=${String(workflowId)}`)).body, { status: 'failed' })
  t.strictSame(called, ['/count/step-1', '/count/step-3', '/count/step-3'], 'no step runs a third time')
  const jobs = await sender.db.selectFrom('tenantry_queue.job').select('state').execute()
  t.strictSame(jobs.map(({ state }) => state), ['failed'])
  t.equal(await third.stop(), 0, 'the third process stays alive')
}

async function losesItsDatabase (t: Test): Promise<void> {
  const server = await postgresServer(t)
  let respond = () => {}
  const keys: unknown[] = []
  const service = createServer((request, response) => {
    keys.push(request.headers['idempotency-key'])
    respond = () => {
      response.setHeader('content-type', 'application/json').end('{"done":true}')
    }
  })
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    service.closeAllConnections()
    service.close()
  })
  const { port } = service.address() as AddressInfo
  const document: TestDocument = {
    tables,
    customIntegrations: [{ name: 'slow', baseUrl: `http://127.0.0.1:${port}`, actions: { ask: { method: 'POST', path: '/' } } }],
    workflows: [{
      id: 'outage',
      steps: [
        { id: 'first', type: 'database', operation: 'insert', table: 'notes', data: { title: 'first' } },
        { id: 'called', type: 'integration', integration: 'slow', action: 'ask', timeoutMs: 60_000 },
        { id: 'last', type: 'database', operation: 'insert', table: 'notes', data: { title: 'last' }, select: 'title' }
      ]
    }]
  }
  const app = await testServer(t, document, {
    engine: { provider: 'postgres', postgres: { connectionString: server.connectionString } },
    tenants: ['a']
  })
  const ask = caller(t, app, { token: signToken({ sub: 'u', role: 'user', tenant_id: 'a' }) })
  const { body: { workflowId } } = await ask('POST /agent/workflow/run', { body: { ref: 'outage' } })
  await until('the service is called', () => keys.length === 1)

  await server.stop()
  respond()
  await server.start()
  const blocker = new pg.Client({ connectionString: server.connectionString })
  blocker.on('error', () => {})
  await blocker.connect()
  await blocker.query("begin; insert into notes (tenant_id, title) values ('a', 'last')")
  await until(
    'the last step runs',
    async () =>
      (await server.query("select from pg_stat_activity where wait_event_type = 'Lock' and query like '%insert into%notes%'")).length === 1
  )
  t.match(await server.query('select step, status from tenantry.workflow_steps order by step'), [{ step: 'called', status: 'completed' }, {
    step: 'first',
    status: 'completed'
  }], 'results from the outage were written afterwards')

  await server.stop()
  await server.start()
  await until('the run ends', async () => {
    try {
      return (await server.query("select from tenantry.workflow_runs where status not in ('queued', 'running')")).length === 1
    } catch {
      return false
    }
  })
  t.match((await ask(`GET /agent/workflow/status?workflowId=${String(workflowId)}`)).body, {
    status: 'completed',
    result: { title: 'last' },
    steps: [{ status: 'completed' }, { status: 'completed' }, { status: 'completed' }]
  })
  t.strictSame(keys, [`${String(workflowId)}:called`])
  t.same(await server.query('select title from notes order by title'), [{ title: 'first' }, { title: 'last' }])
}
