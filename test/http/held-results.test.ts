/** Data that requests of a hostile tenant keep in memory while they wait: one request every second could end a process. */
import { test } from 'tap'
import { turns } from '../../lib/concurrency/event-loop-yielder.js'
import { TenantryError } from '../../lib/errors.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import { tenantIdOf } from '../../lib/identity/tenant-ref.js'
import { FaultList } from '../../lib/schema/faults.js'
import type { Step } from '../../lib/schema/workflow.js'
import { gate } from '../helpers/gate.js'
import { allowLongCalls } from '../helpers/long-calls.js'
import { holdInPause } from '../helpers/pauses.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { remote } from '../helpers/remote.js'
import { scopeTenant } from '../helpers/scope-tenant.js'
import { listen, testServer } from '../helpers/server.js'
import { bearer, signToken } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'
import { caller, refused } from './caller.js'

const size = 500_000 // empty lists in the record of a tenant: 2 MB as text

test('results that wait for a slow service are bounded for a tenant, and others are served', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create table texts (tenant_id text not null, id int not null, data jsonb, note text, primary key (tenant_id, id));
      insert into texts select t, 1, (select jsonb_agg(jsonb_build_array()) from generate_series(1, ${size})) from unnest(array['a', 'b']) t`
  })
  let service = gate()
  const slow = await remote(t, async (_request, response) => {
    await service.opened
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  const select = (id: string): Step => ({ id, type: 'database', operation: 'select', table: 'texts', filters: [{ column: 'id', value: 1 }] })
  const query = (key: string) => ({ id: 1, alias: key, table: 'texts', operation: 'select' }) as const
  const app = await testServer(t, {
    egress: { allow: ['127.0.0.1'] },
    customIntegrations: [{ name: 'slow', baseUrl: slow.origin, actions: { get: { method: 'GET', path: '/' } } }],
    routes: [
      {
        path: '/run',
        method: 'post',
        requireAuth: true,
        workflow: {
          steps: [
            ...['one', 'two', 'three'].map(select),
            {
              id: 'call',
              type: 'integration',
              integration: 'slow',
              action: 'get',
              condition: 'steps.one.result != null && steps.two.result != null && steps.three.result != null'
            }
          ]
        }
      },
      {
        path: '/combined',
        method: 'get',
        requireAuth: true,
        queries: [query('one'), query('two'), query('three')],
        integrations: [{ type: 'slow', action: 'get', condition: 'size(results.one.data) + size(results.two.data) + size(results.three.data) > 0' }],
        response: { count: '{{results.one.id}}' }
      }
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['a', 'b'] })
  allowLongCalls(t, app)
  const [ofA, ofB] = ['a', 'b'].map((tenant) => caller(t, app, { token: signToken({ tenant_id: tenant }) }))
  if (ofA === undefined || ofB === undefined) throw new Error('two callers')
  const memory = app.engine.resultMemory

  for (const target of ['POST /run', 'GET /combined']) {
    service = gate()
    const before = slow.requests.length
    const waiting = [ofA(target), ofA(target)]
    await until('both requests wait for the service', () => slow.requests.length === before + 2)
    t.ok(memory.bytes > 50_000_000, `${memory.bytes} bytes`)
    const refusal = await ofA(target)
    refused(t, refusal, 429, 'RESPONSES_BUSY', target)
    t.match(refusal.headers, { 'retry-after': '1' })
    waiting.push(ofB(target))
    await until('the request of another tenant waits for the service', () => slow.requests.length === before + 3)
    service.open()
    for (const { status, text } of await Promise.all(waiting)) t.equal(status, 200, text.slice(0, 200))
    t.equal(memory.bytes, 0, 'nothing is kept')
    t.equal((await ofA(target)).status, 200, 'the tenant is served again')
  }

  service = gate()
  const admin = caller(t, app, { token: signToken({ tenant_id: 'a', role: 'admin' }) })
  const skipped = (id: string) => ({ ...select(id), condition: 'false', filters: [{ column: 'note', value: 'x'.repeat(1000) }] })
  const body = {
    async: false,
    steps: [
      { id: 'call', type: 'integration', integration: 'http', action: 'request', params: { url: slow.origin } },
      ...Array.from({ length: 50 }, (_none, index) => skipped(`skipped${index}`))
    ]
  }
  const before = slow.requests.length
  let refusals = 0
  const runs = Array.from({ length: 20 }, async () => {
    const response = await admin('POST /agent/workflow', { body })
    if (response.status === 200) return
    refused(t, response, 429, 'RESPONSES_BUSY', 'a workflow of 57 KB')
    refusals++
  })
  await until('each run is refused or waits', () => slow.requests.length - before + refusals === runs.length)
  t.ok(refusals > 0, `${refusals} refusals`)
  service.open()
  await Promise.all(runs)
  t.equal(memory.bytes, 0)
})

test('bodies of calls that wait for another try are bounded for a tenant, and others are served', async (t) => {
  const limiting = await remote(t, (_request, response) => {
    response.writeHead(429, { 'retry-after': '300' }).end()
  })
  const text = 'x'.repeat(800_000)
  const app = await testServer(t, {
    egress: { allow: ['127.0.0.1'] },
    customIntegrations: [{
      name: 'limiting',
      baseUrl: limiting.origin,
      actions: { put: { method: 'PUT', path: '/', body: Array.from({ length: 20 }, () => '{{params.text}}') } }
    }],
    routes: [{ path: '/send', method: 'post', requireAuth: true, integrations: [{ type: 'limiting', action: 'put', params: '{{body}}' }] }]
  }, { tenants: ['a', 'b'] })
  const endCalls = allowLongCalls(t, app)
  const send = (tenant: string, body: object) => caller(t, app, { token: signToken({ tenant_id: tenant }) })('POST /send', { body })
  const waiting = Array.from({ length: 4 }, () => send('a', { text }))
  await until('four calls of 16 MB wait', () => limiting.requests.length === 4)
  refused(t, await send('a', { text }), 429, 'RESPONSES_BUSY', 'a fifth call')
  t.equal(limiting.requests.length, 4, 'it was not made')
  waiting.push(send('b', { text }), send('b', { text }))
  await until('calls of another tenant are made', () => limiting.requests.length >= 6)
  endCalls()
  for (const { status } of await Promise.all(waiting)) t.equal(status, 504)
})

test('responses of other services that wait for a turn are bounded for a tenant, and further calls are not made', async (t) => {
  const characters = 250_000 // of each response; larger ones are read in turns, too
  const json = JSON.stringify({ text: 'x'.repeat(characters) })
  let service = gate()
  const slow = await remote(t, async (_request, response) => {
    await service.opened
    response.writeHead(200, { 'content-type': 'application/json' }).end(json)
  })
  const app = await testServer(t, {
    egress: { allow: ['127.0.0.1'] },
    routes: [{
      path: '/call',
      method: 'get',
      requireAuth: true,
      integrations: [{ type: 'http', action: 'request', params: { url: slow.origin } }]
    }]
  }, { tenants: ['busy', 'other'] })
  allowLongCalls(t, app)
  const [busy, other] = ['busy', 'other'].map((tenant) => caller(t, app, { token: signToken({ tenant_id: tenant }) }))
  if (busy === undefined || other === undefined) throw new Error('two callers')
  const waiting = () => turns.yielder('tenant busy').waiting
  const room = 67_108_864 // bytes
  const atOnce = 20

  /** Makes calls until one is refused or the responses that wait have so many bytes. The results are codes, or numbers of the status. */
  async function fill (call: () => Promise<string | number>, most: number, pause: ReturnType<typeof holdInPause>) {
    const before = slow.requests.length
    const all: Promise<string | number>[] = []
    const refusals: (string | number)[] = []
    while (refusals.length === 0 && waiting() * characters < most) {
      service = gate()
      pause.pass()
      for (let index = 0; index < atOnce; index++) {
        all.push(call().then((result) => {
          if (result !== 200) refusals.push(result)
          return result
        }))
      }
      await until('all are made or refused', () => slow.requests.length - before + refusals.length === all.length)
      pause.hold()
      service.open()
      await until('all wait or are refused', () => waiting() + refusals.length === all.length)
    }
    t.equal(slow.requests.length - before, waiting(), 'refused calls are not made')
    return all
  }

  await t.test('of routes, with their parsed results', async (t) => {
    const pause = holdInPause(t, 'busy')
    const all = await fill(async () => (await busy('GET /call')).status, room, pause)
    t.ok(waiting() * 5 * characters < 2 * room, `${waiting()} responses in memory`)
    t.equal((await other('GET /call')).status, 200, 'another tenant is served')
    pause.end()
    t.strictSame(new Set(await Promise.all(all)), new Set([200, 429]))
    t.equal(app.engine.resultMemory.bytes, 0)
    t.equal((await busy('GET /call')).status, 200)
  })

  await t.test('of calls whose results are not counted otherwise', async (t) => {
    const pause = holdInPause(t, 'busy')
    const faults = new FaultList()
    const params = { url: slow.origin }
    const call = app.integrations.platform.call({ type: 'http', action: 'request', params }, '', { faults, sources: new Set(), env: {} })
    if (call === null) throw new Error('no call')
    const tenant = tenantIdOf('busy')
    const scope = { ...noScope, tenant: scopeTenant(tenant) }
    const run = () =>
      app.integrations.run(call, scope, { tenant, log: app.log }).then(() => 200, (error: unknown) =>
        error instanceof TenantryError ? error.code : String(error))
    const all = await fill(run, 2 * room, pause)
    t.ok(waiting() * characters < 1.2 * room, `${waiting()} responses in memory`)
    pause.end()
    t.strictSame(new Set(await Promise.all(all)), new Set([200, 'TENANTRY_RESPONSES_BUSY']))
    t.equal(await run(), 200)
  })
})

test('runs within requests count their bodies and themselves', async (t) => {
  const app = await testServer(t, {
    egress: { allow: ['127.0.0.1'] },
    routes: [{
      path: '/run',
      method: 'post',
      requireAuth: true,
      workflow: {
        steps: [{ id: 'call', type: 'integration', integration: 'http', action: 'request', params: { url: 'http://127.0.0.1:9/' }, retry: { attempts: 2, backoffMs: 60_000 } }]
      }
    }]
  }, { tenants: ['a'] })
  const origin = await listen(app)
  const left = new AbortController()
  const send = async (body: object) => {
    const headers = { 'content-type': 'application/json', ...bearer({ tenant_id: 'a' }) }
    await fetch(`${origin}/run`, { method: 'POST', headers, body: JSON.stringify(body), signal: left.signal }).catch(() => {})
  }
  const { resultMemory } = app.engine
  const waiting = [send({ text: 'x'.repeat(1_000_000) })]
  await until('a run with a body waits', () => resultMemory.bytes > 4_000_000)
  const before = resultMemory.bytes
  waiting.push(send({}))
  await until('a run without results waits', () => resultMemory.bytes >= before + 32_768)
  left.abort()
  await Promise.all(waiting)
  await until('nothing is kept', () => resultMemory.bytes === 0)
})

test('asynchronous runs of a tenant with many results wait for each other', async (t) => {
  const service = gate()
  const slow = await remote(t, async (_request, response) => {
    await service.opened
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  const { connectionString, query } = await postgresDatabase(t, {
    sql: `create table texts (tenant_id text not null, id int not null, data jsonb, primary key (tenant_id, id));
      insert into texts select t, 1, (select jsonb_agg(jsonb_build_array()) from generate_series(1, 200000)) from unnest(array['a', 'b']) t`
  })
  const names = Array.from({ length: 12 }, (_none, index) => `step${index}`)
  const app = await testServer(t, {
    egress: { allow: ['127.0.0.1'] },
    customIntegrations: [{ name: 'slow', baseUrl: slow.origin, actions: { get: { method: 'GET', path: '/' } } }],
    routes: [{
      path: '/start',
      method: 'post',
      requireAuth: true,
      workflow: {
        async: true,
        steps: [
          ...names.map((id): Step => ({ id, type: 'database', operation: 'select', table: 'texts' })),
          {
            id: 'call',
            type: 'integration',
            integration: 'slow',
            action: 'get',
            timeoutMs: 120_000,
            condition: names.map((name) => `steps.${name}.result != null`).join(' && ')
          }
        ]
      }
    }]
  }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['a', 'b'] })
  const [ofA, ofB] = ['a', 'b'].map((tenant) => caller(t, app, { token: signToken({ tenant_id: tenant }) }))
  if (ofA === undefined || ofB === undefined) throw new Error('two callers')
  t.equal((await ofA('POST /start')).status, 202)
  await until('a run waits for the service', () => slow.requests.length === 1)
  for (const ask of [ofA, ofB]) t.equal((await ask('POST /start')).status, 202)
  await until('the run of another tenant waits for the service', () => slow.requests.length === 2)
  await until('the other run was handed back', async () => (await query('select from tenantry.workflow_runs where attempt > 1')).length === 1)
  t.equal(slow.requests.length, 2)
  service.open()
  await until('all runs end', async () => (await query("select from tenantry.workflow_runs where status = 'completed'")).length === 3)
})

test('results of writes that wait for a turn are bounded for a tenant, and a refused request writes nothing', async (t) => {
  const characters = 400_000 // of each result; larger ones are read in turns, too
  const { connectionString } = await postgresDatabase(t, {
    sql: `create table texts (tenant_id text not null, id int not null, grp text, text text, primary key (tenant_id, id));
      insert into texts select t, 1, 'all', repeat('x', ${characters}) from unnest(array['busy', 'other']) t`
  })
  const app = await testServer(t, {
    routes: [{
      path: '/texts',
      method: 'patch',
      requireAuth: true,
      queries: [{ table: 'texts', operation: 'update', data: { grp: 'all' }, filters: [{ column: 'grp', value: 'all' }] }],
      transform: { fields: { size: 'size(item.text)' } }
    }, {
      path: '/changes',
      method: 'post',
      requireAuth: true,
      queries: [{ table: 'texts', operation: 'insert', data: { id: '{{body.id}}', text: '{{body.text}}' } }],
      response: { id: '{{results.texts.id}}' }
    }]
  }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['busy', 'other'] })
  const [busy, other] = ['busy', 'other'].map((tenant) => caller(t, app, { token: signToken({ tenant_id: tenant }) }))
  if (busy === undefined || other === undefined) throw new Error('two callers')
  const waiting = () => turns.yielder('tenant busy').waiting
  const pause = holdInPause(t, 'busy')
  const statuses: number[] = []
  const all = Array.from({ length: 200 }, async () => {
    statuses.push((await busy('PATCH /texts', { body: {} })).status)
  })
  await until('all wait or are refused', () => waiting() + statuses.length === all.length)
  t.ok(waiting() * characters < 2 * 67_108_864, `${waiting()} results in memory`)
  t.strictSame([...new Set(statuses)], [429])
  refused(t, await busy('POST /changes', { body: { id: 2, text: 'x' } }), 429, 'RESPONSES_BUSY')
  t.equal((await other('POST /changes', { body: { id: 2, text: 'x' } })).status, 201, 'another tenant is served')
  pause.end()
  await Promise.all(all)
  t.ok(statuses.includes(200))
  t.equal(app.engine.resultMemory.bytes, 0)
  t.equal((await busy('POST /changes', { body: { id: 2, text: 'x' } })).status, 201, 'the refused request had written nothing')
})
