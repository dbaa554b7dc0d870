import { Ajv2020 } from 'ajv/dist/2020.js'
import { test } from 'tap'
import { Type } from 'typebox'
import { schemaWithoutReferences } from '../../helpers/openapi.js'
import { document, serve, textOf, token } from './app.js'

const prompts = [
  {
    name: 'summary',
    title: 'Summary',
    description: 'Sums up.',
    arguments: [{ name: 'style', required: true }, { name: 'length' }],
    text: 'Sum up the notes, {{style}}{{length}}.'
  },
  { name: 'plain', text: 'Say {{style}} as it is.'.replace('{{style}}', 'this') }
]

for (const era of ['modern', 'legacy'] as const) {
  test(`a ${era} client lists and calls the tools that the caller may call`, async (t) => {
    const { connect } = await serve(t)
    const client = await connect(token('acme'), era)
    t.equal(client.getNegotiatedProtocolVersion(), era === 'modern' ? '2026-07-28' : '2025-11-25')
    t.match(client.getServerVersion(), { name: 'Notes' })
    const { tools } = await client.listTools()
    t.strictSame(tools.map(({ name }) => name), ['add_note', 'get_notes', 'get_notes_by_id', 'words'])
    const annotations = Object.fromEntries(tools.map(({ name, annotations }) => [name, annotations]))
    t.match(annotations, { add_note: { readOnlyHint: false, destructiveHint: false }, get_notes: { readOnlyHint: true } })
    t.match(tools.find(({ name }) => name === 'get_notes'), {
      inputSchema: { properties: { limit: { type: 'integer' } } },
      outputSchema: { type: 'object' }
    })

    // The client validates each result with the output schema.
    const added = await client.callTool({ name: 'add_note', arguments: { body: { title: 'a', rank: 3 } } })
    t.match(JSON.parse(textOf(added)), { title: 'a' })
    const found = await client.callTool({ name: 'get_notes', arguments: {} })
    t.match(found, { structuredContent: { data: [{ title: 'a' }], pagination: { total: 1 } } })
    t.match(await client.callTool({ name: 'words', arguments: { q: 'x' } }), { structuredContent: { q: 'x' } })

    const admin = await connect(token('acme', { permissions: ['notes:*'] }), era)
    t.match((await admin.listTools()).tools.find(({ name }) => name === 'remove_note'), {
      annotations: { readOnlyHint: false, destructiveHint: true }
    })
  })
}

for (const era of ['modern', 'legacy'] as const) {
  test(`a ${era} client gets results that are texts, null or no JSON as structured content`, async (t) => {
    const schema = { response: { 200: { type: 'string' } } }
    const tool = { description: 'Returns a text.', readOnly: true, destructive: false }
    const { connect } = await serve(t, {
      routes: [
        ...document.routes ?? [],
        {
          path: '/created',
          method: 'post',
          requireAuth: true,
          mcp: { name: 'create' },
          queries: [{ table: 'notes', operation: 'insert' }],
          response: 'created'
        },
        { path: '/greeting', method: 'get', mcp: { name: 'greet' }, response: 'hello {{query.name}}' },
        { path: '/value', method: 'get', mcp: { name: 'value' }, response: '{{query.value}}' }
      ]
    }, {
      prepare (app) {
        app.register(async (group) => {
          group.get('/pong', { config: { access: 'open', tool: { ...tool, name: 'pong' } }, schema }, async () => 'pong')
          group.get('/gone', {
            config: { access: 'open', tool: { ...tool, name: 'gone' } },
            schema: { response: { 204: { type: 'null' } } }
          }, async (_request, reply) => await reply.code(204).send())
          group.get('/free', { config: { access: 'open', tool: { ...tool, name: 'free' } } }, async () => 'free text')
        })
      }
    })
    const client = await connect(token('acme'), era)
    // The client validates the results of listed tools, and refuses those without structured content.
    await client.listTools()
    const call = async (name: string, input: Record<string, unknown> = {}) => {
      const { structuredContent, ...result } = await client.callTool({ name, arguments: input })
      return { structuredContent, text: textOf(result) }
    }
    const shown = (value: unknown) => era === 'modern' ? value : { result: value }
    t.strictSame(await call('create', { body: { title: 'a' } }), { structuredContent: shown('created'), text: 'created' })
    t.strictSame(await call('greet', { name: 'bob' }), { structuredContent: shown('hello bob'), text: 'hello bob' })
    t.strictSame(await call('value'), { structuredContent: shown(null), text: 'null' })
    t.strictSame(await call('pong'), { structuredContent: shown('pong'), text: 'pong' })
    t.strictSame(await call('gone'), { structuredContent: shown(null), text: 'null' })
    t.strictSame(await call('free'), { structuredContent: undefined, text: 'free text' }, 'a tool without a schema of its results')
  })
}

for (const era of ['modern', 'legacy'] as const) {
  test(`a ${era} client calls tools whose schemas refer to shared schemas`, async (t) => {
    const config = (name: string) => ({ access: 'open' as const, tool: { name, description: name, readOnly: true, destructive: false } })
    const { connect } = await serve(t, {
      routes: [{
        path: '/declared',
        method: 'get',
        mcp: { name: 'declared' },
        response: { type: 'object', properties: { title: { type: 'string', nullable: true } } }
      }]
    }, {
      prepare (app) {
        app.register(async (group) => {
          group.addSchema({ $id: 'memo', type: 'object', properties: { title: { type: 'string', nullable: true }, next: { $ref: '#' } } })
          const one = { body: { $ref: 'memo#' }, response: { 200: { $ref: 'memo#' } } }
          const list = { ...one, response: { 200: { type: 'array', items: { $ref: 'memo#' } } } }
          group.post('/one', { config: config('one'), schema: one }, async ({ body }) => body)
          group.post('/list', { config: config('list'), schema: list }, async ({ body }) => [body])
        })
      }
    })
    const client = await connect(token('acme'), era)
    const { tools } = await client.listTools()
    t.match(tools.find(({ name }) => name === 'declared'), { outputSchema: { properties: { title: { type: ['string', 'null'] } } } })
    t.match(await client.callTool({ name: 'declared', arguments: {} }), { structuredContent: {} })
    const body = { title: null, next: { title: 'b' } }
    t.match(await client.callTool({ name: 'one', arguments: { body } }), { structuredContent: body })
    t.match(await client.callTool({ name: 'list', arguments: { body } }), {
      structuredContent: era === 'modern' ? [body] : { result: [body] }
    })
  })
}

for (const era of ['modern', 'legacy'] as const) {
  test(`a ${era} client calls tools with recursive types of TypeBox`, async (t) => {
    const node = Type.Cyclic({ Node: Type.Object({ id: Type.String(), nodes: Type.Array(Type.Ref('Node')) }) }, 'Node')
    const tool = { name: 'tree', description: 'Returns its body.', readOnly: true, destructive: false }
    const { connect } = await serve(t, {}, {
      prepare (app) {
        app.register(async (group) => {
          const schema = { body: node, response: { 200: node } }
          group.post('/tree', { config: { access: 'open', tool }, schema }, async ({ body }) => body)
        })
      }
    })
    const client = await connect(token('acme'), era)
    t.ok((await client.listTools()).tools.some(({ name }) => name === 'tree'))
    const body = { id: 'a', nodes: [{ id: 'b', nodes: [] }] }
    t.match(await client.callTool({ name: 'tree', arguments: { body } }), { structuredContent: body })
  })
}

test('a list with null items in an array column is read by clients that validate results', async (t) => {
  const { app, connect } = await serve(t, {
    tables: { posts: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, tags: { type: 'text[]' } } } },
    routes: [
      { path: '/posts', method: 'get', mcp: { name: 'posts' }, queries: [{ table: 'posts', operation: 'select' }] },
      { path: '/posts', method: 'post', mcp: { name: 'add' }, queries: [{ table: 'posts', operation: 'insert' }] }
    ]
  })
  const client = await connect(token('acme'))
  await client.listTools()
  t.match(await client.callTool({ name: 'add', arguments: { body: { id: 1, tags: ['x', null] } } }), { structuredContent: { id: 1 } })
  t.match(await client.callTool({ name: 'posts', arguments: {} }), { structuredContent: { data: [{ tags: ['x', null] }] } })
  const nested = await app.inject({ method: 'POST', url: '/posts', headers: token('acme'), payload: { id: 2, tags: [['x']] } })
  t.equal(nested.statusCode, 400)
})

test("a route's errors are results that say what to do", async (t) => {
  const { connect } = await serve(t)
  const client = await connect(token('acme'))
  const wrong = await client.callTool({ name: 'add_note', arguments: { body: { title: 7 } } })
  t.equal(wrong.isError, true)
  t.match(textOf(wrong), /\/body\/title must be a string.*TENANTRY_VALIDATION_FAILED/)
  const missing = await client.callTool({ name: 'get_notes_by_id', arguments: { id: '00000000-0000-4000-8000-000000000000' } })
  t.equal(missing.isError, true)
  t.match(textOf(missing), /TENANTRY_NOT_FOUND/)
  await t.rejects(
    client.callTool({ name: 'remove_note', arguments: { id: 'x' } }),
    /no tool with this name/,
    'a tool that the caller may not call'
  )
  await t.rejects(client.callTool({ name: 'hidden', arguments: {} }), /no tool with this name/, 'a route that is not a tool')
})

test("another tenant's tools, resources and rows are invisible", async (t) => {
  const { app, connect } = await serve(t)
  const saved = await app.inject({
    method: 'POST',
    url: '/tenant/config',
    headers: token('acme', { role: 'admin' }),
    payload: {
      routes: [{ path: '/mine/:name', method: 'get', mcp: { name: 'mine', resource: true }, response: { hello: '{{params.name}}' } }]
    }
  })
  t.equal(saved.statusCode, 200, saved.body)
  const acme = await connect(token('acme'))
  const globex = await connect(token('globex'))
  t.match(await acme.callTool({ name: 'mine', arguments: { name: 'bob' } }), { structuredContent: { hello: 'bob' } })
  t.match(await acme.readResource({ uri: 'tenantry:///mine/bob' }), { contents: [{ text: '{"hello":"bob"}' }] })
  t.notOk((await globex.listTools()).tools.some(({ name }) => name === 'mine'))
  t.notOk((await globex.listResourceTemplates()).resourceTemplates.some(({ name }) => name === 'mine'))
  await t.rejects(globex.callTool({ name: 'mine', arguments: { name: 'bob' } }), /no tool with this name/)
  await t.rejects(globex.readResource({ uri: 'tenantry:///mine/bob' }), /not found/i)

  const { structuredContent } = await acme.callTool({ name: 'add_note', arguments: { body: { title: 'of acme' } } })
  const { id } = Object(structuredContent)
  t.match(await acme.readResource({ uri: `tenantry:///notes/${id}` }), { contents: [{ mimeType: 'application/json', text: /of acme/ }] })
  await t.rejects(globex.readResource({ uri: `tenantry:///notes/${id}` }), /not found/i)
  t.match(await globex.callTool({ name: 'get_notes', arguments: {} }), { structuredContent: { data: { length: 0 } } })
})

test('routes marked as resources are resources', async (t) => {
  const { connect } = await serve(t)
  const client = await connect(token('acme'))
  t.match((await client.listResources()).resources, [{ uri: 'tenantry:///notes', name: 'get_notes', mimeType: 'application/json' }])
  t.match((await client.listResourceTemplates()).resourceTemplates, [{ uriTemplate: 'tenantry:///notes/{id}', name: 'get_notes_by_id' }])
  t.match(await client.readResource({ uri: 'tenantry:///notes' }), { contents: [{ text: /"data":\[\]/ }] })
  for (
    const uri of [
      'tenantry:///words',
      'tenantry:///notes/',
      'tenantry:///notes/%',
      'tenantry:///notes/x/y',
      'file:///etc/passwd',
      `tenantry:///notes/${'x'.repeat(9000)}`
    ]
  ) {
    await t.rejects(client.readResource({ uri }), /not found/i, uri.slice(0, 40))
  }
})

test('declared prompts are offered, and their arguments are plain text', async (t) => {
  const { connect } = await serve(t, { mcp: { url: '', instructions: 'Notes of a team.', prompts } })
  const client = await connect(token('acme'))
  t.equal(client.getInstructions(), 'Notes of a team.')
  t.match((await client.listPrompts()).prompts, [{ name: 'plain' }, {
    name: 'summary',
    title: 'Summary',
    arguments: [{ name: 'style', required: true }, { name: 'length' }]
  }])
  const { messages } = await client.getPrompt({ name: 'summary', arguments: { style: '$& {{length}}' } })
  t.match(messages, [{ role: 'user', content: { type: 'text', text: 'Sum up the notes, $& {{length}}.' } }])
  await t.rejects(client.getPrompt({ name: 'summary', arguments: {} }), /"style" is missing/)
  await t.rejects(client.getPrompt({ name: 'summary', arguments: { style: 'x'.repeat(200_001) } }), /more than 200000 characters/)
  await t.rejects(client.getPrompt({ name: 'other' }), /no prompt with this name/)
})

test('a list of hundreds of tools is paginated in a stable order', async (t) => {
  const routes = Array.from(
    { length: 250 },
    (_, index) => ({ path: `/r${index}`, method: 'get' as const, mcp: true as const, response: { ok: true } })
  )
  const { connect, post } = await serve(t, { routes })
  const client = await connect(token('acme'))
  const names = (await client.listTools()).tools.map(({ name }) => name)
  t.strictSame(names, routes.map(({ path }) => `get_${path.slice(1)}`).sort())
  const page = async (params: object) => {
    const text = await (await post({ jsonrpc: '2.0', id: 1, method: 'tools/list', params }, token('acme'))).text()
    return JSON.parse(text.slice(text.indexOf('{')))
  }
  const { result: { tools, nextCursor } } = await page({})
  t.equal(tools.length, 50)
  t.equal((await page({ cursor: nextCursor })).result.tools[0].name, names[50])
  t.match(await page({ cursor: '../' }), { error: { code: -32602 } })
})

test("a message is one API call, and a route's limit counts MCP and HTTP together", async (t) => {
  const { app, connect } = await serve(t, {
    routes: [{ path: '/twice', method: 'get', requireAuth: true, mcp: { name: 'twice' }, rateLimit: { max: 2 }, response: { ok: true } }]
  })
  const client = await connect(token('acme'))
  const before = (await app.usage.summary('acme')).api_calls
  t.match(await client.callTool({ name: 'twice', arguments: {} }), { structuredContent: { ok: true } })
  t.equal((await app.usage.summary('acme')).api_calls - before, 1)
  const response = await app.inject({ url: '/twice', headers: token('acme') })
  t.equal(response.statusCode, 200)
  const refused = await client.callTool({ name: 'twice', arguments: {} })
  t.equal(refused.isError, true)
  t.match(textOf(refused), /TENANTRY_RATE_LIMITED/)
})

test('a body that is not a single message is rejected', async (t) => {
  const { post, url } = await serve(t)
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  t.equal((await post([call, call], token('acme'))).status, 400, 'a batch')
  t.equal((await post('text', token('acme'))).status, 400)
  for (const [fault, path] of [[{ jsonrpc: '1.0' }, '/body/jsonrpc'], [{ method: 7 }, '/body/method']] as const) {
    const response = await post({ ...call, ...fault }, token('acme'))
    t.equal(response.status, 400)
    t.match(await response.json(), { code: 'TENANTRY_VALIDATION_FAILED', details: [{ path }] })
  }
  t.equal((await post({ ...call, method: 'x'.repeat(2_000_000) }, token('acme'))).status, 413)
  t.equal((await post({ ...call, method: 'subscriptions/listen' }, token('acme'))).status, 404, 'a stream that never ends')
  t.equal((await fetch(`${url}/mcp`, { headers: token('acme') })).status, 405)
  const deep = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}}`
  const nested = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...token('acme') },
    body: deep
  })
  t.ok(nested.status === 400 || nested.status === 200, `${nested.status}`)
  t.notOk((await nested.text()).includes('at '), 'no stack')
})

test('refusals of the protocol have the form that /doc describes', async (t) => {
  const { app, post } = await serve(t)
  const doc = (await app.inject('/doc')).json()
  const { responses } = doc.paths['/mcp'].post
  const message = { jsonrpc: '2.0', id: 1, method: 'ping' }
  const refusals: Record<number, Response[]> = {
    400: [
      await post([message], token('acme')),
      await post({ ...message, id: {} }, token('acme')),
      await post(message, { ...token('acme'), 'mcp-protocol-version': '1900-01-01' })
    ],
    404: [await post({ ...message, method: 'subscriptions/listen' }, token('acme'))],
    406: [await post(message, { ...token('acme'), accept: 'text/html' })]
  }
  for (const [status, cases] of Object.entries(refusals)) {
    const schema = schemaWithoutReferences(doc, responses[status].content['application/json'].schema)
    const validate = new Ajv2020({ strict: false }).compile(Object(schema))
    for (const response of cases) {
      t.equal(String(response.status), status)
      t.ok(validate(await response.json()), JSON.stringify(validate.errors))
    }
  }
})

test('nested calls are limited', async (t) => {
  const { post } = await serve(t)
  const at = async (depth: unknown) => {
    const params = { name: 'words', arguments: { q: 'x' }, _meta: { 'tenantry/toolDepth': depth } }
    return await (await post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }, token('acme'))).text()
  }
  t.match(await at(2), /structuredContent/)
  t.match(await at(3), /TENANTRY_TOOLS_NESTED/)
  t.match(await at(1e300), /structuredContent/, 'no depth')
  t.match(await at(-1), /structuredContent/)
})
