/** Failing providers of every kind, and requests that reach no model. No response contains the provider's text. */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import {
  agentOf,
  apiKey,
  ask,
  begin,
  chunk,
  eventsOf,
  finish,
  ledger,
  mockProvider,
  open,
  type Provider,
  providers,
  wireProvider
} from './app.js'

const secretOfProvider = `Incorrect API key provided: ${apiKey}. You asked: hello`

function failing (status: number, headers: Record<string, string> = {}) {
  return (response: ServerResponse) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify({ error: { message: secretOfProvider } }))
  }
}

async function openOn (t: Test, respond: Parameters<typeof wireProvider>[1], more: { provider?: Provider, timeoutMs?: number } = {}) {
  const wire = await wireProvider(t, respond)
  const provider = more.provider ?? 'local'
  const opened = await open(
    t,
    agentOf(provider, wire.url, {
      llm: { provider, model: 'test-model', apiKey, baseUrl: wire.url, maxOutputTokens: 100, timeoutMs: more.timeoutMs ?? 60_000 }
    })
  )
  return { ...opened, wire }
}

function tellsNothing (t: Test, text: string): void {
  t.notMatch(text, /Incorrect|key-of-the-platform|You asked/, 'no text of the provider')
}

const statuses = [
  [400, 502, 'TENANTRY_PROVIDER_FAILED'],
  [401, 502, 'TENANTRY_PROVIDER_FAILED'],
  [403, 502, 'TENANTRY_PROVIDER_FAILED'],
  [404, 502, 'TENANTRY_PROVIDER_FAILED'],
  [429, 503, 'TENANTRY_PROVIDER_BUSY'],
  [500, 502, 'TENANTRY_PROVIDER_FAILED'],
  [529, 503, 'TENANTRY_PROVIDER_BUSY'],
  [302, 502, 'TENANTRY_PROVIDER_FAILED']
] as const

t.test("a provider's status is mapped to the server's own, and costs nothing", async (t) => {
  let status = 200
  const { app, post } = await openOn(t, (response) => failing(status, { location: 'http://127.0.0.1:1/' })(response))
  for (const [theirs, ours, code] of statuses) {
    status = theirs
    for (const url of ['/llm/chat', '/llm/stream']) {
      const response = await post(url, ask('hello'))
      t.equal(response.status, ours, `${url} ${theirs}`)
      t.equal(response.body['code'], code)
      tellsNothing(t, response.text)
    }
  }
  t.strictSame(await ledger(app, 'acme'), { tokens: 0, cost: 0, open: 0 })
})

t.test('every provider: a rejected key and a failure are mapped', async (t) => {
  for (const provider of providers) {
    const mock = await mockProvider(t)
    const { post } = await open(t, agentOf(provider, `${mock.url}/${provider === 'google' ? 'v1beta' : 'v1'}`))
    for (const [status, ours] of [[401, 502], [429, 503], [500, 502]] as const) {
      mock.nextRequestError(status, { message: secretOfProvider })
      const response = await post('/llm/chat', ask('hello'))
      t.equal(response.status, ours, `${provider} ${status}`)
      tellsNothing(t, response.text)
    }
  }
})

t.test("the provider's Retry-After is passed on within bounds", async (t) => {
  let header = ''
  const { post } = await openOn(t, (response) => failing(429, header === '' ? {} : { 'retry-after': header })(response))
  for (
    const [given, expected] of [['7', '7'], ['0', '1'], ['86400', '3600'], ['soon', '5'], ['-5', '5'], ['1e9', '5'], [
      new Date(Date.now() - 60_000).toUTCString(),
      '1'
    ], ['', '5']] as const
  ) {
    header = given
    const response = await post('/llm/chat', ask('hello'))
    t.equal(response.headers.get('retry-after'), expected, `"${given}"`)
    t.equal(response.body['retryAfter'], Number(expected))
  }
})

t.test('a provider that hangs before its response is a 504, and costs nothing', async (t) => {
  const { app, post, wire } = await openOn(t, () => {}, { timeoutMs: 300 })
  for (const url of ['/llm/chat', '/llm/stream']) {
    const response = await post(url, ask('hello'))
    t.equal(response.status, 504, url)
    t.equal(response.body['code'], 'TENANTRY_PROVIDER_TIMEOUT')
  }
  await Promise.all(wire.requests.map(({ closed }) => closed))
  t.strictSame(await ledger(app, 'acme'), { tokens: 0, cost: 0, open: 0 })
})

t.test('a provider that stops during its response is a 504, and is charged', async (t) => {
  const { app, post, wire } = await openOn(t, (response) => {
    begin(response)
    response.write(chunk('one two'))
    // Enough time for the part to arrive on a busy machine.
  }, { timeoutMs: 2000 })
  const stream = await post('/llm/stream', ask('hello'))
  const events = eventsOf(stream.text)
  t.match(events, [{ type: 'content', text: 'one two' }, { type: 'error', code: 'TENANTRY_PROVIDER_TIMEOUT' }])
  t.equal(events.length, 2)
  const chat = await post('/llm/chat', ask('hello'))
  t.equal(chat.status, 504)
  await Promise.all(wire.requests.map(({ closed }) => closed))
  const { tokens, open } = await ledger(app, 'acme')
  t.equal(open, 0)
  // Two prompts of 10 tokens, and two responses of 2.
  t.equal(tokens, 24)
})

const broken: Record<string, (response: ServerResponse) => void> = {
  'cut off midway': (response) => {
    begin(response)
    response.write(chunk('one two'), () => response.destroy())
  },
  'an end without a reason': (response) => {
    begin(response)
    response.end(chunk('one two'))
  },
  'malformed JSON': (response) => {
    begin(response)
    response.end(`${chunk('one two')}data: {"choices": [${secretOfProvider}\n\ndata: [DONE]\n\n`)
  },
  'an error within the stream': (response) => {
    begin(response)
    response.end(`${chunk('one two')}data: ${JSON.stringify({ error: { message: secretOfProvider, type: 'server_error' } })}\n\n`)
  }
}

t.test('a broken response is a 502, or one `error` event after the received part, and is charged', async (t) => {
  let reply = broken['cut off midway']!
  const { app, post } = await openOn(t, (response) => reply(response))
  let expected = 0
  for (const [name, make] of Object.entries(broken)) {
    reply = make
    const chat = await post('/llm/chat', ask('hello'))
    t.equal(chat.status, 502, name)
    tellsNothing(t, chat.text)
    const stream = await post('/llm/stream', ask('hello'))
    tellsNothing(t, stream.text)
    const events = eventsOf(stream.text)
    t.match(events.at(-1), { type: 'error', code: 'TENANTRY_PROVIDER_FAILED' }, name)
    t.equal(events.filter(({ type }) => type === 'done' || type === 'error').length, 1, name)
    expected += 24
    const { tokens, open } = await ledger(app, 'acme')
    t.equal(open, 0)
    t.equal(tokens, expected, `${name}: the prompt and the received part`)
  }
})

t.test('a response that is not a stream is a 502', async (t) => {
  const { post } = await openOn(t, (response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(`<html>${secretOfProvider}</html>`)
  })
  for (const url of ['/llm/chat', '/llm/stream']) {
    const response = await post(url, ask('hello'))
    t.match(response.status === 502 ? response.body : eventsOf(response.text).at(-1), { message: /expected a complete stream of server-sent events$/ })
    tellsNothing(t, response.text)
  }
})

t.test('a response of 100 MB is cut off', async (t) => {
  let written = 0
  const { app, post, wire } = await openOn(t, async (response) => {
    begin(response)
    const closed = new AbortController()
    response.once('close', () => closed.abort())
    const piece = chunk('x'.repeat(100_000))
    for (; written < 104_857_600 && !response.destroyed; written += piece.length) {
      if (!response.write(piece)) await once(response, 'drain', { signal: closed.signal }).catch(() => {})
    }
  })
  const reply = await post('/llm/chat', ask('hello'))
  t.equal(reply.status, 502)
  t.match(reply.body, { message: 'The response of the provider is too large' })
  await wire.requests[0]?.closed
  t.ok(written < 20_000_000, `${written} bytes were sent`)
  const { tokens, open } = await ledger(app, 'acme')
  t.equal(open, 0)
  t.equal(tokens, 110, 'no more than was reserved')
})

t.test('invalid requests reach no model', async (t) => {
  const { app, post, wire } = await openOn(t, (response) => {
    begin(response)
    response.end(chunk('hi') + finish({ input: 5, output: 1 }))
  })
  const refused = async (name: string, body: unknown, status: number, pattern: object = {}) => {
    for (const url of ['/llm/chat', '/llm/stream']) {
      const response = await post(url, body)
      t.equal(response.status, status, `${url} ${name}`)
      t.match(response.body, pattern, name)
    }
  }
  const message = { role: 'user', content: 'hello' }
  await refused('no messages', { messages: [] }, 400)
  await refused('10,000 messages', { messages: Array.from({ length: 10_000 }, () => message) }, 400)
  await refused('10 MB', { messages: [{ role: 'user', content: 'x'.repeat(10_485_760) }] }, 413)
  await refused('an unknown role', { messages: [{ role: 'tool', content: 'x' }] }, 400)
  await refused('only system', { messages: [{ role: 'system', content: 'x' }] }, 400)
  await refused('system later', { messages: [message, { role: 'system', content: 'x' }] }, 400)
  await refused('an image of the assistant', {
    messages: [message, { role: 'assistant', content: [{ type: 'image', fileId: '6310ffc8-bff8-472e-bc05-66f4e283874b' }] }]
  }, 400)
  await refused(
    'an unknown file',
    { messages: [{ role: 'user', content: [{ type: 'image', fileId: '6310ffc8-bff8-472e-bc05-66f4e283874b' }] }] },
    400,
    { details: [{ path: '/body/messages/0/content/0/fileId' }] }
  )
  await refused(
    'a URL in place of a file',
    { messages: [{ role: 'user', content: [{ type: 'image', url: 'http://169.254.169.254/' }] }] },
    400
  )
  await refused('an unknown model', ask('hello', { model: 'gpt-unknown' }), 404)
  await refused('a negative limit', ask('hello', { maxOutputTokens: -1 }), 400)
  await refused('a limit of 0', ask('hello', { maxOutputTokens: 0 }), 400)
  await refused('a temperature', ask('hello', { temperature: 3 }), 400)
  await refused('an unknown tool', ask('hello', { tools: ['delete-everything'] }), 400, { details: [{ path: '/body/tools/0' }] })
  await refused('an address', ask('hello', { baseUrl: 'http://evil' }), 400)
  t.equal((await post('/llm/chat', ask('hello'), null)).status, 400, 'a token without a tenant')
  t.equal(wire.requests.length, 0, 'the provider got no request')
  t.strictSame(await ledger(app, 'acme'), { tokens: 0, cost: 0, open: 0 })
})

t.test('NUL and unpaired surrogates become U+FFFD', async (t) => {
  const { post, wire } = await openOn(t, (response) => {
    begin(response)
    response.end(chunk('hi') + finish({ input: 5, output: 1 }))
  })
  const reply = await post('/llm/chat', '{"messages":[{"role":"user","content":"a\\u0000b\\ud800c"}]}')
  t.equal(reply.status, 200, reply.text)
  t.match(wire.requests[0]?.body, { messages: [{ content: 'a\uFFFDb\uFFFDc' }] })
})

t.test("a prompt beyond the model's context is a 400 before the call", async (t) => {
  const wire = await wireProvider(t, failing(500))
  const { post } = await open(
    t,
    agentOf('local', wire.url, { models: [{ id: 'test-model', provider: 'local', kind: 'chat', contextTokens: 150 }] })
  )
  const response = await post('/llm/chat', ask('word '.repeat(60)))
  t.equal(response.status, 400)
  t.match(response.body['message'], /the model accepts 150/)
  t.equal(wire.requests.length, 0)
})
