/** Every provider supports chat and streams, and the ledger has its reported usage. */
import t from 'tap'
import { agentOf, ask, eventsOf, ledger, mockProvider, open, providers, tokenOf } from './app.js'

for (const provider of providers) {
  t.test(`${provider}: chat and stream return the provider's own usage`, async (t) => {
    const mock = await mockProvider(t, { chunkSize: 5 })
    mock.onMessage('hello', {
      content: 'Hi there, my friend!',
      usage: {
        prompt_tokens: 11,
        completion_tokens: 7,
        total_tokens: 18,
        input_tokens: 11,
        output_tokens: 7,
        promptTokenCount: 11,
        candidatesTokenCount: 7
      }
    })
    const { app, post } = await open(t, agentOf(provider, `${mock.url}/${provider === 'google' ? 'v1beta' : 'v1'}`))
    const usage = { inputTokens: 11, outputTokens: 7, totalTokens: 18, cost: 0.000025 }
    const body = { messages: [{ role: 'system', content: 'Be kind.' }, { role: 'user', content: 'hello' }] }

    const chat = await post('/llm/chat', body)
    t.equal(chat.status, 200, chat.text)
    t.match(chat.body, {
      id: String,
      model: 'test-model',
      message: { role: 'assistant', content: 'Hi there, my friend!' },
      finishReason: 'stop',
      usage
    })

    const stream = await post('/llm/stream', body)
    t.equal(stream.status, 200)
    t.equal(stream.headers.get('content-type'), 'text/event-stream; charset=utf-8')
    t.equal(stream.headers.get('cache-control'), 'no-store')
    t.equal(stream.headers.get('x-accel-buffering'), 'no')
    const events = eventsOf(stream.text)
    const texts = events.filter(({ type }) => type === 'content').map(({ text }) => text)
    t.ok(texts.length > 1)
    t.equal(texts.join(''), 'Hi there, my friend!')
    t.match(events.slice(-2), [{ type: 'usage', ...usage }, { type: 'done', finishReason: 'stop' }])
    t.equal(events.filter(({ type }) => type === 'done' || type === 'error').length, 1)

    t.strictSame(await ledger(app, 'acme'), { tokens: 36, cost: 50, open: 0 })
    t.strictSame(await ledger(app, 'globex'), { tokens: 0, cost: 0, open: 0 }, 'another tenant pays nothing')
  })
}

t.test('`stream: false` responds like chat', async (t) => {
  const mock = await mockProvider(t)
  mock.onMessage('hello', { content: 'Hi!' })
  const { post } = await open(t, agentOf('local', `${mock.url}/v1`))
  const response = await post('/llm/stream', ask('hello', { stream: false }))
  t.match(response.body, { message: { content: 'Hi!' }, usage: { totalTokens: Number } })
})

t.test("GET /llm/models lists the document's models, with prices and context sizes", async (t) => {
  const { app } = await open(
    t,
    agentOf('local', 'http://127.0.0.1:1/v1', {
      models: [
        { id: 'vectors', provider: 'local', kind: 'embedding' },
        { id: 'large', provider: 'local', kind: 'chat', contextTokens: 8000, price: { input: 1, output: 2 } }
      ],
      embedding: { provider: 'local', model: 'vectors', baseUrl: 'http://127.0.0.1:1/v1' }
    })
  )
  const response = await app.inject({ url: '/llm/models', headers: tokenOf('acme') })
  t.strictSame(response.json(), {
    data: [
      { id: 'large', provider: 'local', kind: 'chat', contextTokens: 8000, price: { input: 1, output: 2 } },
      { id: 'test-model', provider: 'local', kind: 'chat', contextTokens: null, price: null },
      { id: 'vectors', provider: 'local', kind: 'embedding', contextTokens: null, price: null }
    ],
    pagination: { limit: 20, offset: 0, total: 3 }
  })
  t.equal((await app.inject({ url: '/llm/models', headers: tokenOf(null) })).statusCode, 400, 'a token without a tenant')
  t.equal((await app.inject({ url: '/llm/models' })).statusCode, 401)
})
