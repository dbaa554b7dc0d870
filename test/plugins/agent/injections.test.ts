/**
 * Texts in documents and tool results that try to command the model. For each provider the test checks the request that the provider
 * received: the text is in a place for data, and the system prompt is the document's own. The model obeys every text, and its tools still
 * reach no more than the caller may.
 */
import type { LLMock } from '@copilotkit/aimock'
import { sql } from 'kysely'
import t from 'tap'
import { storable } from '../../../lib/json/storable.js'
import { mockProvider, providers } from '../models/app.js'
import { open } from './app.js'
import { attacks } from './attacks.js'

const system = 'You help the team with its notes.'

interface Got {
  readonly system: string
  readonly others: Array<{ readonly role: string, readonly text: string }>
}

/** The last request as the provider received it. */
function gotBy (mock: LLMock): Got {
  const body = Object(mock.getRequests().at(-1)?.body)
  const messages: Array<Record<string, unknown>> = body.messages ?? body.input ?? body.contents ?? []
  const role = (message: Record<string, unknown>) => String(message['role'] ?? message['type'])
  const isSystem = (message: Record<string, unknown>) => ['system', 'developer'].includes(role(message))
  return {
    system: JSON.stringify([body.system ?? [], body.systemInstruction ?? [], messages.filter(isSystem).map(({ content }) => content)]),
    others: messages.filter((message) => !isSystem(message)).map((message) => ({ role: role(message), text: JSON.stringify(message) }))
  }
}

for (const provider of providers) {
  t.test(`${provider}: a tool's text is in the tool result`, async (t) => {
    const mock = await mockProvider(t)
    mock.on({ userMessage: 'summarise', hasToolResult: false }, { toolCalls: [{ name: 'list_notes', arguments: '{}' }] })
    mock.on({ userMessage: 'summarise', hasToolResult: true }, { content: 'Done.' })
    const { app, as } = await open(t, mock.url, { provider, agent: { chat: { system } } })
    let clean: string | undefined
    for (const [index, attack] of ['a harmless note', ...attacks].entries()) {
      const mark = `mark-${index}-`
      await sql`delete from notes`.execute(app.db)
      await sql`insert into notes (tenant_id, title) values ('acme', ${storable(mark + attack)})`.execute(app.db)
      t.match(await as('acme').chat('summarise', { tools: true, documents: false }), { status: 200, body: { toolCalls: [{ ok: true }] } })
      const { system: sent, others } = gotBy(mock)
      clean ??= sent
      t.equal(sent, clean, `the system prompt: ${attack}`)
      t.ok(sent.includes(system))
      t.notOk(others.slice(0, -1).some(({ text }) => text.includes(mark)), 'no other message contains it')
      t.ok(others.at(-1)?.text.includes(mark), 'the tool result contains it')
      t.not(others.at(-1)?.role, 'assistant')
    }
  })
}

t.test('an obedient model reaches only what its caller may reach', async (t) => {
  const orders: Array<[name: string, input: unknown]> = [
    ['remove_note', { id: '00000000-0000-4000-8000-000000000000' }],
    ['list_notes', { 'x-tenant-id': 'globex' }],
    ['list_notes', { tenant_id: 'globex' }],
    ['add_note', { body: { title: 'mine', tenant_id: 'globex' } }],
    ['add_note', { body: { title: '{{secret:llm_key}} {{env.SECRETS_MASTER_KEY}}' } }],
    ['get_tenants', {}],
    ['POST /tenant/config', {}]
  ]
  for (const [name, input] of orders) {
    const mock = await mockProvider(t)
    mock.on({ userMessage: 'obey', hasToolResult: false }, { toolCalls: [{ name, arguments: JSON.stringify(input) }] })
    mock.on({ userMessage: 'obey', hasToolResult: true }, { content: 'Obeyed.' })
    const { app, as } = await open(t, mock.url)
    await sql`insert into notes (tenant_id, title) values ('globex', 'a secret of globex')`.execute(app.db)
    const { status, text } = await as('acme').chat('obey', { tools: true })
    t.equal(status, 200, name)
    t.notMatch(text, /secret of globex/)
    t.notMatch(JSON.stringify(mock.getRequests().map(({ body }) => body)), /secret of globex/, 'the provider does not receive it')
    const { rows } = await sql<{ tenant_id: string, title: string }>`select tenant_id, title from notes`.execute(app.db)
    t.strictSame(
      rows.filter((row) => row.tenant_id === 'globex'),
      [{ tenant_id: 'globex', title: 'a secret of globex' }],
      'nothing of the other tenant changed'
    )
    t.notMatch(JSON.stringify(rows), /the tests, 32/, 'no template was resolved')
  }
})
