/** Webhooks of the whole server: events of routes' writes, in the same transaction. */
import type { ServerResponse } from 'node:http'
import { test } from 'tap'
import { eventKinds } from '../../../lib/webhooks/events.js'
import { freePort } from '../../helpers/free-port.js'
import { startInstance } from '../../helpers/instances.js'
import { secretText } from '../../helpers/log-scan.js'
import { forEachEngine, postgresDatabase } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { listen, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller, remoteCaller } from '../../http/caller.js'
import { type Receiver, receiver, verify } from './app.js'

const id = { type: 'uuid', primaryKey: true, default: 'uuid()' } as const
const tables: TestDocument['tables'] = {
  notes: {
    tenantScoped: true,
    softDelete: true,
    columns: { id, title: { type: 'text', notNull: true, unique: true }, token: { type: 'text' } }
  },
  settings: { columns: { id, name: { type: 'text' } } }
}
const routes: TestDocument['routes'] = [
  { path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }] },
  { path: '/notes/:id', method: 'patch', queries: [{ table: 'notes', operation: 'update', id: '{{params.id}}' }] },
  {
    path: '/notes/:id',
    method: 'delete',
    softDelete: { enabled: true },
    queries: [{ table: 'notes', operation: 'delete', id: '{{params.id}}' }]
  },
  {
    path: '/both',
    method: 'post',
    queries: [{ table: 'notes', operation: 'insert', alias: 'first', data: { title: '{{body.first}}' } }, {
      table: 'notes',
      operation: 'insert',
      alias: 'second',
      data: { title: '{{body.second}}' }
    }]
  },
  { path: '/settings', method: 'post', queries: [{ table: 'settings', operation: 'insert' }] },
  {
    path: '/steps',
    method: 'post',
    workflow: { steps: [{ id: 'write', type: 'database', operation: 'insert', table: 'notes', data: { title: '{{body.title}}' } }] }
  },
  { path: '/papers', method: 'post', firebaseQueries: [{ collection: 'papers', operation: 'add' }] },
  {
    path: '/sealed',
    method: 'post',
    queries: [{ table: 'notes', operation: 'insert', data: { title: '{{body.title}}', token: '{{secret:token}}' } }]
  }
]

function document (platform?: Receiver): TestDocument {
  return {
    tables,
    routes,
    egress: { allow: ['127.0.0.1'] },
    ...platform !== undefined &&
      { webhooks: [{ name: 'all', url: `${platform.origin}/{{env.HOOK}}`, events: ['entity.*'], secret: '{{env.HOOK_SECRET}}' }] }
  }
}

const env = { HOOK: 'of-the-platform', HOOK_SECRET: 'whsec_c2VjcmV0IG9mIHRoZSBwbGF0Zm9ybQ==' }
const admin = (tenant?: string) => ({ token: signToken({ role: 'admin', sub: 'ada', ...tenant !== undefined && { tenant_id: tenant } }) })

/** The received events, in short. */
const eventsOf = ({ requests }: Receiver) =>
  requests.map(({ body }) => {
    const { type, data: { table, record } } = JSON.parse(body)
    return `${String(type)} ${String(table)} ${String(record.title ?? record.name)}`
  })

test('writes of routes are sent to subscribed webhooks, and failed ones are not', (t) =>
  forEachEngine(t, async (t, engine) => {
    const [hears, platform] = [await receiver(t), await receiver(t)]
    // With row-level security a tenant's request writes only its tenant's rows. Changes of rows without a tenant are events of the
    // platform.
    const section = engine.provider === 'postgres'
      ? {
          ...engine,
          postgres: {
            ...engine.postgres,
            connectionString: (await postgresDatabase(t, { role: 'owner' })).connectionString,
            rowLevelSecurity: true
          }
        }
      : engine
    const app = await testServer(t, document(platform), { engine: section, tenants: ['acme', 'globex'], env })
    const ask = caller(t, app, admin('acme'))
    t.equal((await ask('POST /notes', { body: { title: 'before' } })).status, 201)
    await until('the event is delivered', () => platform.requests.length === 1)
    await ask('POST /tenant/secrets', { body: { key: 'token', value: 'a secret that nobody hears' } })
    t.equal(
      (await ask('POST /tenant/config', {
        body: {
          webhooks: [{ name: 'out', url: `${hears.origin}/`, events: ['entity.*'] }, {
            name: 'in',
            url: 'http://169.254.169.254/latest',
            events: ['entity.deleted']
          }]
        }
      })).status,
      200
    )

    const created = await ask('POST /notes', { body: { title: 'one' } })
    t.match(created, { status: 201, body: { title: 'one' } })
    t.equal((await ask('POST /notes', { body: { title: 'one' } })).status, 409)
    t.equal((await ask('POST /both', { body: { first: 'undone', second: 'one' } })).status, 409)
    t.equal((await ask('POST /both', { body: { first: 'two', second: 'three' } })).status, 200)
    t.equal((await ask('POST /notes', { body: [{ title: 'four' }, { title: 'five' }] })).status, 201)
    t.equal((await ask(`PATCH /notes/${String(created.body['id'])}`, { body: { title: 'six' } })).status, 200)
    t.match(await ask(`DELETE /notes/${String(created.body['id'])}`), { status: 200, body: { softDeleted: true } })
    t.equal((await ask('POST /settings', { body: { name: 'shared' } })).status, 201)
    t.equal((await ask('POST /papers', { body: { title: 'paper' } })).status, 201)
    t.equal((await ask('POST /sealed', { body: { title: 'sealed' } })).status, 201)
    t.equal((await ask('POST /steps', { body: { title: 'step' } })).status, 200)
    await caller(t, app, admin('globex'))('POST /notes', { body: { title: 'of another' } })

    const own = ['one', 'two', 'three', 'four', 'five'].map((title) => `entity.created notes ${title}`)
    const all = [
      ...own,
      'entity.updated notes six',
      'entity.deleted notes six',
      'entity.created papers paper',
      'entity.created notes sealed',
      'entity.created notes step'
    ].sort()
    await until('everything is delivered', () => hears.requests.length >= all.length && platform.requests.length >= all.length + 3)
    t.strictSame(eventsOf(hears).sort(), all)
    t.strictSame(
      eventsOf(platform).sort(),
      [...all, 'entity.created notes before', 'entity.created notes of another', 'entity.created settings shared'].sort()
    )
    t.strictSame(eventsOf(hears).filter((line) => /one|six/.test(line)), [
      'entity.created notes one',
      'entity.updated notes six',
      'entity.deleted notes six'
    ], 'in the order of the entity')
    t.notMatch(hears.requests.map(({ body }) => body).join(), /a secret that nobody hears/)
    t.ok(platform.requests.length > 0)
    t.ok(platform.requests.every((request) => request.path === '/of-the-platform' && verify(env.HOOK_SECRET, request) !== undefined))
    await until('private addresses are refused', async () =>
      (await ask('GET /webhooks/deliveries?event=entity.deleted')).body.data?.some(({ webhook, lastError }) =>
        webhook === 'in' && /private/.test(String(lastError))
      ) === true)
    t.equal((await ask('POST /tenant/config', { body: {} })).status, 200)
    const before = hears.requests.length
    await ask('POST /notes', { body: { title: 'after' } })
    await until('the platform receives it', () => eventsOf(platform).includes('entity.created notes after'))
    t.equal(hears.requests.length, before, 'without the webhook no event is written')
  }))

test('an event outlives the server that wrote it, killed right after the commit', async (t) => {
  const hears = await receiver(t)
  const { connectionString } = await postgresDatabase(t)
  const engine = { provider: 'postgres' as const, postgres: { connectionString } }
  // It sends nothing itself, so that nothing is sent before the kill.
  const first = await startInstance(t, { ...document(), queue: { workers: 0 } }, engine)
  await remoteCaller(t, first.address, admin())('POST /tenants', { body: { id: 'acme', name: 'Acme' } })
  const ask = remoteCaller(t, first.address, admin('acme'))
  t.equal(
    (await ask('POST /tenant/config', { body: { webhooks: [{ name: 'out', url: `${hears.origin}/`, events: ['entity.created'] }] } }))
      .status,
    200
  )
  t.equal((await ask('POST /notes', { body: { title: 'kept' } })).status, 201)
  t.equal(await first.stop('SIGKILL'), null)
  t.equal(hears.requests.length, 0)
  await testServer(t, document(), { engine })
  await until('another server delivers it', () => hears.requests.length === 1)
  t.strictSame(eventsOf(hears), ['entity.created notes kept'])
})

test("a flood of one tenant does not delay another's events to the platform's webhooks", async (t) => {
  const platform = await receiver(t)
  const held: ServerResponse[] = []
  platform.respond = (_request, response) => {
    held.push(response)
  }
  const { connectionString, query } = await postgresDatabase(t)
  const app = await testServer(t, document(platform), {
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants: ['flooder', 'victim'],
    env
  })
  const flood = caller(t, app, admin('flooder'))
  for (let call = 0; call < 3; call++) {
    t.equal(
      (await flood('POST /notes', { body: Array.from({ length: 1000 }, (_, index) => ({ title: `flood ${call} ${index}` })) })).status,
      201
    )
  }
  const made = async () => Number((await query("select count(*) from tenantry.webhook_deliveries where tenant_id = ''"))[0]?.['count'])
  await until('each event has a delivery', async () => await made() === 3000)
  t.equal((await caller(t, app, admin('victim'))('POST /notes', { body: { title: 'of the victim' } })).status, 201)
  const order = () => eventsOf(platform).indexOf('entity.created notes of the victim')
  await until("the victim's event arrives while no delivery of the flood has a response", () => order() !== -1)
  t.ok(order() <= 8, `${order()} deliveries of the flood are before it`)

  // The receiver responds: the flood continues at full speed, with other tenants' events in between.
  platform.respond = (_request, response) => {
    response.end()
  }
  for (const response of held) response.end()
  await until('the flood continues', () => platform.requests.length > 100)
  const before = platform.requests.length
  t.equal((await caller(t, app, admin('victim'))('POST /notes', { body: { title: 'of the victim again' } })).status, 201)
  await until("the victim's other event arrives", () => eventsOf(platform).includes('entity.created notes of the victim again'))
  t.ok(eventsOf(platform).indexOf('entity.created notes of the victim again') < before + 500, 'before most of the flood')
})

test('further deliveries to the platform are rejected only for a tenant with too many waiting', async (t) => {
  const platform = await receiver(t)
  const { connectionString, query } = await postgresDatabase(t)
  const first = await testServer(t, { ...document(platform), queue: { workers: 0 } }, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants: ['flooder', 'victim'],
    env
  })
  // Deliveries that wait for a future time, like those of a failing receiver.
  await query(`with event as (insert into tenantry.webhook_events (tenant_id, type, subject, data, at, fanned_out)
      select 'flooder', 'entity.created', 'notes:' || n, '{}', now(), true from generate_series(1, 100000) n returning place, subject)
    insert into tenantry.webhook_deliveries (tenant_id, source, event, type, subject, endpoint, url, next_attempt_at, give_up_at, created_at)
    select '', 'flooder', place, 'entity.created', subject, 'all', 'https://example.com', now() + interval '1 hour', now() + interval '1 day', now() - interval '1 second' from event`)
  for (const tenant of ['flooder', 'victim']) {
    t.equal((await caller(t, first, admin(tenant))('POST /notes', { body: { title: `of ${tenant}` } })).status, 201)
  }
  const app = await testServer(t, document(platform), { engine: { provider: 'postgres', postgres: { connectionString } }, env })
  await until("the victim's event arrives", () => eventsOf(platform).includes('entity.created notes of victim'))
  const failed = async () => (await caller(t, app, admin())('GET /webhooks/deliveries?status=failed')).body.data
  await until('the other is rejected', async () => (await failed())?.length === 1)
  t.match(await failed(), [{ attempts: 0, lastError: 'too many deliveries wait already' }])
  t.strictSame(eventsOf(platform), ['entity.created notes of victim'])
})

test("a tenant's webhooks that start each other end", async (t) => {
  const webhook = { provider: 'payprov', secret: '{{secret:loop}}' } as const
  const workflow: NonNullable<TestDocument['routes']>[number]['workflow'] = {
    async: true,
    steps: [{ id: 'none', type: 'database', operation: 'select', table: 'notes' }]
  }
  const calling: typeof workflow = {
    async: true,
    steps: [{
      id: 'call',
      type: 'integration',
      integration: 'webhook',
      action: 'signed',
      params: { url: '{{body.url}}', body: '{{body}}', secret: '{{secret:loop}}' }
    }]
  }
  const storing: typeof workflow = {
    steps: [{
      id: 'store',
      type: 'storage',
      operation: 'put',
      params: { name: 'a.txt', contentType: 'text/plain', content: 'a' }
    }, {
      id: 'remove',
      type: 'storage',
      operation: 'delete',
      params: { id: '{{steps.store.result.id}}' }
    }]
  }
  const app = await testServer(t, {
    tables,
    files: { path: t.testdir() },
    routes: [
      { path: '/files-once', method: 'post', workflow: storing },
      { path: '/hooks/stored', method: 'post', webhook, workflow: storing },
      { path: '/hooks/removed', method: 'post', webhook, workflow: storing },
      { path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }] },
      { path: '/hooks/notes', method: 'post', webhook, queries: [{ table: 'notes', operation: 'insert', data: { title: 'after {{payload.data.id}}' } }] },
      { path: '/runs', method: 'post', workflow },
      { path: '/hooks/runs', method: 'post', webhook, workflow },
      { path: '/calls', method: 'post', workflow: calling },
      { path: '/hooks/calls', method: 'post', webhook, workflow: calling }
    ],
    egress: { allow: ['127.0.0.1'] }
  }, { tenants: ['acme'] })
  const origin = await listen(app)
  const ask = caller(t, app, admin('acme'))
  await ask('POST /tenant/secrets', { body: { key: 'loop', value: secretText('whsec_c2VjcmV0IG9mIHRoZSBsb29wIG9mIGFjbWU=', 'the secret') } })
  const own = (name: string, event: typeof eventKinds[number]) => ({
    name,
    url: `${origin}/hooks/${name}?tenant=acme`,
    events: [event],
    secret: '{{secret:loop}}'
  })
  const body = { webhooks: [own('notes', 'entity.created'), own('runs', 'workflow.completed')] }
  t.equal((await ask('POST /tenant/config', { body })).status, 200)
  // A caller cannot keep its event from the webhooks.
  t.equal((await ask('POST /notes', { body: { title: 'first' }, headers: { 'tenantry-depth': '10' } })).status, 201)
  t.equal((await ask('POST /runs')).status, 202)
  const deliveries = async (status: string) => Object((await ask(`GET /webhooks/deliveries?limit=100&status=${status}`)).body['data'])
  await until('both end', async () => (await deliveries('failed')).length === 2)
  t.match(await deliveries('failed'), [{ attempts: 1, lastError: /start each other/ }, { attempts: 1, lastError: /start each other/ }])
  await until('ten deliveries of each', async () => (await deliveries('delivered')).length === 20)
  t.equal((await ask('POST /tenant/config', { body: {} })).status, 200)
  t.equal((await ask('POST /calls', { body: { url: `${origin}/hooks/calls?tenant=acme` } })).status, 202)
  for (const [name, event] of [['stored', 'file.created'], ['removed', 'file.deleted']] as const) {
    t.equal((await ask('POST /tenant/config', { body: { webhooks: [own(name, event)] } })).status, 200)
    t.equal((await ask('POST /files-once')).status, 200)
    const ofName = async (status: string) =>
      (await deliveries(status)).filter((delivery: { webhook: string }) => delivery.webhook === name).length
    await until(`files that are ${name} end`, async () => await ofName('failed') === 1 && await ofName('delivered') === 10)
  }
  const runs = async (status: string) => Object((await ask(`GET /agent/workflow/runs?limit=100&status=${status}`)).body['data'])
  await until('a run fails', async () => (await runs('failed')).length === 1)
  t.match(await runs('failed'), [{ error: { code: 'TENANTRY_WEBHOOKS_NESTED' } }])
})

test("the platform's webhooks that start each other end", async (t) => {
  const port = await freePort()
  const webhook = { provider: 'payprov', secret: '{{env.HOOK_SECRET}}' } as const
  const again: TestDocument['routes'] = [{
    path: '/hooks/settings',
    method: 'post',
    webhook,
    queries: [{ table: 'settings', operation: 'insert', data: { name: 'again' } }]
  }]
  const { egress } = document()
  const app = await testServer(t, {
    tables,
    routes: [...routes, ...again],
    egress,
    webhooks: [{ name: 'own', url: `http://127.0.0.1:${port}/hooks/settings`, events: ['entity.created'], secret: '{{env.HOOK_SECRET}}' }]
  }, { engine: { provider: 'embedded' }, env })
  await app.listen({ port, host: '127.0.0.1' })
  const platform = caller(t, app, admin())
  t.equal((await platform('POST /settings', { body: { name: 'first' } })).status, 201)
  const deliveries = async (status: string) => Object((await platform(`GET /webhooks/deliveries?limit=100&status=${status}`)).body['data'])
  await until('they end', async () => (await deliveries('failed')).length === 1)
  t.match(await deliveries('failed'), [{ attempts: 1, lastError: /start each other/ }])
  await until('ten deliveries', async () => (await deliveries('delivered')).length === 10)
})
