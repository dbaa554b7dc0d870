/** Tokens and cost are reserved before a call and settled after it. */
import t from 'tap'
import { turns } from '../../../lib/concurrency/event-loop-yielder.js'
import { secretText } from '../../helpers/log-scan.js'
import { holdInPause } from '../../helpers/pauses.js'
import { until } from '../../helpers/until.js'
import { agentOf, ask, begin, chunk, eventsOf, finish, ledger, open, toolChunk, wireProvider } from './app.js'

const answering = (usage: { input: number, output: number } | null) => (response: Parameters<Parameters<typeof wireProvider>[1]>[0]) => {
  begin(response)
  response.end(chunk('one two') + finish(usage))
}

t.test("50 concurrent calls never exceed the plan's limit", async (t) => {
  // A prompt of 10 tokens and a response of up to 100: nine calls at a time fit into 1000.
  const wire = await wireProvider(t, answering({ input: 10, output: 100 }))
  const { app, post } = await open(t, agentOf('local', wire.url))
  const responses = await Promise.all(
    Array.from({ length: 50 }, (_, index) => post(index % 2 === 0 ? '/llm/chat' : '/llm/stream', ask('hello'), 'small'))
  )
  const passed = responses.filter(({ status }) => status === 200)
  const refused = responses.filter(({ status }) => status === 402)
  t.equal(passed.length, 9)
  t.equal(refused.length, 41)
  t.match(refused[0]?.body, { code: 'TENANTRY_PLAN_LIMIT', allowed: false, upgrade: { plan: String } })
  t.equal(wire.requests.length, 9, 'rejected calls never reach the provider')
  t.strictSame(await ledger(app, 'small'), { tokens: 990, cost: 9 * 210, open: 0 })
  t.equal((await post('/llm/chat', ask('hello'), 'acme')).status, 200, 'another tenant has room')
})

t.test("a plan's cost limit applies separately", async (t) => {
  // 10 and 100 tokens cost 210 millionths; the plan includes 1000.
  const wire = await wireProvider(t, answering({ input: 10, output: 100 }))
  const { app, post } = await open(t, agentOf('local', wire.url))
  const responses = await Promise.all(Array.from({ length: 20 }, () => post('/llm/chat', ask('hello'), 'cheap')))
  t.equal(responses.filter(({ status }) => status === 200).length, 4)
  t.strictSame(await ledger(app, 'cheap'), { tokens: 440, cost: 840, open: 0 })
})

t.test('a provider with missing or impossible usage is charged by an estimate', async (t) => {
  let usage: { input: number, output: number } | null = null
  const wire = await wireProvider(t, (response) => answering(usage)(response))
  const { post } = await open(t, agentOf('local', wire.url))
  for (const given of [null, { input: 0, output: 0 }, { input: -5, output: -5 }, { input: 1e300, output: 0.5 }]) {
    usage = given
    const response = await post('/llm/chat', ask('hello'))
    t.match(response.body['usage'], { inputTokens: 10, outputTokens: 2, totalTokens: 12, cost: 0.000014 }, JSON.stringify(given))
  }
})

t.test("each tenant has its own key, and none calls with another tenant's", async (t) => {
  const keys = { acme: secretText('key-of-acme-0123456789', 'a key'), globex: secretText('key-of-globex-0123456789', 'a key') }
  let status = 200
  const wire = await wireProvider(t, (response) => {
    if (status === 200) return answering({ input: 1, output: 1 })(response)
    response.writeHead(status).end('no')
  })
  const { app, post } = await open(
    t,
    agentOf('local', wire.url, { llm: { provider: 'local', model: 'test-model', apiKey: '{{secret:llm_key}}', baseUrl: wire.url } })
  )
  const missing = await post('/llm/chat', ask('hello'))
  t.equal(missing.status, 400)
  t.match(missing.body, { code: 'TENANTRY_SECRET_REQUIRED', secret: 'llm_key' })
  for (const [tenant, value] of Object.entries(keys)) await app.secrets.put(tenant, { key: 'llm_key', value }, { kind: 'system' } as never)
  await Promise.all(['acme', 'globex', 'acme', 'globex'].map((tenant) => post('/llm/chat', ask(`I am ${tenant}`), tenant)))
  for (const { headers, body } of wire.requests) {
    const tenant = JSON.stringify(body).includes('I am acme') ? 'acme' : 'globex'
    t.equal(headers.authorization, `Bearer ${keys[tenant]}`)
  }
  t.equal(wire.requests.length, 4)
  status = 401
  const refused = await post('/llm/chat', ask('hello'))
  t.equal(refused.status, 424)
  t.equal(refused.body['code'], 'TENANTRY_PROVIDER_KEY_REFUSED')
  t.equal((await post('/llm/chat', ask('hello'), 'small')).status, 400, 'a tenant without the secret')
})

t.test('limits per user apply to calls and tokens', async (t) => {
  const wire = await wireProvider(t, answering({ input: 10, output: 5 }))
  const { app, post } = await open(t, agentOf('local', wire.url))
  await app.resourceLimits.replace('acme', [{ resource: 'llm', metric: 'tokens', period: 'day', limit: 150 }, {
    resource: 'llm',
    metric: 'count',
    period: 'day',
    limit: 4
  }])
  // 110 are reserved, and 15 used: three fit, although four would need 440.
  for (let call = 0; call < 3; call++) t.equal((await post('/llm/chat', ask('hello'))).status, 200)
  const refused = await post('/llm/chat', ask('hello'))
  t.equal(refused.status, 402)
  t.match(refused.body, { code: 'TENANTRY_RESOURCE_LIMIT', usage: { current: 45, limit: 150 } })
  t.equal((await post('/llm/chat', ask('hello', { maxOutputTokens: 50 }))).status, 200, 'the rejected call was not counted')
  t.match((await post('/llm/chat', ask('hello', { maxOutputTokens: 1 }))).body, { usage: { current: 4, limit: 4 } }, 'calls')
  t.equal((await post('/llm/chat', ask('hello'), 'acme', { sub: 'bob' })).status, 200, 'another user')
  t.equal((await post('/llm/chat', ask('hello'), 'globex')).status, 200, 'another tenant')
})

t.test('tools run between rounds, each of which is metered', async (t) => {
  const wire = await wireProvider(t, (response, { body }) => {
    begin(response)
    const asked = JSON.stringify(body).includes('"role":"tool"')
    response.end(
      asked
        ? chunk('It is 7.') + finish({ input: 30, output: 4 })
        : toolChunk('call-1', 'count', '{"of":"apples"}') + finish({ input: 20, output: 6 }, 'tool_calls')
    )
  })
  const inputs: unknown[] = []
  const app = await open(t, agentOf('local', wire.url), {}, {
    prepare (app) {
      app.register(async (own) => {
        own.get('/count', {
          config: { access: 'user', tool: { name: 'count', description: 'Counts.', readOnly: true, destructive: false } },
          schema: { querystring: { type: 'object', properties: { of: { type: 'string' } }, additionalProperties: false } }
        }, async ({ tenant, query }) => {
          inputs.push([tenant?.id, Object.assign({}, query)])
          return 7
        })
      })
    }
  })
  const response = await app.post('/llm/chat', ask('How many apples?', { tools: ['count'] }))
  t.equal(response.status, 200, response.text)
  t.match(response.body, {
    message: { content: 'It is 7.' },
    toolCalls: [{ name: 'count', ok: true }],
    usage: { inputTokens: 50, outputTokens: 10, totalTokens: 60, cost: 0.00007 }
  })
  t.strictSame(inputs, [['acme', { of: 'apples' }]])
  const events = eventsOf((await app.post('/llm/stream', ask('How many apples?', { tools: ['count'] }))).text)
  t.strictSame(events.map(({ type }) => type), ['tool', 'content', 'usage', 'done'])
  t.strictSame(await ledger(app.app, 'acme'), { tokens: 120, cost: 140, open: 0 })
})

t.test('a response with a format is checked in a turn of the tenant', async (t) => {
  const wire = await wireProvider(t, (response) => {
    begin(response)
    response.end(chunk('{"colour":"red"}') + finish({ input: 10, output: 5 }))
  })
  const { post } = await open(t, agentOf('local', wire.url))
  const waiting = () => turns.yielder('tenant acme').waiting
  const pause = holdInPause(t, 'acme')
  const asked = post('/llm/chat', ask('a colour', { responseFormat: { type: 'object' } }))
  await until('the call waits', () => waiting() === 1)
  t.equal(wire.requests.length, 0, 'before its schema is checked')
  pause.next()
  await until('the response waits', () => waiting() === 1 && wire.requests.length === 1)
  pause.end()
  t.match((await asked).body, { object: { colour: 'red' } })
})

t.test('`responseFormat` returns an object, and a response that does not match is a 502 and charged', async (t) => {
  let text = '{"colour":"red"}'
  const wire = await wireProvider(t, (response) => {
    begin(response)
    response.end(chunk(text) + finish({ input: 10, output: 5 }))
  })
  const { app, post } = await open(t, agentOf('local', wire.url))
  const responseFormat = {
    type: 'object',
    properties: { colour: { $ref: '#/$defs/colour' } },
    required: ['colour'],
    additionalProperties: false,
    $defs: { colour: { type: 'string', enum: ['red', 'green'] } }
  }
  const good = await post('/llm/chat', ask('a colour', { responseFormat }))
  t.match(good.body, { object: { colour: 'red' }, message: { content: text } })
  t.match(eventsOf((await post('/llm/stream', ask('a colour', { responseFormat }))).text).at(-1), {
    type: 'done',
    object: { colour: 'red' }
  })
  const large = '{"type":"object","properties":{"id":{"type":"number","maximum":12345678901234567890}}}'
  text = '{"id":7}'
  const numbers = await post('/llm/chat', `{"messages":[{"role":"user","content":"a number"}],"responseFormat":${large}}`)
  t.match(numbers.body, { object: { id: 7 } }, 'numbers of the schema that no double holds')
  for (const wrong of ['{"colour":"mauve"}', 'red', '{"colour":"red","more":1}', '']) {
    text = wrong
    const response = await post('/llm/chat', ask('a colour', { responseFormat }))
    t.equal(response.status, 502, wrong)
  }
  t.equal((await ledger(app, 'acme')).tokens, 7 * 15)
  const asked = wire.requests.length
  const deep = {
    type: 'object',
    properties: { a: { $ref: '#/$defs/a' } },
    $defs: { a: { anyOf: [{ type: 'array', items: { $ref: '#/$defs/a' } }, { type: 'null' }] } }
  }
  const wide: Record<string, unknown> = { d0: { type: 'string' } }
  for (let level = 1; level < 30; level++) {
    wide[`d${level}`] = { anyOf: [{ $ref: `#/$defs/d${level - 1}` }, { $ref: `#/$defs/d${level - 1}` }] }
  }
  const references = (count: number, definition: object) => ({
    type: 'object',
    $defs: { d: definition },
    properties: Object.fromEntries(Array.from({ length: count }, (_, index) => [`a${index}`, { $ref: '#/$defs/d' }]))
  })
  const names = Array.from({ length: 199 }, (_, index) => index.toString(36))
  for (
    const schema of [
      { type: 'array' },
      references(100, { type: 'object', required: names }),
      references(100, { enum: names }),
      references(100, { description: 'x'.repeat(1000) }),
      references(100, { const: 'x'.repeat(1000) }),
      references(100, { properties: { ['x'.repeat(1000)]: true } }),
      { type: 'object', properties: { a: { format: { toString: 1 } } } },
      {},
      { type: 'object', properties: { a: { type: 'strin' } } },
      { type: 'object', unknown: 1 },
      { type: 'object', properties: { a: { type: 'string', pattern: '(a+)+$' } } },
      { $async: true, type: 'object' },
      { type: 'object', properties: { a: { $ref: 'http://127.0.0.1/x' } } },
      deep,
      { type: 'object', properties: { a: { $ref: '#/$defs/d29' } }, $defs: wide },
      { type: 'object', description: 'x'.repeat(40_000) }
    ]
  ) {
    const response = await post('/llm/chat', ask('a colour', { responseFormat: schema }))
    t.equal(response.status, 400, response.text.slice(0, 200))
  }
  t.equal(wire.requests.length, asked)
})
