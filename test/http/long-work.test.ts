/** Long work of a tenant's requests waits for turns of the tenant, and does not delay other tenants. */
import { test } from 'tap'
import { turns } from '../../lib/concurrency/event-loop-yielder.js'
import { holdAccount, holdInPause } from '../helpers/pauses.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'

const characters = 400_000 // of the large text

test('values are computed, and long texts are read, in turns of the tenant', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create table texts (tenant_id text not null, id int not null, text text not null, primary key (tenant_id, id));
      insert into texts select t, id, repeat('x', case id when 1 then 1 else ${characters} end) from unnest(array['busy', 'other']) t, generate_series(1, 2) id`
  })
  const row = { table: 'texts', operation: 'select', id: '{{params.id}}' } as const
  const app = await testServer(t, {
    routes: [
      { path: '/rows/:id', method: 'get', requireAuth: true, queries: [row] },
      { path: '/computed/:id', method: 'get', requireAuth: true, queries: [row], transform: { fields: { size: 'size(item.text)' } } },
      { path: '/mapped/:id', method: 'get', requireAuth: true, queries: [row], response: { id: '{{results.texts.id}}' } },
      {
        path: '/later/:id',
        method: 'get',
        requireAuth: true,
        queries: [row, { ...row, alias: 'same', id: '{{results.texts.id}}' }],
        response: { id: '{{results.same.id}}' }
      },
      {
        path: '/texts',
        method: 'post',
        requireAuth: true,
        request: { body: { id: { type: 'integer' }, text: { type: 'string' } } },
        queries: [{ table: 'texts', operation: 'upsert' }],
        transform: { fields: { size: 'size(item.text)' } },
        response: { text: '{{results.texts.text}}', size: '{{results.texts.size}}' }
      },
      {
        path: '/runs/:id',
        method: 'post',
        requireAuth: true,
        workflow: { steps: [{ id: 'text', type: 'database', operation: 'select', table: 'texts', filters: [{ column: 'id', value: '{{params.id}}' }] }] },
        transform: { fields: { count: 'size(result.data)' } }
      }
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['busy', 'other'] })
  const get = (tenant: string, url: string) => app.inject({ url, headers: bearer({ tenant_id: tenant }) })
  const post = (tenant: string, url: string, payload: object) =>
    app.inject({ method: 'POST', url, headers: bearer({ tenant_id: tenant }), payload })
  const waiting = () => turns.yielder('tenant busy').waiting

  await t.test('other requests of the tenant, and those of other tenants, do not wait', async (t) => {
    const pause = holdInPause(t, 'busy')
    const long = [
      get('busy', '/computed/1'),
      get('busy', '/mapped/2'),
      get('busy', '/later/2'),
      get('busy', `/rows/1?more=${'x'.repeat(2048)}`),
      post('busy', '/texts', { id: 3, text: 'x' }),
      post('busy', '/texts', { id: 4, text: 'x'.repeat(3000) }),
      post('busy', '/runs/1', {})
    ]
    await until('all of them wait', () => waiting() === long.length)
    for (const url of ['/rows/1', '/rows/2', '/mapped/1', '/later/1']) t.equal((await get('busy', url)).statusCode, 200, url)
    for (const url of ['/computed/1', '/mapped/2', '/later/2']) t.equal((await get('other', url)).statusCode, 200, url)
    t.equal(waiting(), long.length, 'nothing of the waiting work was done')
    pause.end()
    for (const response of await Promise.all(long)) t.match([200, 400], [response.statusCode], response.body)
  })

  await t.test('the results that wait are bounded', async (t) => {
    const pause = holdInPause(t, 'busy')
    const statuses: number[] = []
    const reads = Array.from({ length: 200 }, async () => {
      statuses.push((await get('busy', '/mapped/2')).statusCode)
    })
    await until('all wait or are refused', () => waiting() + statuses.length === reads.length)
    t.ok(waiting() * characters < 2 * 67_108_864, `${waiting()} results in memory`)
    t.strictSame([...new Set(statuses)], [429])
    pause.end()
    await Promise.all(reads)
    t.ok(statuses.includes(200))
    t.equal(app.engine.resultMemory.bytes, 0)
  })
})

test("requests are tested with a tenant's costly patterns in turns of the tenant", async (t) => {
  const large = '(?:a?){240}[b-y]'
  const app = await testServer(t, {}, { tenants: ['busy'] })
  const ask = (method: 'POST' | 'GET', url: string, payload?: object) =>
    app.inject({ method, url, headers: bearer({ tenant_id: 'busy', role: 'admin' }), ...payload !== undefined && { payload } })
  const rules = (pattern: string) => ({ body: { text: { type: 'string', pattern } }, query: { text: { type: 'string', pattern } } })
  const saved = await ask('POST', '/tenant/config', {
    routes: [
      { path: '/large', method: 'post', request: rules(large), response: { ok: true } },
      { path: '/large', method: 'get', request: { query: rules(large).query }, response: { ok: true } },
      { path: '/small', method: 'post', request: rules('^[a-z]+$'), response: { ok: true } },
      { path: '/uuid', method: 'post', request: rules('^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$'), response: { ok: true } }
    ]
  })
  t.equal(saved.statusCode, 200, saved.body)
  // Compiles the routes.
  t.equal((await ask('GET', '/large')).statusCode, 200)
  for (const path of ['/large', '/small', '/uuid']) t.equal((await ask('POST', path, {})).statusCode, 200)
  const waiting = () => turns.yielder('tenant busy').waiting
  const pause = holdInPause(t, 'busy')
  const text = `${'a'.repeat(1800)}z`
  const ended: string[] = []
  const long = [ask('POST', '/large', { text }), ask('GET', `/large?text=${text}`), ask('GET', '/large?text=b')]
  for (const [index, one] of long.entries()) one.then(() => ended.push(`request ${index}`), () => {})
  await until('all of them wait or have ended', () => waiting() + ended.length === long.length)
  t.strictSame(ended, [], 'even a test of a short text, which may have to compile the pattern')
  t.equal((await ask('POST', '/small', { text: text.slice(1) })).statusCode, 200, 'a test with a small pattern does not wait')
  t.equal((await ask('POST', '/uuid', { text: '01234567-89ab-cdef-0123-456789abcdef' })).statusCode, 200, 'nor does one of a usual text')
  pause.end()
  t.strictSame((await Promise.all(long)).map(({ statusCode }) => statusCode), [400, 400, 200])
})

test("the version for a precondition is read with a tenant's costly patterns in turns of the tenant", async (t) => {
  const app = await testServer(t, {
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'text', primaryKey: true }, text: { type: 'text' } } } }
  }, { tenants: ['busy'] })
  const ask = (method: 'POST' | 'GET' | 'PATCH', url: string, payload?: object, headers: object = {}) =>
    app.inject({ method, url, headers: { ...bearer({ tenant_id: 'busy', role: 'admin' }), ...headers }, ...payload !== undefined && { payload } })
  const saved = await ask('POST', '/tenant/config', {
    routes: [
      { path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }] },
      {
        path: '/notes/:id',
        method: 'get',
        request: { params: { id: { type: 'string', pattern: '(?:a?){240}[b-y]' } } },
        queries: [{ table: 'notes', operation: 'select', id: '{{params.id}}' }]
      },
      { path: '/notes/:id', method: 'patch', queries: [{ table: 'notes', operation: 'update', id: '{{params.id}}' }] }
    ]
  })
  t.equal(saved.statusCode, 200, saved.body)
  t.equal((await ask('POST', '/notes', { id: 'b', text: 'one' })).statusCode, 201)
  // Compiles the route.
  t.equal((await ask('PATCH', '/notes/b', { text: 'first' })).statusCode, 200)
  const { etag } = (await ask('GET', '/notes/b')).headers
  const pause = holdInPause(t, 'busy')
  let status = 0
  const changed = ask('PATCH', '/notes/b', { text: 'two' }, { 'if-match': etag }).then(({ statusCode }) => {
    status = statusCode
  })
  await until('it waits or has ended', () => turns.yielder('tenant busy').waiting > 0 || status !== 0)
  t.equal(status, 0)
  pause.end()
  await changed
  t.equal(status, 200)
})

test('long work of callers without a tenant takes turns of their address', async (t) => {
  const app = await testServer(t, {
    tables: { notes: { columns: { id: { type: 'integer', primaryKey: true }, text: { type: 'text' } } } },
    routes: [
      { path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }], response: { id: '{{results.notes.id}}' } },
      { path: '/computed', method: 'get', queries: [{ table: 'notes', operation: 'select' }], transform: { fields: { size: 'size(item.text)' } } },
      {
        path: '/runs',
        method: 'post',
        workflow: { steps: [{ id: 'notes', type: 'database', operation: 'select', table: 'notes', condition: 'true' }] }
      }
    ]
  })
  const from = (remoteAddress: string, method: 'GET' | 'POST', url: string, payload?: object) =>
    app.inject({ method, url, remoteAddress, ...payload !== undefined && { payload } })
  const [busy, other] = ['192.0.2.1', '192.0.2.2'] as const
  const pause = holdAccount(t, `address ${busy}`)
  const ended: string[] = []
  const long = [
    from(busy, 'GET', '/computed'),
    from(busy, 'POST', '/runs', {}),
    from(busy, 'POST', '/notes', { id: 1, text: 'x'.repeat(3000) })
  ]
  for (const [index, one] of long.entries()) one.then(() => ended.push(`request ${index}`), () => {})
  await until('all of them wait or have ended', () => turns.yielder(`address ${busy}`).waiting + ended.length === long.length)
  t.strictSame(ended, [])
  t.equal((await from(busy, 'POST', '/notes', { id: 2, text: 'x' })).statusCode, 201, 'short work does not wait')
  t.equal((await from(other, 'GET', '/computed')).statusCode, 200, 'nor does another caller')
  t.equal((await from(other, 'POST', '/runs', {})).statusCode, 200)
  pause.end()
  t.strictSame((await Promise.all(long)).map(({ statusCode }) => statusCode), [200, 200, 201])
})

test('calls of tools, and workflows of routes, take turns of the tenant for long bodies', async (t) => {
  const host = 'mcp.example.com'
  const insert = { table: 'notes', operation: 'insert' } as const
  const app = await testServer(t, {
    mcp: { url: `http://${host}` },
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, text: { type: 'text' } } } },
    routes: [
      { path: '/notes', method: 'post', requireAuth: true, mcp: { name: 'add' }, queries: [insert], response: { text: '{{body.text}}' } },
      {
        path: '/runs',
        method: 'post',
        requireAuth: true,
        mcp: { name: 'run' },
        workflow: { steps: [{ id: 'add', type: 'database', ...insert, data: { text: '{{input.text}}' } }], input: { text: 'Text: {{body.text}}' } },
        response: { text: '{{body.text}}' }
      }
    ]
  }, {
    tenants: ['busy'],
    prepare (app) {
      app.register(async (group) => {
        group.post<{ Querystring: { length: number } }>('/model', { config: { access: 'open' } }, async (request) => ({
          result: await group.tools.call('add', { body: { text: 'x'.repeat(request.query.length) } }, request)
        }))
      })
    }
  })
  const post = (url: string, payload: object) =>
    app.inject({
      method: 'POST',
      url,
      headers: { ...bearer({ tenant_id: 'busy' }), host, accept: 'application/json, text/event-stream', 'content-type': 'application/json' },
      payload
    })
  const call = (name: string, text: string) =>
    post('/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: { body: { text } } } })
  const [short, long] = ['x', 'x'.repeat(3000)]
  for (
    const { name, ask, turns: expected } of [
      { name: 'a short call', ask: () => call('add', short), turns: 0 },
      { name: 'its arguments, validation, statement and response', ask: () => call('add', long), turns: 4 },
      { name: 'a short call by a model', ask: () => post('/model?length=1', {}), turns: 0 },
      { name: 'its validation, statement and response', ask: () => post('/model?length=3000', {}), turns: 3 },
      { name: 'the step of a short workflow', ask: () => post('/runs', { text: short }), turns: 1 },
      { name: 'its validation, input, step and response', ask: () => post('/runs', { text: long }), turns: 4 },
      { name: 'a call that runs a workflow', ask: () => call('run', long), turns: 5 }
    ]
  ) {
    const pause = holdInPause(t, 'busy')
    let ended: { readonly statusCode: number, readonly body: string } | undefined
    const response = ask().then((response) => {
      ended = response
    })
    let taken = 0
    for (;;) {
      await until('it waits or has ended', () => turns.yielder('tenant busy').waiting > 0 || ended !== undefined)
      if (ended !== undefined) break
      taken++
      pause.next()
    }
    pause.end()
    await response
    t.match([200, 201], [ended?.statusCode], ended?.body)
    t.notMatch(ended?.body, '"isError":true')
    t.equal(taken, expected, name)
  }
})
