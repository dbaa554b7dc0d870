/** Responses, streams and conversations. */
import { sql } from 'kysely'
import t from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { mockProvider } from '../models/app.js'
import { open, sentTo } from './app.js'

t.test('a chat returns a response, and continues a conversation', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('second', { content: 'Two.' })
  mock.onMessage('first', { content: 'One.' })
  const { as } = await open(t, mock.url, { agent: { chat: { system: 'Be brief.' } } })
  const ada = as('acme')
  const first = await ada.chat('the first  question')
  t.match(first, {
    status: 200,
    body: {
      conversationId: /^[\da-f-]{36}$/,
      message: { role: 'assistant', content: 'One.' },
      citations: { length: 0 },
      toolCalls: { length: 0 },
      usage: { totalTokens: Number }
    }
  })
  const { conversationId } = first.body
  const second = await ada.chat('the second question', { conversationId })
  t.match(second.body, { conversationId, message: { content: 'Two.' } })
  t.strictSame(sentTo(mock)[1], [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'the first  question' },
    { role: 'assistant', content: 'One.' },
    { role: 'user', content: 'the second question' }
  ])
  t.match((await ada.ask('GET /agent/conversations')).body, {
    data: [{ id: conversationId, title: 'the first question', messages: 4 }],
    pagination: { total: 1 }
  })
  t.match((await ada.ask(`GET /agent/conversations/${String(conversationId)}`)).body, {
    id: conversationId,
    messages: [{ role: 'user', content: 'the first  question' }, { role: 'assistant', content: 'One.' }, { role: 'user' }, {
      role: 'assistant',
      content: 'Two.'
    }]
  })
})

t.test('a conversation continues after a response without text', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('go', { toolCalls: [{ name: 'list_notes', arguments: '{}' }] })
  mock.onMessage('hello', { content: 'Hi.' })
  const { as } = await open(t, mock.url, { agent: { chat: { maxRounds: 2 } } })
  const first = await as('acme').chat('go', { tools: true })
  t.match(first, { status: 200, body: { message: { content: '' }, toolCalls: [{ name: 'list_notes', ok: true }] } })
  const { conversationId } = first.body
  t.match(await as('acme').chat('hello', { conversationId }), { status: 200, body: { message: { content: 'Hi.' } } })
  t.strictSame(sentTo(mock).at(-1), [{ role: 'user', content: 'go' }, { role: 'user', content: 'hello' }])
})

t.test('a stream begins with the conversation and ends once', async (t) => {
  const mock = await mockProvider(t, { chunkSize: 4 })
  mock.onMessage('hello', { content: 'Hello, my friend.' })
  const { as } = await open(t, mock.url)
  const { status, events } = await as('acme').chat('hello', { stream: true })
  t.equal(status, 200)
  t.match(events[0], { type: 'start', conversationId: String, citations: { length: 0 } })
  t.equal(events.filter(({ type }) => type === 'content').map(({ text }) => text).join(''), 'Hello, my friend.')
  t.match(events.slice(-2), [{ type: 'usage', totalTokens: Number, cost: Number }, { type: 'done', finishReason: 'stop' }])
  t.equal(events.filter(({ type }) => type === 'done' || type === 'error').length, 1)
  t.match(await as('acme').ask(`GET /agent/conversations/${String(events[0]?.['conversationId'])}`), {
    status: 200,
    body: { messages: [{}, { content: 'Hello, my friend.' }] }
  })
})

t.test('a conversation belongs to its user', (t) =>
  forEachEngine(t, async (t, engine) => {
    const mock = await mockProvider(t)
    mock.onMessage('hello', { content: 'Hi.' })
    const { app, as } = await open(t, mock.url, { server: { engine } })
    const { conversationId } = (await as('acme').chat('hello')).body
    const target = `/agent/conversations/${String(conversationId)}`
    const strangers = {
      'another user': as('acme', { sub: 'bob' }),
      'an administrator of the tenant': as('acme', { sub: 'boss', role: 'admin' }),
      'the same name in another tenant': as('globex'),
      'the same name at the platform': as(null, { role: 'admin' }, { 'x-tenant-id': 'acme' })
    }
    const requests = mock.getRequests().length
    for (const [who, caller] of Object.entries(strangers)) {
      t.equal((await caller.ask(`GET ${target}`)).status, 404, who)
      t.equal((await caller.ask(`DELETE ${target}`)).status, 404, who)
      t.match(await caller.chat('hello', { conversationId }), {
        status: 404,
        body: { code: 'TENANTRY_NOT_FOUND', message: 'Resource not found' }
      }, who)
      t.match((await caller.ask('GET /agent/conversations')).body, { data: { length: 0 }, pagination: { total: 0 } }, who)
    }
    t.equal(mock.getRequests().length, requests, 'the provider is not called')
    t.equal((await as('acme').ask(`DELETE ${target}`)).status, 200)
    t.equal((await as('acme').ask(`GET ${target}`)).status, 404)
    t.equal((await as('acme').ask(`DELETE ${target}`)).status, 404)
    const entries = await app.db.selectFrom('tenantry.audit_log').select(['user_id', 'target']).where('tenant_id', '=', 'acme')
      .where('action', '=', 'conversation.delete').execute()
    t.strictSame(entries, [{ user_id: 'ada', target: conversationId }])
  }))

t.test('conversations are deleted with their tenant and with their user', (t) =>
  forEachEngine(t, async (t, engine) => {
    const mock = await mockProvider(t)
    mock.onMessage('hello', { content: 'Hi.' })
    const { app, as } = await open(t, mock.url, { server: { engine } })
    await as('acme').chat('hello')
    await as('globex').chat('hello')
    const { id } = await app.users.create(
      { tenant: 'globex', email: 'eve@example.com', password: 'a long password of eve', role: 'user' },
      noActor
    )
    t.equal((await as('globex', { sub: id }).chat('hello')).status, 200)
    t.equal((await as('globex', { sub: 'boss', role: 'admin' }).ask(`DELETE /users/${id}`)).status, 200)
    await app.tenants.delete('acme')
    const rows = await app.db.selectFrom('tenantry.conversations').select(['tenant_id', 'user_id']).execute()
    t.strictSame(rows, [{ tenant_id: 'globex', user_id: 'ada' }])
    t.equal((await app.db.selectFrom('tenantry.conversation_messages').select('position').execute()).length, 2)
  }))

t.test("the model calls tools with the caller's permissions", async (t) => {
  const mock = await mockProvider(t)
  mock.on({ userMessage: 'save milk', hasToolResult: false }, {
    toolCalls: [{ name: 'add_note', arguments: JSON.stringify({ body: { title: 'milk' } }) }]
  })
  mock.on({ userMessage: 'save milk', hasToolResult: true }, { content: 'Saved.' })
  const { app, as } = await open(t, mock.url)
  const { body } = await as('acme').chat('save milk', { tools: true })
  t.match(body, { message: { content: 'Saved.' }, toolCalls: [{ name: 'add_note', ok: true }] })
  const { rows } = await sql<{ tenant_id: string, title: string }>`select tenant_id, title from notes`.execute(app.db)
  t.strictSame(rows, [{ tenant_id: 'acme', title: 'milk' }])
  const [first] = mock.getRequests()
  t.strictSame(Object(first?.body).tools.map((tool: { function: { name: string } }) => tool.function.name).sort(), [
    'add_note',
    'list_notes'
  ], 'a tool that the caller may not call is not offered')
  await as('acme').chat('hello')
  t.notOk(Object(mock.getRequests().at(-1)?.body).tools, 'no tools unless the caller requests them')
})

t.test('`chat.tools` lists the tools of chats, and an unknown tool fails the start', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('hello', { content: 'Hi.' })
  const { as } = await open(t, mock.url, { agent: { chat: { tools: ['list_notes', 'remove_note'] } } })
  await as('acme').chat('hello', { tools: true })
  t.strictSame(Object(mock.getRequests()[0]?.body).tools.map((tool: { function: { name: string } }) => tool.function.name), ['list_notes'])
  await t.rejects(open(t, mock.url, { agent: { chat: { tools: ['list_note'] } } }), /\/agent\/chat\/tools\/0.*is not a tool.*list_notes/s)
})

t.test('`POST /llm/chat` lists its tools', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('hello', { content: 'Hi.' })
  const { as } = await open(t, mock.url)
  const ask = async (tools: string[]) => await as('acme').ask('POST /llm/chat', { messages: [{ role: 'user', content: 'hello' }], tools })
  t.equal((await ask(['list_notes'])).status, 200)
  t.match(await ask(['list_notes', 'nothing']), { status: 400, body: { details: [{ path: '/body/tools/1' }] } })
  t.match(await ask(['remove_note']), { status: 400 }, 'a tool that the caller may not call')
})

t.test('an idempotency key makes a repeated request call the provider once and keep one conversation; a stream accepts no key', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('hello', { content: 'Hi.' })
  const { as } = await open(t, mock.url)
  const ada = as('acme', {}, { 'idempotency-key': 'a-key' })
  const first = await ada.chat('hello')
  t.equal(first.status, 200, first.text)
  t.strictSame((await ada.chat('hello')).body, first.body)
  t.equal(mock.getRequests().length, 1)
  t.match((await as('acme').ask('GET /agent/conversations')).body, {
    data: [{ id: first.body['conversationId'], messages: 2 }],
    pagination: { total: 1 }
  })
  t.match(await ada.chat('another message'), { status: 409, body: { code: 'TENANTRY_IDEMPOTENCY_MISMATCH' } })
  t.not(
    (await as('globex', {}, { 'idempotency-key': 'a-key' }).chat('hello')).body['conversationId'],
    first.body['conversationId'],
    "another tenant's key"
  )
  t.match(await as('acme', {}, { 'idempotency-key': 'b-key' }).chat('hello', { stream: true }), {
    status: 400,
    body: { message: /without `stream`/ }
  })
  t.equal(mock.getRequests().length, 2)
})

t.test('invalid requests are rejected', async (t) => {
  const mock = await mockProvider(t)
  const { as } = await open(t, mock.url)
  const { chat, ask } = as('acme')
  t.equal((await chat('')).status, 400)
  t.equal((await chat('x'.repeat(32_001))).status, 400)
  t.equal((await chat('a', { conversationId: 'none' })).status, 400)
  t.equal((await chat('a', { conversationId: '00000000-0000-4000-8000-000000000000' })).status, 404)
  t.equal((await chat('a', { system: 'x' })).status, 400)
  t.equal((await ask('GET /agent/conversations?owner=bob')).status, 400)
  t.equal((await as(null).chat('a')).status, 400, 'a token without a tenant')
  t.equal((await as('acme', { sub: 'x'.repeat(600) }).chat('a')).status, 400)
  t.equal(mock.getRequests().length, 0)
})

t.test('GET /agent/health reports which parts are up or off', async (t) => {
  const mock = await mockProvider(t)
  const { as } = await open(t, mock.url)
  t.strictSame((await as('acme').ask('GET /agent/health')).body, { status: 'ok', llm: 'up', embedding: 'off', vectorStore: 'off', mcp: {} })
})
