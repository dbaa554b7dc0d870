/** A server's metrics and log lines about model calls, with and without prompts. */
import { Writable } from 'node:stream'
import t, { type Test } from 'tap'
import { runProgram } from '../../helpers/program.js'
import { signToken } from '../../helpers/tokens.js'
import { samplesOf } from '../metrics/exposition.js'
import { agentOf, apiKey, ask, begin, chunk, eventsOf, finish, open, wireProvider } from './app.js'

const prompt = 'the prompt of marigold'
const text = 'the answer of nasturtium'

/** A provider that responds, or returns the status. */
async function openProvider (t: Test) {
  const state = { status: 200 }
  const wire = await wireProvider(t, (response) => {
    if (state.status !== 200) {
      response.writeHead(state.status, { 'content-type': 'application/json' })
        .end(JSON.stringify({ error: { message: `You asked: ${prompt}` } }))
      return
    }
    begin(response)
    response.end(chunk(text) + finish({ input: 11, output: 7 }))
  })
  return { ...wire, state }
}

t.test('metrics contain tokens, cost, the time to the first token, and failures by provider', async (t) => {
  const wire = await openProvider(t)
  const { app, post } = await open(t, agentOf('local', wire.url))
  for (const url of ['/llm/chat', '/llm/stream']) t.equal((await post(url, ask(prompt))).status, 200)
  wire.state.status = 500
  t.equal((await post('/llm/chat', ask(prompt))).status, 502)
  wire.state.status = 429
  t.equal((await post('/llm/chat', ask(prompt), 'globex')).status, 503)

  const { statusCode, body } = await app.inject({
    url: '/metrics',
    headers: { authorization: `Bearer ${signToken({ role: 'admin', sub: 'ops' })}` }
  })
  t.equal(statusCode, 200)
  const samples = samplesOf(t, body)
  const model = { provider: 'local', model: 'test-model' }
  const valueOf = (name: string, labels: Record<string, string> = {}) =>
    samples.find((sample) =>
      sample.name === name && Object.entries({ ...model, ...labels }).every(([label, value]) => sample.labels[label] === value)
    )?.value
  t.equal(valueOf('tenantry_llm_tokens_total', { kind: 'input' }), 22)
  t.equal(valueOf('tenantry_llm_tokens_total', { kind: 'output' }), 14)
  t.ok(Math.abs((valueOf('tenantry_llm_cost_usd_total') ?? 0) - 0.00005) < 1e-9)
  t.equal(valueOf('tenantry_llm_time_to_first_token_seconds_count'), 2)
  t.equal(valueOf('tenantry_llm_errors_total', { code: 'TENANTRY_PROVIDER_FAILED' }), 1)
  t.equal(valueOf('tenantry_llm_errors_total', { code: 'TENANTRY_PROVIDER_BUSY' }), 1)
  t.notMatch(body, /marigold|nasturtium/)
})

/** The log at `trace` of calls with every kind of end. */
async function logOf (t: Test, logPrompts: boolean | undefined): Promise<string> {
  let log = ''
  const stream = new Writable({
    write (chunk, _encoding, done) {
      log += String(chunk)
      done()
    }
  })
  const wire = await openProvider(t)
  const { app, post } = await open(t, agentOf('local', wire.url, { ...logPrompts !== undefined && { logPrompts } }), {}, {
    logger: { level: 'trace', stream }
  })
  t.equal((await post('/llm/chat', ask(prompt))).status, 200)
  t.match(eventsOf((await post('/llm/stream', ask(prompt))).text).at(-1), { type: 'done' })
  t.equal((await post('/agent/chat', { message: prompt })).status, 200)
  t.equal((await post('/llm/chat', ask(prompt, { maxOutputTokens: -1 }))).status, 400)
  wire.state.status = 500
  t.equal((await post('/llm/chat', ask(prompt))).status, 502)
  await app.close()
  t.notMatch(log, apiKey)
  return log
}

t.test('no log line contains a prompt or a response, unless `agent.logPrompts` is true', async (t) => {
  for (const logPrompts of [undefined, false]) {
    const log = await logOf(t, logPrompts)
    t.match(log, /a model has answered/)
    t.match(log, /a call of a model failed/)
    t.notMatch(log, /marigold|nasturtium/, `logPrompts: ${logPrompts}`)
  }
  const lines = (await logOf(t, true)).split('\n').filter((line) => line.includes('a model has answered'))
  t.equal(lines.length, 3)
  for (const line of lines) {
    t.match(line, prompt)
    t.match(line, text)
  }
})

t.test('a missing package is named with the install command', async (t) => {
  const { code, output } = await runProgram(t, 'test/programs/without-model-packages.ts')
  for (const [provider, name] of [['openai', 'openai@3'], ['anthropic', 'anthropic@3'], ['google', 'google@3'], ['local', 'openai-compatible@2']]) {
    t.match(output, new RegExp(`^${provider}: .*npm i @ai-sdk/${name} zod$`, 'm'))
  }
  t.equal(code, 0)
})
