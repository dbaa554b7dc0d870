/** Tools of MCP servers and of routes, called by models; and servers that call themselves. */
import { test } from 'tap'
import { turns } from '../../../lib/concurrency/event-loop-yielder.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { freePort } from '../../helpers/free-port.js'
import { holdInPause } from '../../helpers/pauses.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { open as openAgent, sentTo } from '../agent/app.js'
import { mockProvider } from '../models/app.js'
import { faulty, open } from './app.js'

test('a chat uses tools of routes and of servers', async (t) => {
  const mock = await mockProvider(t)
  mock.on({ userMessage: 'count', hasToolResult: false }, {
    toolCalls: [
      { name: 'faulty_add', arguments: '{"n":41}' },
      { name: 'add_note', arguments: JSON.stringify({ body: { title: 'counted' } }) },
      { name: 'faulty_error', arguments: '{}' },
      { name: 'faulty_add', arguments: '{"n":0}' }
    ]
  })
  mock.on({ userMessage: 'count', hasToolResult: true }, { content: 'Counted.' })
  const { app, as } = await openAgent(t, mock.url, { agent: { mcpServers: [faulty, { name: 'missing', command: '/no/such/program' }] } })
  const { body } = await as('acme').chat('count', { tools: true })
  t.match(body, {
    message: { content: 'Counted.' },
    toolCalls: [{ name: 'faulty_add', ok: true }, { name: 'add_note', ok: true }, { name: 'faulty_error', ok: false }, {
      name: 'faulty_add',
      ok: false
    }]
  })
  const offered = Object(mock.getRequests()[0]?.body).tools.map((tool: { function: { name: string } }) => tool.function.name)
  t.ok(['faulty_add', 'faulty_env', 'add_note', 'list_notes'].every((name) => offered.includes(name)), offered.join())
  const results = sentTo(mock).at(-1)?.filter(({ role }) => role === 'tool').map(({ content }) => JSON.stringify(content)) ?? []
  t.match(results, [/41/, /counted/, /no such file/, /Validation failed/])
  const entries = await app.db.selectFrom('tenantry.audit_log').select(['tenant_id', 'target', 'outcome'])
    .where('action', '=', 'mcp.execute').orderBy('id').execute()
  t.strictSame(entries.map(({ target, outcome }) => `${target} ${outcome}`), ['faulty.add success', 'faulty.error failure'])
})

test('a request can name tools of servers', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('hello', { content: 'Hi.' })
  const { as } = await openAgent(t, mock.url, { agent: { mcpServers: [{ ...faulty, allowTools: ['add'] }] } })
  const ask = (tools: string[]) => as('acme').ask('POST /llm/chat', { messages: [{ role: 'user', content: 'hello' }], tools })
  t.match(await ask(['faulty.add', 'list_notes']), { status: 200 })
  t.strictSame(Object(mock.getRequests().at(-1)?.body).tools.map((tool: { function: { name: string } }) => tool.function.name), [
    'faulty_add',
    'list_notes'
  ])
  t.match(await ask(['faulty.env']), { status: 400 }, 'a tool that the document does not allow')
  t.match(await ask(['other.add']), { status: 400 })
})

test('workflow steps use tools of servers', async (t) => {
  const mock = await mockProvider(t)
  mock.on({ userMessage: 'count', hasToolResult: false }, { toolCalls: [{ name: 'faulty_add', arguments: '{"n":41}' }] })
  mock.on({ userMessage: 'count', hasToolResult: true }, { content: 'Counted.' })
  const route = (path: string, tools: unknown) => ({
    path,
    method: 'post' as const,
    requireAuth: true,
    workflow: { steps: [{ id: 'ask', type: 'llm' as const, prompt: 'count', params: { tools } }] },
    response: { answer: '{{steps.ask}}' }
  })
  const { app, as } = await openAgent(t, mock.url, {
    agent: { mcpServers: [{ ...faulty, allowTools: ['add'] }] },
    document: { routes: [route('/count', ['faulty.add']), route('/other', ['faulty.env']), route('/wrong', 7)] }
  })
  t.match(await as('acme').ask('POST /count', {}), { status: 200, text: /Counted/ })
  t.match(JSON.stringify(sentTo(mock).at(-1)?.filter(({ role }) => role === 'tool')), /41/)
  const entries = await app.db.selectFrom('tenantry.audit_log').select(['tenant_id', 'user_id', 'target'])
    .where('action', '=', 'mcp.execute').execute()
  t.strictSame(entries, [{ tenant_id: 'acme', user_id: 'ada', target: 'faulty.add' }])
  t.match(await as('acme').ask('POST /other', {}), { status: 400, text: /cannot use the tool/ })
  t.match(await as('acme').ask('POST /wrong', {}), { status: 400, text: /params.tools/ })
})

test('a server that is its own MCP server stops after three nested calls', async (t) => {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const token = signToken({ sub: 'loop', role: 'user', tenant_id: 'acme' })
  let calls = 0
  const { app, as } = await open(t, [{ name: 'self', url: `${url}/mcp`, headers: { authorization: `Bearer ${token}` } }], {}, {
    mcp: { url },
    routes: []
  }, {
    prepare (app) {
      app.register(async (group) => {
        group.post('/loop', {
          config: { access: 'user', tool: { name: 'loop', description: 'Calls itself.', readOnly: false, destructive: false } },
          schema: {}
        }, async (request) => {
          calls++
          const { content } = await group.mcpServers.execute({
            tenant: tenantRef('acme'),
            actor: { userId: null, address: null },
            server: 'self',
            tool: 'loop',
            args: {},
            depth: request.toolDepth,
            signal: new AbortController().signal
          })
          return { content }
        })
      })
    }
  })
  await app.listen({ port, host: '127.0.0.1' })
  const { status, text } = await as('acme').execute('self.loop')
  t.equal(status, 200)
  t.match(text, /TENANTRY_TOOLS_NESTED/)
  t.ok(calls >= 1 && calls <= 3, `${calls} calls`)
})

test('the arguments of a tool are checked in a turn of the tenant', async (t) => {
  const { as } = await open(t, [faulty])
  t.match(await as('acme').execute('faulty.add', { n: 1 }), { status: 200 })
  const pause = holdInPause(t, 'acme')
  const asked = as('acme').execute('faulty.add', { n: 'x' })
  await until('the call waits', () => turns.yielder('tenant acme').waiting === 1)
  t.match(await as('globex').execute('faulty.add', { n: 2 }), { status: 200 })
  pause.end()
  t.match(await asked, { status: 400, body: { details: [{ path: '/body/args/n' }] } })
})
