/** Failing tools and providers, disconnecting callers, and growing conversations. */
import { randomUUID } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import type { LLMock } from '@copilotkit/aimock'
import { sql } from 'kysely'
import t from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { faulty } from '../mcp-client/app.js'
import { begin, chunk, mockProvider, tokenOf, wireProvider } from '../models/app.js'
import { open, sentTo } from './app.js'

const tool = (name: string, input: unknown = {}) => ({
  toolCalls: [{ name, arguments: typeof input === 'string' ? input : JSON.stringify(input) }]
})

/** The model calls the tool once, and then responds. */
function calls (mock: LLMock, name: string, input?: unknown): void {
  mock.on({ userMessage: 'go', hasToolResult: false }, tool(name, input))
  mock.on({ userMessage: 'go', hasToolResult: true }, { content: 'Done.' })
}

/** The tool's result in the model's request. */
function resultOf (mock: LLMock): string {
  return String(sentTo(mock).at(-1)?.find(({ role }) => role === 'tool')?.content)
}

t.test('a failing tool is a failed call with the reason', async (t) => {
  const cases: Array<[name: string, input: unknown, message: RegExp]> = [
    ['add_note', { body: { title: 7 } }, /\/body\/title must be a string/],
    ['add_note', {}, /\/body is required/],
    ['list_notes', { tenant: 'globex' }, /is not an input of this tool/],
    ['add_note', '{"body":', /not valid JSON/],
    ['add_note', '{"body":{"title":"a note","__proto__":{"role":"admin"}}}', /__proto__/]
  ]
  for (const [name, input, message] of cases) {
    const mock = await mockProvider(t)
    calls(mock, name, input)
    const { as } = await open(t, mock.url)
    t.match(
      (await as('acme').chat('go', { tools: true })).body,
      { message: { content: 'Done.' }, toolCalls: [{ name, ok: false }] },
      JSON.stringify(input)
    )
    t.match(resultOf(mock), message)
  }
})

t.test('a tool that the model invents does not run', async (t) => {
  for (const name of ['make_admin', 'remove_note']) {
    const mock = await mockProvider(t)
    calls(mock, name, { id: 'a' })
    const { as } = await open(t, mock.url)
    t.match((await as('acme').chat('go', { tools: true })).body, { toolCalls: [{ name, ok: false }] }, name)
    t.match(resultOf(mock), /no such tool/i)
  }
})

t.test('a result of many megabytes is rejected before it is read', async (t) => {
  const mock = await mockProvider(t)
  calls(mock, 'list_notes')
  const { app, as } = await open(t, mock.url)
  await sql`insert into notes (tenant_id, title) select 'acme', repeat('x', 1000000) from generate_series(1, 3)`.execute(app.db)
  t.match((await as('acme').chat('go', { tools: true })).body, {
    message: { content: 'Done.' },
    toolCalls: [{ name: 'list_notes', ok: false }]
  })
  t.match(resultOf(mock), /more than 65536 bytes: request fewer records/)
})

t.test('a result without room in the context of the model is a failed call', async (t) => {
  const mock = await mockProvider(t)
  calls(mock, 'list_notes')
  const { app, as } = await open(t, mock.url, {
    agent: { models: [{ id: 'test-model', provider: 'local', kind: 'chat', contextTokens: 4000 }] }
  })
  await sql`insert into notes (tenant_id, title) select 'acme', repeat('x ', 1000) from generate_series(1, 10)`.execute(app.db)
  const { status, body } = await as('acme').chat('go', { tools: true })
  t.match({ status, body }, { status: 200, body: { message: { content: 'Done.' }, toolCalls: [{ name: 'list_notes', ok: false }] } })
  t.match(resultOf(mock), /too large for the context of the model: request less/)
  t.equal((await as('acme').ask(`GET /agent/conversations/${String(body['conversationId'])}`)).status, 200, 'the chat is stored')
})

t.test('a model that keeps calling tools is stopped after its last round', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('go', tool('list_notes'))
  const { as } = await open(t, mock.url, { agent: { chat: { maxRounds: 3 } } })
  const { status, body } = await as('acme').chat('go', { tools: true })
  t.match({ status, body }, { status: 200, body: { toolCalls: [{ ok: true }, { ok: true }] } })
  t.equal(mock.getRequests().length, 3)
})

t.test('at most 32 tools run for one response', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('go', { toolCalls: Array.from({ length: 16 }, () => ({ name: 'list_notes', arguments: '{}' })) })
  const { as } = await open(t, mock.url, { agent: { chat: { maxRounds: 4 } } })
  const { body } = await as('acme').chat('go', { tools: true })
  const outcomes = Object(body['toolCalls']).map(({ ok }: { ok: boolean }) => ok)
  t.equal(outcomes.filter((ok: boolean) => ok).length, 32)
  t.equal(outcomes.length, 48)
})

t.test('a truncated response is an error, and leaves no conversation', async (t) => {
  const provider = await wireProvider(t, async (response) => {
    begin(response)
    response.write(chunk('Hel'))
    await setTimeout(20)
    response.destroy()
  })
  const { as } = await open(t, provider.url.replace('/v1', ''))
  t.match(await as('acme').chat('go'), { status: 502, body: { code: 'TENANTRY_PROVIDER_FAILED' } })
  const { events } = await as('acme').chat('go', { stream: true })
  t.match(events, [{ type: 'start' }, { type: 'content', text: 'Hel' }, { type: 'error', code: 'TENANTRY_PROVIDER_FAILED' }])
  t.match((await as('acme').ask('GET /agent/conversations')).body, { pagination: { total: 0 } })
})

t.test('a failure before the response has its own status', async (t) => {
  const provider = await wireProvider(t, (response) => {
    response.writeHead(500).end('the key is sk-secret')
  })
  const { as } = await open(t, provider.url.replace('/v1', ''))
  const { status, text } = await as('acme').chat('go', { stream: true })
  t.equal(status, 502)
  t.notMatch(text, /sk-secret/)
})

t.test("a disconnecting caller aborts the provider's request and the running tool", async (t) => {
  const provider = await wireProvider(t, (response) => {
    begin(response)
    response.write(chunk('Hel'))
  })
  const { app, origin, as } = await open(t, provider.url.replace('/v1', ''))
  const controller = new AbortController()
  const response = await fetch(`${origin}/agent/chat`, {
    method: 'POST',
    headers: { ...tokenOf('acme'), 'content-type': 'application/json' },
    body: '{"message":"go","stream":true}',
    signal: controller.signal
  })
  const reader = response.body!.getReader()
  await reader.read()
  controller.abort()
  await provider.requests[0]?.closed
  t.pass('the connection to the provider is closed')
  t.match((await as('acme').ask('GET /agent/conversations')).body, { pagination: { total: 0 } })
  t.ok(app.server.listening)
})

t.test('a chat whose user is deleted meanwhile is not stored', async (t) => {
  const mock = await mockProvider(t)
  calls(mock, 'leave')
  mock.onMessage('hello', { content: 'Hi.' })
  let remove = async () => {}
  const { app, as } = await open(t, mock.url, {
    server: {
      prepare (app) {
        app.register(async (group) => {
          group.get('/leave', {
            config: { access: 'user', tool: { name: 'leave', description: 'Leaves.', readOnly: true, destructive: false } }
          }, async () => {
            await remove()
            return {}
          })
        })
      }
    }
  })
  const { id } = await app.users.create(
    { tenant: 'acme', email: 'eve@example.com', password: 'a long password of eve', role: 'user' },
    noActor
  )
  const conversations = async () => (await app.db.selectFrom('tenantry.conversations').select('user_id').execute()).length
  const eve = as('acme', { sub: id, role: 'user', session_seq: 0, session_id: randomUUID() })
  t.equal((await eve.chat('hello')).status, 200)
  t.equal(await conversations(), 1)
  remove = async () => {
    t.equal((await as('acme', { sub: 'boss', role: 'admin' }).ask(`DELETE /users/${id}`)).status, 200)
  }
  t.match(await eve.chat('go', { tools: true }), { status: 200, body: { message: { content: 'Done.' } } })
  t.equal(await conversations(), 0)
})

t.test('a response that takes too long is aborted, with the running tool', async (t) => {
  const mock = await mockProvider(t)
  calls(mock, 'wait')
  const left = new EventEmitter()
  const gone = once(left, 'gone')
  const { as } = await open(t, mock.url, {
    // Enough time for the tool to start on a busy machine.
    agent: { chat: { timeoutMs: 5000 } },
    server: {
      prepare (app) {
        app.register(async (group) => {
          group.get('/wait', {
            config: { access: 'user', tool: { name: 'wait', description: 'Waits.', readOnly: true, destructive: false } }
          }, async (request) => {
            await once(request.raw, 'close')
            left.emit('gone')
          })
        })
      }
    }
  })
  t.match(await as('acme').chat('go', { tools: true }), {
    status: 504,
    body: { code: 'TENANTRY_PROVIDER_TIMEOUT', message: 'The response took more than 5000 ms' }
  })
  await gone
})

t.test('a response that takes too long is aborted while an MCP server starts', { timeout: 120_000 }, async (t) => {
  const mock = await mockProvider(t)
  const silent = { ...faulty, env: { NEVER_STARTS: '1' }, timeoutMs: 600_000 }
  const { as } = await open(t, mock.url, { agent: { chat: { timeoutMs: 1000 }, mcpServers: [silent] } })
  t.match(await as('acme').chat('go', { tools: true }), {
    status: 504,
    body: { code: 'TENANTRY_PROVIDER_TIMEOUT', message: 'The response took more than 1000 ms' }
  })
  t.equal(mock.getRequests().length, 0)
})

t.test('a conversation keeps its latest messages, and a prompt contains those that fit', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('go', { content: 'Gone.' })
  const { app, as } = await open(t, mock.url, {
    agent: { models: [{ id: 'test-model', provider: 'local', kind: 'chat', contextTokens: 2000 }] }
  })
  const { conversationId } = (await as('acme').chat('go')).body
  const id = String(conversationId)
  await sql`insert into tenantry.conversation_messages (tenant_id, conversation_id, position, role, content, bytes, created_at)
    select 'acme', ${id}::uuid, n, case when n % 2 = 1 then 'user' else 'assistant' end, 'message ' || n || repeat(' word', 20), 120, now() from generate_series(3, 10000) n`
    .execute(app.db)
  await sql`update tenantry.conversations set last_position = 10000, messages = 10000, bytes = 1200000 where id = ${id}::uuid`.execute(
    app.db
  )
  t.equal((await as('acme').chat('go', { conversationId })).status, 200)
  const sent = sentTo(mock).at(-1) ?? []
  t.ok(sent.length > 5 && sent.length < 100, String(sent.length))
  t.match(sent.at(-2), { role: 'assistant', content: /^message 10000/ })
  const { body } = await as('acme').ask(`GET /agent/conversations/${id}`)
  t.equal(Object(body['messages']).length, 500)
  t.match(Object(body['messages']).at(-1), { role: 'assistant', content: 'Gone.' })
  const { rows } = await sql<
    { kept: number, counted: number }
  >`select count(*)::integer as kept, (select messages from tenantry.conversations where id = ${id}::uuid) as counted from tenantry.conversation_messages where conversation_id = ${id}::uuid`
    .execute(app.db)
  t.strictSame(rows, [{ kept: 500, counted: 500 }])
})

t.test('a user keeps the most recently used conversations', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('go', { content: 'Gone.' })
  const { app, as } = await open(t, mock.url)
  await sql`insert into tenantry.conversations (tenant_id, id, user_id, platform, title, last_position, messages, bytes, created_at, updated_at)
    select 'acme', gen_random_uuid(), 'ada', false, 'old ' || n, 0, 0, 0, now(), now() - n * interval '1 minute' from generate_series(1, 500) n`
    .execute(app.db)
  await as('acme').chat('go')
  const { body } = await as('acme').ask('GET /agent/conversations?limit=100&offset=400')
  t.match(body, { data: { length: 100 }, pagination: { total: 500 } })
  t.notOk(JSON.stringify(body).includes('old 500'))
  await sql`update tenantry.conversations set updated_at = now() + interval '1 day'`.execute(app.db)
  const { conversationId } = (await as('acme').chat('go')).body
  const { status } = await as('acme').ask(`GET /agent/conversations/${String(conversationId)}`)
  t.equal(status, 200, 'a new conversation stays after the clock was set back')
})
