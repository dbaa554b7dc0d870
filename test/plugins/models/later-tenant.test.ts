/** Calls of models whose tenant is deleted meanwhile, and whose id a later tenant has. */
import { test } from 'tap'
import { gate } from '../../helpers/gate.js'
import { holdInPause } from '../../helpers/pauses.js'
import { replaceTenant } from '../../helpers/succession.js'
import { until } from '../../helpers/until.js'
import { agentOf, ask, begin, chunk, finish, ledger, open, wireProvider } from './app.js'

const nothing = { tokens: 0, cost: 0, open: 0 }

test('a later tenant with the id pays for no chat of an earlier one', async (t) => {
  const { url, requests } = await wireProvider(t, (response) => {
    begin(response)
    response.end(chunk('Hi.') + finish({ input: 10, output: 5 }))
  })
  const { app, post } = await open(t, agentOf('local', url), {}, { engine: { provider: 'embedded' } })
  for (const [tenant, path] of [['acme', '/llm/chat'], ['globex', '/llm/stream']] as const) {
    const pause = holdInPause(t, tenant)
    const response = post(path, ask('hello'), tenant)
    await until('the call waits for its turn', () => pause.waiting() === 1)
    await replaceTenant(app, tenant)
    pause.end()
    t.match(await response, { status: 404, body: { code: 'TENANTRY_TENANT_UNKNOWN' } }, path)
    t.strictSame([requests.length, await ledger(app, tenant)], [0, nothing], path)
  }
})

test('a later tenant with the id pays for no further texts of an earlier one', async (t) => {
  const [asked, door] = [gate(), gate()]
  const { url, requests } = await wireProvider(t, async (response, { body }) => {
    asked.open()
    await door.opened
    const data = [body['input']].flat().map((_text, index) => ({ index, embedding: [1, 0.5] }))
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ data, usage: { prompt_tokens: 9, total_tokens: 9 } }))
  })
  const { app } = await open(t, agentOf('local', url, {
    embedding: { provider: 'local', model: 'vectors', baseUrl: url },
    models: [{ id: 'vectors', provider: 'local', kind: 'embedding', price: { input: 1, output: 0 } }]
  }))
  const [texts, { signal }] = [Array.from({ length: 300 }, () => 'hello'), new AbortController()]
  const refused = t.rejects(app.models.embed({ tenant: 'acme', user: null, texts, signal }), { code: 'TENANTRY_TENANT_UNKNOWN' })
  await asked.opened
  await replaceTenant(app, 'acme')
  door.open()
  await refused
  t.strictSame([requests.length, await ledger(app, 'acme')], [1, nothing])
})
