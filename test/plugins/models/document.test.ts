/** The document's sections for models. */
import t from 'tap'
import { checkConfig, ConfigError } from '../../../lib/configuration/index.js'
import { testDocument, testServer } from '../../helpers/server.js'
import { save } from '../tenant-config/document.js'

const llm = { provider: 'local', model: 'small', baseUrl: 'http://127.0.0.1:11434/v1' }

function faultsOf (agent: object, more: object = {}, env: Record<string, string> = {}): string[] {
  try {
    checkConfig(testDocument({ agent: agent as never, ...more }), { env })
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.map(({ pointer, message }) => `${pointer}: ${message}`)
  }
}

t.test('keys and addresses are validated', async (t) => {
  t.strictSame(faultsOf({ enabled: true, llm }), [])
  t.match(faultsOf({ enabled: true, llm: { provider: 'local', model: 'small' } }), [/^\/agent\/llm\/baseUrl: missing/])
  for (const provider of ['openai', 'anthropic', 'google']) {
    t.match(faultsOf({ enabled: true, llm: { provider, model: 'm' } }), [
      new RegExp(`^/agent/llm/apiKey: missing: \`${provider}\` needs a key`)
    ])
  }
  t.strictSame(faultsOf({ enabled: true, llm: { provider: 'openai', model: 'm', apiKey: '{{secret:llm_key}}' } }), [])
  t.match(faultsOf({ enabled: true, llm: { provider: 'openai', model: 'm', apiKey: 'sk-{{secret:llm_key}}' } }), [
    /a secret must be the whole value/
  ])
  t.match(faultsOf({ enabled: true, llm: { provider: 'openai', model: 'm', apiKey: '{{tenant.config.key}}' } }), [/is not allowed here/])
  t.match(faultsOf({ enabled: true, llm: { provider: 'openai', model: 'm', apiKey: '{{env.NO_KEY}}' } }), [/the setting NO_KEY is not set/])
  t.match(
    faultsOf({ enabled: true, llm: { provider: 'openai', model: 'm', apiKey: '{{secret:llm_key}}' } }, { plugins: { secrets: false } }),
    [/`plugins\.secrets` is false/]
  )
  t.match(faultsOf({ enabled: true, llm: { ...llm, baseUrl: 'http://user:pass@127.0.0.1/v1' } }), [/expected a URL without user name/])
  const config = checkConfig(
    testDocument({ agent: { enabled: true, llm: { provider: 'openai', model: 'm', apiKey: '{{env.LLM_KEY}}' } } }),
    { env: { LLM_KEY: 'key-from-the-environment' } }
  )
  t.equal(config.agent?.llm?.apiKey, 'key-from-the-environment')
})

t.test('the shared servers leave a process for the others', async (t) => {
  const servers = (
    shared: number
  ) => [...Array.from({ length: shared }, (_, index) => ({ name: `s${index}`, command: 'a', shared: true })), { name: 'own', command: 'a' }]
  t.strictSame(faultsOf({ enabled: true, mcpServers: servers(7) }), [])
  t.match(faultsOf({ enabled: true, mcpServers: servers(8) }), [/^\/agent\/mcpMaxProcesses: expected more than 8/])
  t.strictSame(faultsOf({ enabled: true, mcpServers: servers(8), mcpMaxProcesses: 9 }), [])
})

t.test("models must belong to their section's provider", async (t) => {
  const models = [{ id: 'small', provider: 'openai', kind: 'chat' }, { id: 'vectors', provider: 'local', kind: 'embedding' }, {
    id: 'b',
    provider: 'local',
    kind: 'chat'
  }, { id: 'b', provider: 'local', kind: 'chat' }]
  t.match(faultsOf({ enabled: true, llm, models }), [
    /^\/agent\/models\/0\/provider: expected `local`/,
    /^\/agent\/models\/1\/kind: the document has no `agent\.embedding`/,
    /^\/agent\/models\/3\/id: duplicate id/
  ])
  const config = checkConfig(
    testDocument({
      agent: {
        enabled: true,
        llm: { provider: 'local', model: 'small', baseUrl: llm.baseUrl },
        models: [{ id: 'b', provider: 'local', kind: 'chat' }]
      }
    })
  )
  t.strictSame(config.agent?.models.map(({ id }) => id), ['b', 'small'], 'the default model is one of them')
})

t.test('a disabled section serves no endpoints', async (t) => {
  t.equal(checkConfig(testDocument({ agent: { enabled: false } })).agent, undefined)
})

t.test('steps of the type llm need a chat model', async (t) => {
  const workflows = [{ id: 'w', steps: [{ id: 'a', type: 'llm', prompt: 'x', params: { temprature: 1 } }] }]
  t.match(faultsOf({ enabled: true }, { workflows }), [/the document has no `agent\.llm`/])
  t.match(faultsOf({ enabled: true, llm }, { workflows }), [/`temprature` is not a parameter/])
})

t.test("a tenant's document has no section `agent`", async (t) => {
  const app = await testServer(t, { agent: { enabled: true, llm: { provider: 'local', model: 'small', baseUrl: llm.baseUrl } } }, {
    tenants: ['acme']
  })
  for (const agent of [{ enabled: true, llm: { ...llm, baseUrl: 'http://169.254.169.254/v1' } }, { enabled: true }, { logPrompts: true }]) {
    const refused = await save(app, 'acme', { agent })
    t.equal(refused.statusCode, 400, refused.body)
    t.match(refused.body, 'agent')
  }
})
