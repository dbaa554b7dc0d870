/** Workflow steps that call a model. */
import t from 'tap'
import { agentOf, begin, chunk, finish, ledger, open, tokenOf, wireProvider } from './app.js'

const responseFormat = { type: 'object', properties: { colour: { type: 'string' } }, required: ['colour'] }
const retry = { attempts: 3, backoffMs: 0 }

function routeOf (path: string, step: object) {
  return {
    path,
    method: 'post' as const,
    workflow: { steps: [{ id: 'ask', type: 'llm', ...step } as never] },
    response: { answer: '{{steps.ask.result}}' }
  }
}

t.test('the result is the text or the object, and is metered', async (t) => {
  const prompts: string[] = []
  const wire = await wireProvider(t, (response, { body }) => {
    prompts.push(JSON.stringify(body['messages']))
    begin(response)
    response.end(chunk(JSON.stringify(body).includes('json_schema') ? '{"colour":"red"}' : 'Red.') + finish({ input: 10, output: 5 }))
  })
  const { app, post } = await open(t, agentOf('local', wire.url), {
    routes: [
      routeOf('/text', { prompt: 'A colour like {{body.like}}', params: { system: 'Be brief.', maxOutputTokens: 20 } }),
      routeOf('/value', { prompt: '{{body.like}}' }),
      routeOf('/object', { prompt: 'A colour', responseFormat }),
      routeOf('/unknown', { prompt: 'A colour', model: '{{body.model}}' })
    ]
  })
  t.strictSame((await post('/text', { like: 'blood' })).body, { answer: 'Red.' })
  t.match(prompts[0], /Be brief.*A colour like blood/)
  t.strictSame((await post('/object', {})).body, { answer: { colour: 'red' } })
  t.equal((await post('/unknown', { model: 'gpt-unknown' })).status, 404)
  t.strictSame((await post('/value', '{"like":{"id":12345678901234567890}}')).body, { answer: 'Red.' })
  t.match(prompts[2], /12345678901234567890/, 'a prompt keeps every digit')
  t.strictSame(await ledger(app, 'acme'), { tokens: 45, cost: 60, open: 0 })
  t.strictSame(await ledger(app, 'globex'), { tokens: 0, cost: 0, open: 0 })
})

t.test('a charged attempt is not repeated; one without a charge is', async (t) => {
  let reply: 'refused' | 'cut' = 'refused'
  const wire = await wireProvider(t, (response) => {
    if (reply === 'refused') {
      response.writeHead(500).end()
      return
    }
    begin(response)
    response.end(chunk('one two'))
  })
  const { app, post } = await open(t, agentOf('local', wire.url), { routes: [routeOf('/text', { prompt: 'A colour', retry })] })
  t.equal((await post('/text', {})).status, 502)
  t.equal(wire.requests.length, 3)
  t.equal((await ledger(app, 'acme')).tokens, 0)
  reply = 'cut'
  t.equal((await post('/text', {})).status, 502)
  t.equal(wire.requests.length, 4)
  t.ok((await ledger(app, 'acme')).tokens > 0)
})

t.test('a retried group does not repeat a call that was charged', async (t) => {
  const replies: Array<'refused' | 'cut' | 'whole'> = ['refused', 'cut', 'whole']
  const wire = await wireProvider(t, (response) => {
    const reply = replies[wire.requests.length - 1]
    if (reply === 'refused') {
      response.writeHead(500).end()
      return
    }
    begin(response)
    response.end(chunk('one two') + (reply === 'whole' ? finish({ input: 10, output: 2 }) : ''))
  })
  const group = { id: 'group', parallel: [{ id: 'ask', type: 'llm', prompt: 'A colour' }], retry: { attempts: 4, backoffMs: 0 } }
  const { app, post } = await open(t, agentOf('local', wire.url), {
    routes: [{ path: '/text', method: 'post', workflow: { steps: [group as never] } }]
  })
  t.match(await post('/text', {}), { status: 502, body: { code: 'TENANTRY_STEP_ANSWER_LOST' } })
  t.equal(wire.requests.length, 2, 'the rejected call is repeated, and the interrupted one is not')
  // A prompt of 11 tokens, and two of the response.
  t.strictSame(await ledger(app, 'acme'), { tokens: 13, cost: 15, open: 0 })
})

t.test('an asynchronous run stores the result', async (t) => {
  const wire = await wireProvider(t, (response) => {
    begin(response)
    response.end(chunk('Red.') + finish({ input: 10, output: 5 }))
  })
  const { app, post } = await open(t, agentOf('local', wire.url), {
    workflows: [{ id: 'colour', steps: [{ id: 'ask', type: 'llm', prompt: 'A colour' }] }]
  })
  const started = await post('/agent/workflow/run', { ref: 'colour' })
  t.equal(started.status, 202, started.text)
  let status: Record<string, unknown> = {}
  while (status['status'] !== 'completed' && status['status'] !== 'failed') {
    status =
      (await app.inject({ url: `/agent/workflow/status?workflowId=${String(started.body['workflowId'])}`, headers: tokenOf('acme') }))
        .json()
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  t.match(status, { status: 'completed', result: 'Red.' })
  t.equal(wire.requests.length, 1)
  t.equal((await ledger(app, 'acme')).tokens, 15)
})
