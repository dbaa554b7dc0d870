import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sql } from 'kysely'
import { test } from 'tap'
import { holdInPause } from '../../helpers/pauses.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { document, open } from './app.js'

const names = (body: { tools?: Array<{ name: string }> }) => body.tools?.map(({ name }) => name)

test('lists the tools that the caller may call, by name', async (t) => {
  const { as, probe } = await open(t)
  t.strictSame(names((await as('acme')('list')).body), ['add_note', 'get_notes', 'get_notes_by_id', 'words'])
  t.strictSame(names((await as('acme', { permissions: ['notes:*'] })('list')).body), [
    'add_note',
    'get_notes',
    'get_notes_by_id',
    'remove_note',
    'words'
  ])
  t.strictSame(names((await probe({})('list')).body), ['words'], 'a caller without a token')
  const { body: { tools = [] } } = await as('acme', { role: 'admin' })('list')
  t.match(tools.find(({ name }) => name === 'add_note'), {
    description: 'Adds a note.',
    readOnly: false,
    destructive: false,
    inputSchema: {
      type: 'object',
      properties: {
        body: { anyOf: [{ properties: { title: { type: 'string', maxLength: 100 } }, additionalProperties: false }, { type: 'array' }] }
      },
      required: ['body'],
      additionalProperties: false
    },
    outputSchema: { anyOf: [{ properties: { title: { type: 'string' } } }, {}] }
  })
  t.match(tools.find(({ name }) => name === 'get_notes'), {
    readOnly: true,
    destructive: false,
    inputSchema: { properties: { limit: { type: 'integer' }, offset: { type: 'integer' } } }
  })
  t.match(tools.find(({ name }) => name === 'remove_note'), {
    readOnly: false,
    destructive: true,
    inputSchema: { properties: { id: { type: 'string' } }, required: ['id'] }
  })
  t.match(tools.find(({ name }) => name === 'words'), {
    inputSchema: { properties: { q: { type: 'string' }, tags: { type: 'array' } }, required: ['q'] }
  })
})

test("calls a route with the caller's permissions and tenant", async (t) => {
  const { as } = await open(t)
  const acme = as('acme')
  const { status, body: { result } } = await acme('call', { name: 'add_note', input: { body: { title: 'a', rank: 3 } } })
  t.match({ status, result }, { status: 200, result: { title: 'a' } })
  const { id } = Object(result)
  t.match((await acme('call', { name: 'get_notes_by_id', input: { id } })).body, { result: { id, title: 'a' } })
  t.match((await acme('call', { name: 'get_notes', input: { limit: 1, offset: null } })).body, {
    result: { data: [{ id }], pagination: { limit: 1 } }
  })
  t.match(await as('globex')('call', { name: 'get_notes_by_id', input: { id } }), { status: 404, body: { code: 'TENANTRY_NOT_FOUND' } })
  t.match(await acme('call', { name: 'remove_note', input: { id } }), { status: 400, body: { code: 'TENANTRY_TOOL_UNKNOWN' } })
  t.match(await as('acme', { permissions: ['notes:delete'] })('call', { name: 'remove_note', input: { id } }), {
    status: 200,
    body: { result: { success: true } }
  })
})

test('reports the wrong value of the input', async (t) => {
  const { as } = await open(t)
  const call = async (name: string, input: unknown) => {
    const { status, body } = await as('acme')('call', { name, input })
    return { status, text: JSON.stringify(body) }
  }
  t.match(await call('add_note', { body: { title: 7 } }), { status: 400, text: /\/body\/title must be a string/ })
  t.match(await call('add_note', {}), { status: 400, text: /\/body is required/ })
  t.match(await call('add_note', { title: 'a' }), { status: 400, text: /\/title.*is not an input of this tool/ })
  t.match(await call('add_note', 'a'), { status: 400, text: /must be an object/ })
  t.match(await call('get_notes', { limit: 'many' }), { status: 400, text: /limit/ })
  t.match(await call('get_notes_by_id', {}), { status: 400, text: /\/id.*is required/ })
  for (const id of ['', '.', '..', { a: 1 }, '\ud800', ['x']]) {
    t.match(await call('get_notes_by_id', { id }), { status: 400, text: /\/id/ }, JSON.stringify(id))
  }
  t.match(await call('get_notes_by_id', { id: '../hidden' }), { status: 400, text: /TENANTRY/ }, 'a slash stays within its segment')
  t.match(await call('words', { q: 'x'.repeat(9000) }), { status: 400, text: /8192 characters/ })
  t.match(await call('hidden', {}), { status: 400, text: /TENANTRY_TOOL_UNKNOWN/ }, 'a route that is not a tool')
})

test('an empty list is a value of the query string', async (t) => {
  const { as } = await open(t, {
    ...document,
    routes: [
      ...document.routes ?? [],
      {
        path: '/some-notes',
        method: 'get',
        requireAuth: true,
        mcp: { name: 'some_notes' },
        request: { query: { titles: { type: 'array', items: { type: 'string' } } } },
        queries: [{
          table: 'notes',
          operation: 'select',
          select: 'title',
          filters: [{ column: 'title', operator: 'in', value: '{{query.titles}}', optional: true }]
        }]
      }
    ]
  })
  const call = async (name: string, input: object) => (await as('acme')('call', { name, input })).body
  await call('add_note', { body: { title: 'a' } })
  const titles = async (input: object) => (await call('some_notes', input)).result
  t.match(await titles({}), { data: [{ title: 'a' }] })
  t.match(await titles({ titles: null }), { data: [{ title: 'a' }] })
  t.match(await titles({ titles: ['a', 'b'] }), { data: [{ title: 'a' }] })
  t.match(await titles({ titles: [] }), { data: { length: 0 } })
  t.match(await call('words', { q: 'x', tags: [] }), { result: { tags: { length: 0 } } })
})

test('a parameter of a path keeps every digit of a number', async (t) => {
  const { app } = await open(t, {
    routes: [{ path: '/numbers/:n', method: 'get', mcp: { name: 'number' }, response: { n: '{{params.n}}' } }]
  })
  for (const n of ['12345678901234567890', '0.12345678901234567890']) {
    const payload = `{"name":"number","input":{"n":${n}}}`
    const { body } = await app.inject({ method: 'POST', url: '/probe/call', headers: { 'content-type': 'application/json' }, payload })
    t.equal(body, `{"result":{"n":"${n}"}}`)
  }
})

test('a workflow that reads the body gets the body', async (t) => {
  const steps = [{ id: 'add', type: 'database', operation: 'insert', table: 'notes', select: 'title' }] as const
  const { as } = await open(t, { ...document, routes: [{ path: '/add', method: 'post', mcp: { name: 'add' }, workflow: { steps: [...steps] } }] })
  t.match((await as('acme')('call', { name: 'add', input: { body: { title: 'Milk' } } })).body, {
    result: { status: 'completed', result: { title: 'Milk' } }
  })
})

test("passes on the caller's identity, and no other header", async (t) => {
  const { as } = await open(t)
  const { body } = await as('acme')('call', { name: 'words', input: { q: 'a&b=c?#', tags: ['x', 'y'] } }, {
    'x-custom': 'mine',
    'x-tenantry-tool-call': 'mine'
  })
  t.strictSame(body.result, { q: 'a&b=c?#', tags: ['x', 'y'] })
})

test('counts the address of the caller', async (t) => {
  const limited = {
    ...document,
    routes: [{ path: '/once', method: 'get' as const, mcp: { name: 'once' }, rateLimit: { max: 1 }, response: { ok: true } }]
  }
  const { probe } = await open(t, limited)
  const [here, there] = [probe({}, '192.0.2.1'), probe({}, '192.0.2.2')]
  t.strictSame([
    (await here('call', { name: 'once' })).status,
    (await here('call', { name: 'once' })).status,
    (await there('call', { name: 'once' })).status
  ], [200, 429, 200])
})

test('counts calls as usage of the tenant', async (t) => {
  const { app, as } = await open(t)
  const before = (await app.usage.summary('acme')).api_calls
  await as('acme')('call', { name: 'get_notes' })
  t.equal((await app.usage.summary('acme')).api_calls - before, 1, 'the request that contains the call')
})

test("a result is bounded, and numbers beyond a double's precision are texts", async (t) => {
  const { app, as } = await open(t)
  await sql`insert into notes (tenant_id, title, rank) values ('acme', repeat('x', 5000), 9007199254740993)`.execute(app.db)
  t.match((await as('acme')('call', { name: 'get_notes' })).body, { result: { data: [{ rank: '9007199254740993' }] } })
  t.match(await as('acme')('call', { name: 'get_notes', maxBytes: 4000 }), {
    status: 400,
    body: { code: 'TENANTRY_ANSWER_TOO_LARGE', message: 'The result has more than 4000 bytes: request fewer records or fields' }
  })
})

test('nested tool calls stop at a maximum depth', async (t) => {
  const depths: number[] = []
  const { probe } = await open(t, document, {
    prepare (app) {
      app.register(async (group) => {
        group.get('/again', {
          config: { access: 'open', tool: { name: 'again', description: 'Calls itself.', readOnly: true, destructive: false } }
        }, async (request) => {
          depths.push(request.toolDepth)
          return { within: await group.tools.call('again', {}, request) }
        })
      })
    }
  })
  t.match(await probe({})('call', { name: 'again' }, { 'x-tenantry-tool-call': 'guess' }), {
    status: 400,
    body: { code: 'TENANTRY_TOOLS_NESTED' }
  })
  t.strictSame(depths, [1, 2, 3])
})

test('a call that ends while it waits for its turn does not run', async (t) => {
  let runs = 0
  const { app } = await open(t, document, {
    prepare (app) {
      app.register(async (group) => {
        group.get('/late', {
          config: { access: 'open', tool: { name: 'late', description: 'Runs.', readOnly: true, destructive: false } }
        }, async () => ({ runs: ++runs }))
        group.post('/ask', { config: { access: 'open' } }, async (request) => {
          const pause = holdInPause(t, 'acme')
          const ending = new AbortController()
          const call = group.tools.call('late', {}, request, { signal: ending.signal })
          await until('the call waits', () => pause.waiting() > 0)
          ending.abort(new Error('the chat has ended'))
          pause.end()
          return await call.then(() => 'done', ({ message }) => message)
        })
      })
    }
  })
  const { body } = await app.inject({ method: 'POST', url: '/ask', headers: bearer({ tenant_id: 'acme' }), payload: { text: 'x'.repeat(3000) } })
  t.equal(body, 'the chat has ended')
  t.equal(runs, 0)
})

test("an empty list for a route of the app's own is not given", async (t) => {
  const { probe } = await open(t, document, {
    prepare (app) {
      app.register(async (group) => {
        group.get('/own', {
          config: { access: 'open', tool: { name: 'own', description: 'Returns its query.', readOnly: true, destructive: false } },
          schema: { querystring: { type: 'object', properties: { ids: { type: 'array', items: { type: 'integer' } } } } }
        }, async ({ query }) => query)
      })
    }
  })
  t.strictSame((await probe({})('call', { name: 'own', input: { ids: [] } })).body.result, {})
  t.strictSame((await probe({})('call', { name: 'own', input: { ids: [7] } })).body.result, { ids: [7] })
})

test('a tool that does not respond in time is aborted', async (t) => {
  const ended: string[] = []
  const tool = { description: 'Never answers.', readOnly: true, destructive: false }
  const { probe } = await open(t, document, {
    prepare (app) {
      app.register(async (group) => {
        const wait = (name: string) => async (_request: FastifyRequest, reply: FastifyReply) => {
          await new Promise((resolve) => reply.raw.once('close', resolve))
          ended.push(name)
        }
        group.get('/slow', { config: { access: 'open', tool: { name: 'slow', ...tool } } }, wait('slow'))
        group.post(
          '/slower',
          { config: { access: 'open', tool: { name: 'slower', ...tool } }, schema: { body: { type: 'object' } } },
          wait('slower')
        )
      })
    }
  })
  // In this time a busy machine must reach the tools.
  const timeoutMs = 1500
  for (const name of ['slow', 'slower']) {
    t.match(await probe({})('call', { name, timeoutMs, ...name === 'slower' && { input: { body: {} } } }), {
      status: 504,
      body: { code: 'TENANTRY_TOOL_TIMEOUT' }
    }, name)
  }
  t.strictSame(ended, ['slow', 'slower'], "the tools' requests were ended")
})

test('a tool whose response fails ends with an error, and the process goes on', async (t) => {
  const tool = { description: 'Writes its response itself.', readOnly: true, destructive: false }
  const fails = () => {
    throw new Error('the source failed')
  }
  const { probe } = await open(t, document, {
    prepare (app) {
      app.register(async (group) => {
        group.get('/piped', { config: { access: 'open', tool: { name: 'piped', ...tool } } }, async (_request, reply) => {
          reply.hijack()
          await pipeline(new Readable({ read: fails }), reply.raw).catch(() => {})
        })
        group.get('/destroyed', { config: { access: 'open', tool: { name: 'destroyed', ...tool } } }, (_request, reply) => {
          reply.hijack()
          reply.raw.destroy(new Error('the source failed'))
        })
        group.get('/early', { config: { access: 'open', tool: { name: 'early', ...tool } } }, (_request, reply) => {
          reply.hijack()
          const { raw } = reply
          raw.setHeader('content-type', 'application/json')
          raw.writeEarlyHints({ link: '</style.css>; rel=preload' }, () => {
            raw.flushHeaders()
            raw.end('{"isWhole":true}')
          })
        })
      })
    }
  })
  for (const name of ['piped', 'destroyed']) t.match(await probe({})('call', { name }), { status: 500 }, name)
  t.match(await probe({})('call', { name: 'early' }), { status: 200, body: { result: { isWhole: true } } })
})

test('a declared route that does not respond in time is given up', async (t) => {
  const { app, as } = await open(t)
  const acme = as('acme')
  t.match(await acme('call', { name: 'get_notes' }), { status: 200 })
  await app.db.transaction().execute(async (transaction) => {
    await sql`lock table notes in access exclusive mode`.execute(transaction)
    t.match(await acme('call', { name: 'get_notes', timeoutMs: 200 }), { status: 504, body: { code: 'TENANTRY_TOOL_TIMEOUT' } })
  })
  t.match(await acme('call', { name: 'get_notes' }), { status: 200 })
})

test('a tenant has tools of its own routes', async (t) => {
  const { app, as } = await open(t)
  const admin = bearer({ sub: 'boss', role: 'admin', tenant_id: 'acme' })
  const save = async (routes: unknown[], headers = admin) =>
    await app.inject({ method: 'POST', url: '/tenant/config', headers, payload: { routes } })
  const mine = { path: '/mine/:name', method: 'get', mcp: { name: 'mine' }, response: { hello: '{{params.name}}' } }
  t.match(
    (await save([mine, { path: '/staff', method: 'get', requiredPermissions: ['staff:read'], mcp: true, response: {} }])).statusCode,
    200
  )
  t.strictSame(names((await as('acme')('list')).body), ['add_note', 'get_notes', 'get_notes_by_id', 'mine', 'words'])
  t.strictSame(names((await as('globex')('list')).body), ['add_note', 'get_notes', 'get_notes_by_id', 'words'])
  t.match((await as('acme')('call', { name: 'mine', input: { name: 'a/b' } })).body, { result: { hello: 'a/b' } })
  t.match(await as('globex')('call', { name: 'mine', input: { name: 'a' } }), { status: 400, body: { code: 'TENANTRY_TOOL_UNKNOWN' } })
  t.match((await as('acme', { permissions: ['staff:read'] })('call', { name: 'get_staff' })).status, 200)
  t.match((await as('acme')('call', { name: 'get_staff' })).status, 400)

  t.equal((await save([{ ...mine, response: { bye: '{{params.name}}' } }])).statusCode, 200)
  t.match(
    (await as('acme')('call', { name: 'mine', input: { name: 'a' } })).body,
    { result: { bye: 'a' } },
    'a saved document applies at once'
  )
  t.match((await save([{ ...mine, mcp: { name: 'words' } }])).json(), {
    details: [{ path: '/routes/0/mcp', message: /the server already has a tool "words"/ }]
  })
  t.match((await save([mine, { ...mine, path: '/other' }])).json(), {
    details: [{ path: '/routes/1/mcp', message: /already declared at \/routes\/0/ }]
  })
})
