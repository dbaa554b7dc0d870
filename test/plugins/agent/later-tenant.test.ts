/** Chats whose tenant is deleted while they run, and whose id a later tenant has. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { gate } from '../../helpers/gate.js'
import { vectorOf } from '../../helpers/models.js'
import { holdInPause } from '../../helpers/pauses.js'
import { replaceTenant } from '../../helpers/succession.js'
import { until } from '../../helpers/until.js'
import { begin, chunk, finish, wireProvider } from '../models/app.js'
import { modelWithTools } from '../workflows/tools-app.js'
import { open } from './app.js'

const server = { engine: { provider: 'embedded' } } as const

async function conversationsOf (app: FastifyInstance): Promise<number> {
  return (await app.db.selectFrom('tenantry.conversations').select('id').execute()).length
}

test('a chat is not stored for a later tenant with the id, nor does it call tools there', async (t) => {
  const model = await modelWithTools(t, [])
  const { app, as } = await open(t, model.url.replace('/v1', ''), { server })
  const titles = async () => (await sql<{ title: string }>`select title from notes`.execute(app.db)).rows.map(({ title }) => title)
  const addNote = { name: 'add_note', input: { body: { title: 'of the earlier tenant' } } }
  const chats = [['plain', [], {}], ['tools', [addNote], { tools: true }], ['streams', [], { stream: true }]] as const
  for (const [tenant, calls, more] of chats) {
    const door = gate()
    model.calls = calls
    model.wait = () => door.opened
    const asked = model.asked()
    const chat = as(tenant).chat('go', more)
    await until('the model is called', () => model.asked() > asked)
    await replaceTenant(app, tenant)
    door.open()
    const { status, body, events } = await chat
    if (tenant === 'streams') t.match(events.at(-1), { type: 'error', code: 'TENANTRY_TENANT_UNKNOWN' })
    else t.match({ status, body }, { status: 404, body: { code: 'TENANTRY_TENANT_UNKNOWN' } }, tenant)
    t.strictSame([await conversationsOf(app), await titles(), model.results], [0, [], []], tenant)
  }
})

test('a chat reads no document of a later tenant with the id', async (t) => {
  const [asked, door] = [gate(), gate()]
  const dimensions = 8
  const { url, requests } = await wireProvider(t, async (response, { body: { input, model } }, path) => {
    if (!path.endsWith('/embeddings')) {
      begin(response)
      response.end(chunk('Answered.') + finish({ input: 10, output: 2 }))
      return
    }
    if (JSON.stringify(input).includes('refunds')) {
      asked.open()
      await door.opened
    }
    const data = [input].flat().map((text, index) => ({ object: 'embedding', index, embedding: vectorOf(String(text), dimensions) }))
    const embedded = { object: 'list', data, model, usage: { prompt_tokens: 3, total_tokens: 3 } }
    response.setHeader('content-type', 'application/json').end(JSON.stringify(embedded))
  })
  const embedding = { provider: 'local', model: 'words', baseUrl: url, dimensions } as const
  const { app, as } = await open(t, url.replace('/v1', ''), { agent: { embedding }, server })
  const chat = as('acme').chat('refunds?')
  await asked.opened
  await replaceTenant(app, 'acme')
  const document = { id: 'terms', contentType: 'text/plain', document: 'Terms of the later tenant.' } as const
  const signal = new AbortController().signal
  await app.embeddings.put('acme', document, { user: null, signal, actor: noActor })
  door.open()
  t.match(await chat, { status: 404, body: { code: 'TENANTRY_TENANT_UNKNOWN' } })
  t.strictSame(requests.filter(({ body }) => 'messages' in body), [], 'the later tenant pays for no chat')
  t.equal(await conversationsOf(app), 0)
})

test('a chat that waits for its turn asks no model for a later tenant with the id', async (t) => {
  const model = await modelWithTools(t, [])
  const { app, as } = await open(t, model.url.replace('/v1', ''), { server })
  const pause = holdInPause(t, 'acme')
  const chat = as('acme').chat('go', { documents: false })
  await until('the chat waits', () => pause.waiting() === 1)
  await replaceTenant(app, 'acme')
  pause.end()
  t.match(await chat, { status: 404, body: { code: 'TENANTRY_TENANT_UNKNOWN' } })
  t.equal(model.asked(), 0)
})
