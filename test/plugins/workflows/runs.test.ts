/** Runs of workflows from start to end: stored data, access, and cancellation. */
import type { FastifyInstance } from 'fastify'
import { CompiledQuery, type RootOperationNode } from 'kysely'
import pg from 'pg'
import type { Test } from 'tap'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createDurableJournal } from '../../../plugins/workflows/durable-journal.js'
import type { Journal, RunText } from '../../../plugins/workflows/journal.js'
import { Interrupted } from '../../../plugins/workflows/journal.js'
import type { HeldRun } from '../../../plugins/workflows/store.js'
import { createRunStore } from '../../../plugins/workflows/store.js'
import { atOnce } from '../../helpers/at-once.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, caller, refused } from '../../http/caller.js'

const insert = (id: string, title: string) => ({ id, type: 'database', operation: 'insert', table: 'notes', data: { title } } as const)
const tables: TestDocument['tables'] = {
  notes: {
    tenantScoped: true,
    columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text', notNull: true }, body: { type: 'text' } }
  }
}
const passing: NonNullable<TestDocument['tables']>[string] = {
  tenantScoped: true,
  columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' } }
}
const workflows: NonNullable<TestDocument['workflows']> = [
  {
    id: 'greet',
    steps: [insert('write', 'hello {{input.name}}'), {
      id: 'read',
      type: 'database',
      operation: 'select',
      table: 'notes',
      filters: [{ column: 'title', operator: 'eq', value: '{{steps.write.result.title}}' }],
      single: true
    }]
  },
  { id: 'guarded', requiredPermissions: ['notes:write'], steps: [insert('write', 'guarded')] },
  { id: 'two', steps: [insert('first', 'first'), insert('second', 'second')] },
  { id: 'secret', steps: [insert('write', '{{secret:PASSPHRASE}}')] },
  {
    id: 'large',
    steps: [{ ...insert('write', '{{input.title}}'), data: { title: '{{input.title}}', body: '{{input.text}}{{input.text}}' } }]
  },
  { id: 'failing', steps: [{ ...insert('write', 'x'), data: { title: null } }, insert('never', 'never')] }
]

const users = {
  anna: signToken({ sub: 'anna', role: 'user', tenant_id: 'a' }),
  bert: signToken({ sub: 'bert', role: 'user', tenant_id: 'a' }),
  chief: signToken({ sub: 'chief', role: 'admin', tenant_id: 'a' }),
  anna_of_b: signToken({ sub: 'anna', role: 'user', tenant_id: 'b' }),
  chief_of_b: signToken({ sub: 'chief', role: 'admin', tenant_id: 'b' }),
  root: signToken({ sub: 'root', role: 'admin' })
} as const

interface World {
  readonly connectionString: string
  /** Only sends. */
  readonly sender: FastifyInstance
  readonly ask: Ask
  /** Starts a server that runs waiting workflows. */
  readonly work: (document?: TestDocument) => Promise<FastifyInstance>
  readonly run: (text: string, ...values: unknown[]) => Promise<Record<string, unknown>[]>
  readonly start: (body: object, token?: string) => Promise<string>
  readonly status: (id: string, token?: string) => Promise<Record<string, unknown>>
  readonly ended: (id: string) => Promise<Record<string, unknown>>
}

async function world (t: Test): Promise<World> {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const engine = { provider: 'postgres', postgres: { connectionString, rowLevelSecurity: true } } as const
  const sender = await testServer(t, { tables: { ...tables, passing }, workflows, queue: { workers: 0 } }, {
    engine,
    tenants: ['a', 'b', 'leaving']
  })
  const ask = caller(t, sender)
  const status = async (id: string, token: string = users.anna) =>
    (await ask(`GET /agent/workflow/status?workflowId=${id}`, { token })).body
  return {
    connectionString,
    sender,
    ask,
    work: (document = {}) => testServer(t, { tables, workflows, ...document }, { engine }),
    run: async (text, ...values) => (await sender.db.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text, values))).rows,
    async start (body, token = users.anna) {
      const response = await ask('POST /agent/workflow/run', { token, body })
      t.match(response, {
        status: 202,
        body: { status: 'queued', statusUrl: `/agent/workflow/status?workflowId=${String(response.body['workflowId'])}` }
      })
      return String(response.body['workflowId'])
    },
    status,
    async ended (id) {
      const isOver = async () => !['queued', 'running'].includes(String((await status(id, users.chief))['status']))
      await until('the run ends', isOver)
      return await status(id, users.chief)
    }
  }
}

// They wait for jobs, each with its own servers.
test('runs', (t) =>
  atOnce(t, {
    'a run belongs to its user, continues as declared, and reports its steps': isItsUsers,
    'a process that was presumed dead writes nothing, and one whose run was canceled ends': ends,
    'the stored data of a run is bounded, contains no secret, and is deleted with its tenant': isBounded,
    "an asynchronous workflow has the same bounds as the tenant's own text": isSent,
    'an attempt that has lost its run cannot write, statements of its steps included': isRefused,
    "a tenant's own workflows run as its document had them": isOfTheDocument
  }))

async function isItsUsers (t: Test): Promise<void> {
  const { ask, work, run, start, status, ended } = await world(t)
  const id = await start({ ref: 'greet', input: { name: 'you' } })
  t.match(await status(id), {
    workflowId: id,
    workflow: 'greet',
    status: 'queued',
    finishedAt: null,
    steps: [{ id: 'write', status: 'pending', startedAt: null }, { id: 'read', status: 'pending' }]
  })
  for (const token of [users.bert, users.anna_of_b, users.chief_of_b, users.root]) {
    refused(t, await ask(`GET /agent/workflow/status?workflowId=${id}`, { token }), 404, 'NOT_FOUND')
    refused(t, await ask('POST /agent/workflow/cancel', { token, body: { workflowId: id } }), 404, 'NOT_FOUND')
    t.match(await ask('GET /agent/workflow/runs', { token }), { body: { data: { length: 0 }, pagination: { total: 0 } } })
  }
  for (const request of [{ token: users.anna }, { token: users.chief }, { token: users.root, tenant: 'a' }]) {
    t.match(await ask('GET /agent/workflow/runs?status=queued&limit=1', request), {
      body: { data: [{ workflowId: id, workflow: 'greet', status: 'queued' }], pagination: { limit: 1, total: 1 } }
    })
  }
  refused(t, await ask('POST /agent/workflow/run', { token: users.anna, body: { ref: 'guarded' } }), 403, 'FORBIDDEN')
  refused(t, await ask('POST /agent/workflow/run', { token: users.anna, body: { ref: 'unknown' } }), 404, 'NOT_FOUND')
  refused(t, await ask('POST /agent/workflow/run', { token: users.root, body: { ref: 'greet' } }), 400, 'TENANT_REQUIRED')

  t.match(await ask(`DELETE /queue/jobs/${id}`, { token: users.root }), {
    status: 409,
    body: { code: 'TENANTRY_STATE_CONFLICT', message: /POST \/agent\/workflow\/cancel ends it/ }
  }, 'a run whose job alone was cancelled would never end')
  t.match(await ask('POST /queue/jobs', { token: users.root, body: { name: 'workflow.run', options: { tenant: 'a' } } }), {
    status: 400,
    body: { details: [{ path: '/body/name' }] }
  })

  const gone = await start({ ref: 'two' })
  t.match(await ask('POST /agent/workflow/cancel', { token: users.anna, body: { workflowId: gone } }), {
    status: 200,
    body: { workflowId: gone, status: 'canceled' }
  })
  refused(t, await ask('POST /agent/workflow/cancel', { token: users.anna, body: { workflowId: gone } }), 409, 'STATE_CONFLICT')

  // The worker's document has a different workflow with that name, and no other.
  await work({ workflows: [{ id: 'greet', steps: [insert('write', 'another')] }] })
  t.match(await ended(id), {
    status: 'completed',
    result: { title: 'hello you', tenant_id: 'a' },
    steps: [{ id: 'write', status: 'completed' }, { id: 'read', status: 'completed' }]
  })
  t.match(await status(gone), {
    status: 'canceled',
    steps: [{ id: 'first', status: 'skipped', startedAt: null }, { id: 'second', status: 'skipped' }]
  })
  // The job ends after the status of its run is stored.
  const open = "select from tenantry_queue.job where task = 'workflow.run' and state <> 'completed'"
  await until('no job remains', async () => (await run(open)).length === 0)
  t.same(await run('select title, tenant_id from notes'), [{ title: 'hello you', tenant_id: 'a' }])

  t.same(
    await run('select distinct r.scope, s.result from tenantry.workflow_runs r left join tenantry.workflow_steps s on s.run_id = r.id'),
    [{ scope: '{}', result: null }],
    'data that is not read any more is removed'
  )

  const failing = await start({ ref: 'failing' })
  t.match(await ended(failing), {
    status: 'failed',
    error: { code: 'TENANTRY_CONSTRAINT_VIOLATED', message: /table: .*title must have a value/ },
    steps: [{ id: 'write', status: 'failed', error: { code: 'TENANTRY_CONSTRAINT_VIOLATED', message: /title must have a value/ } }, { id: 'never', status: 'skipped' }]
  })
  t.same(
    (await run("select action, user_id, target from tenantry.audit_log where action like 'workflow.%' and tenant_id = 'a' order by id"))
      .map(({ action, target }) => [action, target]),
    [
      ['workflow.run', id],
      ['workflow.run', gone],
      ['workflow.cancel', gone],
      ['workflow.run', failing]
    ]
  )
}

/** Writers to the table wait until it is released. */
async function blocked (t: Test, connectionString: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  t.teardown(() => client.end())
  await client.query('begin')
  await client.query('lock table notes in share row exclusive mode')
  return async () => {
    await client.query('rollback')
  }
}

async function ends (t: Test): Promise<void> {
  const { ask, work, run, start, status, ended, sender, connectionString } = await world(t)
  const waiting = async () =>
    (await run(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%insert into%notes%'"
    )).length
  await Promise.all([work(), work()])
  const letGo = await blocked(t, connectionString)
  const id = await start({ ref: 'two' })
  await until('one of them is in the first step', async () => await waiting() === 1)
  t.match(await status(id), { status: 'running', steps: [{ id: 'first' }, { id: 'second', status: 'pending' }] })
  await until('both are in it', async () => {
    // As if its heartbeat had timed out: the other takes over the run. Again, since a heartbeat may come before that.
    await sender.events.change({ topic: 'queue', tenant: '' }, async (transaction) => {
      await transaction.executeQuery(
        CompiledQuery.raw("update tenantry_queue.job set started_on = started_on - interval '1 hour' where state = 'active' and retry_count = 0")
      )
    })
    return await waiting() === 2
  })
  t.match(await run('select attempt from tenantry.workflow_runs'), [{ attempt: 2 }])
  await letGo()
  t.match(await ended(id), { status: 'completed', steps: [{ status: 'completed' }, { status: 'completed' }] })
  t.same(
    (await run('select title from notes order by title')).map(({ title }) => title),
    ['first', 'second'],
    "each step was done once: the first one's writes were rolled back"
  )
  t.match(await run("select state from tenantry_queue.job where task = 'workflow.run' and state not in ('completed', 'active')"), { length: 0 })

  await run('delete from notes')
  const letGoAgain = await blocked(t, connectionString)
  const other = await start({ ref: 'two' })
  await until('it is in the first step', async () => await waiting() === 1)
  t.match(await ask('POST /agent/workflow/cancel', { token: users.chief, body: { workflowId: other } }), { status: 200 })
  await letGoAgain()
  await until(
    'no process runs it',
    async () => (await run("select from tenantry_queue.job where task = 'workflow.run' and state < 'completed'")).length === 0
  )
  t.match(await status(other), { status: 'canceled', steps: [{ id: 'first', status: 'skipped' }, { id: 'second', status: 'skipped' }] })
  t.same(await run('select title from notes'), [], "its step's writes were rolled back")
}

async function isBounded (t: Test): Promise<void> {
  const { ask, work, run, start, ended, sender } = await world(t)
  const secret = 'correct horse battery staple'
  await sender.secrets.put('a', { key: 'PASSPHRASE', value: secret }, { userId: null, address: null })
  const withSecret = await start({ ref: 'secret' })
  const text = 'x'.repeat(900_000)
  const large = await start({ ref: 'large', input: { title: 'too large', text } })
  const fitting = await start({ ref: 'large', input: { title: 'fitting', text: text.slice(0, 500_000) } })
  refused(
    t,
    await ask('POST /agent/workflow/run', { token: users.anna, body: { ref: 'large', input: { text: 'x'.repeat(2_000_000) } } }),
    413,
    'BODY_TOO_LARGE'
  )
  const leaving = signToken({ sub: 'anna', role: 'user', tenant_id: 'leaving' })
  for (let count = 0; count < 3; count++) await start({ ref: 'two' }, leaving)
  t.equal((await ask('DELETE /tenants/leaving', { token: users.root })).status, 200)
  t.same(
    await run(
      "select from tenantry.workflow_runs where tenant_id = 'leaving' union all select from tenantry_queue.job where tenant_id = 'leaving'"
    ),
    []
  )

  await work()
  t.match(await ended(withSecret), { status: 'completed' })
  t.match(await run('select title from notes where body is null'), [{ title: secret }])
  t.match(await ended(large), { status: 'failed', error: { code: 'TENANTRY_ANSWER_TOO_LARGE' } })
  t.match(await ended(fitting), { status: 'completed', result: { title: 'fitting' } })
  t.same(
    (await run('select title from notes where body is not null')).map(({ title }) => title),
    ['fitting'],
    'writes of the step with the too large result were rolled back'
  )
  const rows = JSON.stringify(
    await run('select r.*, s.* from tenantry.workflow_runs r left join tenantry.workflow_steps s on s.run_id = r.id where r.id = $1', withSecret)
  )
  t.equal(rows.includes('correct horse'), false, 'no row contains it')
}

async function isSent (t: Test): Promise<void> {
  const { ask, run } = await world(t)
  const read = { id: 'read', type: 'database', operation: 'select', table: 'notes' }
  const send = (body: object, token: string = users.chief) => ask('POST /agent/workflow', { token, body })
  refused(t, await send({ steps: [read] }, users.anna), 403, 'FORBIDDEN')
  refused(t, await send({ steps: [read] }, users.root), 400, 'TENANT_REQUIRED')
  t.match(
    await send({
      steps: [{ ...read, filters: [{ column: 'title', operator: 'eq', value: '{{input.title}}' }] }],
      input: { title: 'none' },
      async: false
    }),
    { status: 200, body: { status: 'completed', result: { data: { length: 0 }, pagination: { total: 0 } } } }
  )
  t.match(await send({ steps: [read] }), { status: 202, body: { status: 'queued' } })
  const faults: readonly [object, string, RegExp][] = [
    [{ steps: [{ ...read, table: 'note' }] }, '/body/steps/0/table', /no table "note"/],
    [{ steps: [{ ...read, tabel: 'notes' }] }, '/body/steps/0/tabel', /./],
    [{ steps: [read, read] }, '/body/steps/1/id', /./],
    [{ steps: [{ ...read, filters: [{ column: 'title', operator: 'eq', value: '{{env.HOME}}' }] }] }, '/body/steps/0/filters/0/value', /./],
    [{ steps: [{ ...read, filters: [{ column: 'title', operator: 'eq', value: 'x'.repeat(70_000) }] }] }, '/body', /65,536 bytes/],
    [
      { steps: [read], webhookOnComplete: { url: 'https://example.com/done', secret: 'whsec_plain' } },
      '/body/webhookOnComplete/secret',
      /\{\{secret:KEY\}\}/
    ],
    [{ steps: [read], webhookOnComplete: 'file:///etc/passwd' }, '/body/webhookOnComplete', /expected an http or https URL/],
    [{ steps: [{ id: 'ask', type: 'llm', prompt: 'x' }] }, '/body/steps/0/type', /./]
  ]
  t.equal(
    (await ask('POST /tenant/config', {
      token: users.chief,
      body: { webhooks: [{ name: 'all', url: 'https://example.com/events', events: ['entity.*'] }] }
    })).status,
    200
  )
  t.match(await send({ steps: [insert('write', 'heard of')], async: false }), { status: 200, body: { result: { title: 'heard of' } } })
  t.match(await run("select type, data->'record'->>'title' as title from tenantry.webhook_events where tenant_id = 'a'"), [{
    type: 'entity.created',
    title: 'heard of'
  }], 'webhooks receive events of a run within a request')
  for (const [body, path, message] of faults) t.match(await send(body), { status: 400, body: { details: [{ path, message }] } }, path)
  const writer = signToken({ sub: 'writer', role: 'user', tenant_id: 'a', permissions: ['config:write'] })
  t.equal((await send({ steps: [read] }, writer)).status, 202)
  refused(
    t,
    await send({ steps: [{ ...read, filters: [{ column: 'title', operator: 'eq', value: '{{secret:KEY}}' }] }] }, writer),
    403,
    'FORBIDDEN'
  )
}

async function isRefused (t: Test): Promise<void> {
  const { ask, sender, run, start } = await world(t)
  const id = await start({ ref: 'two' })
  const store = createRunStore((tenant) => sender.engine.kyselyFor(tenant))
  const taken = async () => {
    const held = await store.take(tenantRef('a'), id)
    if (held === undefined) throw new Error('the run is gone')
    return held
  }
  const journalOf = async (held: HeldRun) =>
    createDurableJournal(sender.engine, held, await store.earlier(tenantRef('a'), id), new Set(), new AbortController().signal)
  const completed = { status: 'completed', result: '1', error: null } as const
  const writing = (title: string) => async (text: RunText) => {
    await text({
      statement: { text: "insert into notes (tenant_id, title) values ('a', $1) returning title" },
      values: [title],
      resultKind: 'record'
    })
    return completed
  }
  const refuses = async (journal: Journal, step: string) => {
    await t.rejects(async () => await journal.started(step), Interrupted)
    await t.rejects(async () => await journal.finished(step, completed), Interrupted)
    await t.rejects(journal.database(step, writing(step), true), Interrupted)
  }

  const first = await taken()
  const ofFirst = await journalOf(first)
  await ofFirst.started('called')
  const second = await taken()
  t.match([first.attempt, second.attempt], [1, 2])
  await refuses(ofFirst, 'called')
  await refuses(ofFirst, 'stale')
  t.same(await sender.db.transaction().execute((transaction) => store.end(transaction, first, { status: 'completed', result: '1' })), false)
  t.same(await store.heldOf(tenantRef('a'), [first, second]), new Set([id]))

  const ofSecond = await journalOf(second)
  await ofSecond.database('written', writing('written'), true)
  await refuses(ofSecond, 'written')
  await ofSecond.started('called')
  await ofSecond.finished('called', completed)
  await t.rejects(
    async () => await ofSecond.finished('large', { status: 'completed', result: JSON.stringify('x'.repeat(1_048_576)), error: null }),
    { code: 'TENANTRY_ANSWER_TOO_LARGE' }
  )
  t.equal((await ask('POST /agent/workflow/cancel', { token: users.anna, body: { workflowId: id } })).status, 200)
  await refuses(ofSecond, 'late')
  t.same(await run('select title from notes'), [{ title: 'written' }])
  t.same(await run('select step, status from tenantry.workflow_steps order by step'), [{ step: 'called', status: 'completed' }, {
    step: 'written',
    status: 'completed'
  }])
}

async function isOfTheDocument (t: Test): Promise<void> {
  const { ask, work, run, start, ended, sender } = await world(t)
  const save = async (document: object) => {
    const { status, text } = await ask('POST /tenant/config', { token: users.chief, body: document })
    t.equal(status, 200, text)
  }
  await sender.secrets.put('a', { key: 'SIGNING', value: 'a signing secret of the tenant' }, { userId: null, address: null })
  await save({
    workflows: [
      {
        id: 'own',
        steps: [insert('write', 'own {{input.name}}')],
        webhookOnComplete: { url: 'https://example.com/done?key={{secret:SIGNING}}', secret: '{{secret:SIGNING}}' }
      },
      { id: 'greet', steps: [insert('write', 'own greeting'), insert('again', 'again')] },
      {
        id: 'gone',
        steps: [{ ...insert('write', ''), table: 'passing', data: {} }],
        webhookOnComplete: 'https://example.com/{{input.path}}'
      },
      { id: 'long', steps: [insert('write', 'long')], webhookOnComplete: `https://example.com/${'{{input.path}}'.repeat(100)}` },
      {
        id: 'copies',
        steps: [insert('write', 'copies')],
        webhookOnComplete: { url: 'https://example.com/{{input.path}}', secret: '{{input.text}}{{input.text}}' }
      }
    ],
    routes: [{
      method: 'post',
      path: '/orders/:name',
      requireAuth: true,
      workflow: { steps: [insert('write', 'route {{params.name}} {{headers.x-order}} {{auth.sub}}')], async: true }
    }]
  })
  const { body: { data: listed } } = await ask('GET /agent/workflows', { token: users.anna })
  t.match(listed, [
    { id: 'own', source: 'tenant', steps: 1 },
    { id: 'greet', source: 'tenant', steps: 2 },
    { id: 'gone' },
    { id: 'long' },
    { id: 'copies' },
    { id: 'guarded', source: 'platform' }
  ])
  t.notMatch((await ask('GET /agent/workflows', { token: users.anna_of_b })).body['data'], [{ source: 'tenant' }])
  const own = await start({ ref: 'own', input: { name: 'text' } })
  const greet = await start({ ref: 'greet' })
  const gone = await start({ ref: 'gone', input: { path: 'gone' } })
  const long = await start({ ref: 'long', input: { path: 'x'.repeat(500_000) } })
  const copies = await start({ ref: 'copies', input: { path: 'copies', text: 'x'.repeat(501) } })
  const unstorable = await start({ ref: 'copies', input: { path: '\u0000', text: 'x' } })
  const signed = await start({ ref: 'copies', input: { path: 'signed', text: 'x'.repeat(500) } })
  await run('drop table passing')
  const { status, body: { workflowId, statusUrl } } = await ask('POST /orders/x', {
    token: users.anna,
    body: {},
    headers: { 'x-order': 'seven' }
  })
  t.match([status, statusUrl], [202, `/agent/workflow/status?workflowId=${String(workflowId)}`])
  await save({})
  refused(t, await ask('POST /agent/workflow/run', { token: users.anna, body: { ref: 'own' } }), 404, 'NOT_FOUND')

  await work({ webhooks: [] })
  t.match(await ended(own), { status: 'completed', result: { title: 'own text' } })
  t.match(await ended(greet), { status: 'completed', result: { title: 'again' } })
  t.match(await ended(String(workflowId)), { status: 'completed', result: { title: 'route x seven anna' } })
  t.match(await ended(gone), { status: 'failed', error: { code: 'TENANTRY_SCHEMA_CHANGED' } })
  t.match(await ended(long), { status: 'completed' }, 'its end is not announced, since no address is that long')
  t.match(await ended(copies), { status: 'completed' }, 'its end is not announced, since no secret is that long')
  t.match(await ended(unstorable), { status: 'completed' }, 'nor if the address has a NUL')
  t.match(await ended(signed), { status: 'completed' })
  t.match(await run("select url, type from tenantry.webhook_deliveries where tenant_id = 'a' order by url"), [{
    url: 'https://example.com/done',
    type: 'workflow.completed'
  }, { url: 'https://example.com/gone', type: 'workflow.failed' }, { url: 'https://example.com/signed', type: 'workflow.completed' }])
  const rows = JSON.stringify([
    await run('select * from tenantry.workflow_runs'),
    await run('select * from tenantry.webhook_deliveries'),
    await run('select * from tenantry.webhook_events')
  ])
  t.equal(rows.includes('a signing secret'), false)
}

test('the log of deliveries shows no secret and no setting that the address of a callback reads', async (t) => {
  const steps = [insert('write', 'x')]
  const app = await testServer(t, {
    tables,
    workflows: [
      { id: 'setting', steps, webhookOnComplete: '{{env.HOOK_URL}}/{{input.path}}' },
      { id: 'other', steps, webhookOnComplete: '{{env.HOOK_URL}}/other' },
      { id: 'plain', steps, webhookOnComplete: 'https://example.com/{{input.path}}?key={{input.key}}' }
    ]
  }, { tenants: ['a'], env: { HOOK_URL: 'https://example.com/token-of-the-platform' } })
  const ask = caller(t, app, { token: users.chief })
  await app.secrets.put('a', { key: 'hook', value: 'token-of-the-tenant' }, { userId: null, address: null })
  const own = { id: 'secret', steps, webhookOnComplete: 'https://example.com/{{secret:hook}}/{{input.path}}' }
  t.match(await ask('POST /tenant/config', { body: { workflows: [own] } }), { status: 200 })
  for (const ref of ['setting', 'other', 'plain', 'secret']) {
    t.match(await ask('POST /agent/workflow/run', { body: { ref, input: { path: 'p', key: 'k' } } }), { status: 202 })
  }
  const urls = async () => {
    const { body: { data } } = await ask('GET /webhooks/deliveries')
    return Array.isArray(data) ? data.map((delivery: unknown) => String(Object(delivery).url)) : []
  }
  await until('all runs have ended', async () => (await urls()).length === 4)
  t.strictSame(new Set(await urls()), new Set([
    '{{env.HOOK_URL}}/{{input.path}}',
    '{{env.HOOK_URL}}/other',
    'https://example.com/p',
    'https://example.com/{{secret:hook}}/{{input.path}}'
  ]))
})

test('a run ends if its result is longer in the event than in the database', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, {
    sql: `create table numbers (tenant_id text not null, id int not null, list float8[] not null, primary key (tenant_id, id));
      insert into numbers select 'a', 1, array(select 1e20 from generate_series(1, 20000))`
  })
  const app = await testServer(t, {
    routes: [{
      method: 'post',
      path: '/runs',
      requireAuth: true,
      workflow: {
        steps: [{ id: 'read', type: 'database', operation: 'select', table: 'numbers' }],
        async: true,
        webhookOnComplete: 'https://example.com/done'
      }
    }]
  }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['a'] })
  t.equal((await caller(t, app, { token: users.anna })('POST /runs')).status, 202)
  const runs = () => query('select status, attempt, octet_length(result) < 200000 as sent from tenantry.workflow_runs')
  await until('the run has ended, or is tried again', async () => {
    const [run] = await runs()
    return run?.['status'] === 'completed' || Number(run?.['attempt']) > 1
  })
  t.match(await runs(), [{ status: 'completed', attempt: 1, sent: true }])
  t.match(await query("select data from tenantry.webhook_events where tenant_id = 'a'"), [{
    data: { status: 'completed', result: null, truncated: true }
  }])
})

test('a run whose callback cannot be stored ends without it after 20 attempts, and its event is sent', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const document: TestDocument = {
    tables,
    workflows: [{ id: 'called-back', steps: [insert('write', 'x')], webhookOnComplete: 'https://example.com/unstorable' }],
    webhooks: [{ name: 'ends', url: 'https://example.com/ends', events: ['workflow.*'] }]
  }
  const sender = await testServer(t, { ...document, queue: { workers: 0 } }, { engine, tenants: ['a'] })
  const response = await caller(t, sender, { token: users.anna })('POST /agent/workflow/run', { body: { ref: 'called-back' } })
  t.equal(response.status, 202, response.text)
  await query(`create function tenantry.refuse_callback() returns trigger language plpgsql as $$
    begin raise 'a value that cannot be stored' using errcode = 'character_not_in_repertoire'; end $$`)
  await query(`create trigger refuse_callback before insert on tenantry.webhook_deliveries for each row
    when (new.url like '%unstorable') execute function tenantry.refuse_callback()`)
  await query("update tenantry_queue.job set retry_count = 20 where task = 'workflow.run'")
  await testServer(t, document, { engine })
  const runs = () => query('select status, attempt from tenantry.workflow_runs')
  await until('the run has ended, or is tried again', async () => {
    const failures = await query('select from tenantry_queue.job where output is not null')
    return failures.length > 0 || (await runs())[0]?.['status'] === 'failed'
  })
  t.match(await runs(), [{ status: 'failed', attempt: 1 }])
  t.match(await query('select type from tenantry.webhook_events'), [{ type: 'workflow.failed' }])
})

test('without the group there are no endpoints, and routes still start runs', async (t) => {
  const app = await testServer(t, {
    tables,
    plugins: { agent: false },
    routes: [{ method: 'post', path: '/notes', workflow: { steps: [insert('write', 'asked for')], async: true } }, {
      method: 'get',
      path: '/agent/workflow/status',
      queries: [{ table: 'notes', operation: 'select' }]
    }]
  }, { tenants: ['a'] })
  const ask = caller(t, app, { token: users.anna })
  t.equal((await ask('POST /notes')).status, 202)
  refused(t, await ask('GET /agent/workflows'), 404, 'NOT_FOUND')
  await until('it has run', async () => (await ask('GET /agent/workflow/status')).body.data?.[0]?.['title'] === 'asked for')

  await t.test('a list of a rare status reads the runs of that status only', async (t) => {
    const run = (text: string, values: readonly unknown[] = []) => app.db.executeQuery(CompiledQuery.raw(text, [...values]))
    await run(`insert into tenantry.workflow_runs (tenant_id, id, user_id, definition, scope, status, created_at)
      select 'a', gen_random_uuid(), 'anna', '{}', '{}', case n % 7500 when 0 then 'failed' else 'completed' end, now() - n * interval '1 second'
      from generate_series(1, 15000) n`)
    await run('vacuum analyze tenantry.workflow_runs')
    const statements: RootOperationNode[] = []
    const db = app.db.withPlugin({
      transformQuery ({ node }) {
        statements.push(node)
        return node
      },
      transformResult: async ({ result }) => result
    })
    const { list } = createRunStore(() => db)
    for (const user of [undefined, 'anna']) {
      t.match(await list({ tenant: tenantRef('a'), user }, 'failed', { limit: 20, offset: 0 }), { data: { length: 2 }, total: 2 })
    }
    t.equal(statements.length, 4)
    for (const node of statements) {
      const { sql: text, parameters } = app.db.getExecutor().compileQuery(node, { queryId: '' })
      const plan = JSON.stringify((await run(`explain (analyze, format json) ${text}`, parameters)).rows)
      t.notMatch(plan, /Rows Removed by Filter":[1-9]|Seq Scan/, text)
    }
  })
})
