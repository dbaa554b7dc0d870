/** Documents in chat: their form in the provider's request, citations, and attacks within documents. */
import type { Test } from 'tap'
import t from 'tap'
import { storable } from '../../../lib/json/storable.js'
import { vectorOf } from '../../helpers/models.js'
import type { Seen } from '../models/app.js'
import { begin, chunk, finish, wireProvider } from '../models/app.js'
import { open, type Opened } from './app.js'
import { attacks } from './attacks.js'

const dimensions = 32
const system = 'You help the team.'

interface Message {
  readonly role: string
  readonly content: string
}

/** A server whose provider embeds texts and answers every chat. */
async function openLibrary (t: Test): Promise<Opened & { readonly chats: () => Message[][] }> {
  const { url, requests } = await wireProvider(t, (response, seen, path) => {
    if (path.endsWith('/embeddings')) {
      response.setHeader('content-type', 'application/json').end(JSON.stringify(vectorsFor(seen)))
      return
    }
    begin(response)
    response.end(chunk('Answered.') + finish({ input: 10, output: 2 }))
  })
  const embedding = { provider: 'local', model: 'words', baseUrl: url, dimensions } as const
  const opened = await open(t, url.replace('/v1', ''), { agent: { chat: { system }, embedding } })
  const chats = () => requests.flatMap(({ body }) => Array.isArray(body['messages']) ? [body['messages'] as Message[]] : [])
  return { ...opened, chats }
}

function vectorsFor ({ body: { input, model } }: Seen): object {
  const data = [input].flat().map((text, index) => ({ object: 'embedding', index, embedding: vectorOf(String(text), dimensions) }))
  return { object: 'list', data, model, usage: { prompt_tokens: 3, total_tokens: 3 } }
}

async function store ({ as }: Opened, tenant: string, id: string, document: string): Promise<void> {
  const { status, text } = await as(tenant).ask('POST /agent/embeddings/document', { id, contentType: 'text/plain', document })
  if (status !== 201) throw new Error(text)
}

t.test("a response cites the tenant's documents, and no other tenant's", async (t) => {
  const library = await openLibrary(t)
  await store(library, 'acme', 'terms', 'Refunds are possible within thirty days.')
  await store(library, 'globex', 'secret-terms', 'Refunds are never possible at globex.')
  const ada = library.as('acme')
  const { body } = await ada.chat('Are refunds possible?')
  t.match(body, { citations: [{ id: 'terms', chunk: 0, score: Number }], usage: { inputTokens: 13, outputTokens: 2, totalTokens: 15 } })
  t.equal(Object(body['citations']).length, 1)
  const [messages = []] = library.chats()
  t.strictSame(messages.map(({ role }) => role), ['system', 'user', 'user'])
  t.match(messages[1]?.content, /"document":"terms","chunk":0,"content":"Refunds are possible within thirty days\."/)
  t.equal(messages[2]?.content, 'Are refunds possible?')
  t.notMatch(JSON.stringify(library.chats()), /globex/)
  t.match((await ada.ask(`GET /agent/conversations/${String(body['conversationId'])}`)).body, {
    messages: [{ role: 'user' }, { role: 'assistant', citations: [{ id: 'terms', chunk: 0 }] }]
  })
  t.match((await ada.chat('Are refunds possible?', { stream: true })).events[0], { type: 'start', citations: [{ id: 'terms' }] })

  t.match((await ada.chat('Are refunds possible?', { documents: false })).body, { citations: { length: 0 }, usage: { totalTokens: 12 } })
  t.strictSame(library.chats().at(-1)?.map(({ role }) => role), ['system', 'user'])
  t.match((await ada.ask('GET /agent/health')).body, { status: 'ok', llm: 'up', embedding: 'up', vectorStore: 'up' })
})

t.test('document texts are marked as data in a user message', async (t) => {
  const library = await openLibrary(t)
  let clean: string | undefined
  for (const [index, attack] of ['a harmless document', ...attacks].entries()) {
    const mark = `mark${index}`
    await store(library, 'acme', 'attack', storable(`${mark} ${attack}`))
    t.equal((await library.as('acme').chat(`What is ${mark}?`)).status, 200)
    const messages = library.chats().at(-1) ?? []
    const [first, excerpts, last] = messages
    clean ??= first?.content
    t.strictSame(messages.map(({ role }) => role), ['system', 'user', 'user'], attack)
    t.equal(first?.content, clean, 'the system prompt')
    t.ok(first?.content.startsWith(system))
    t.ok(excerpts?.content.includes(mark), 'the excerpt')
    t.equal(excerpts?.content.split('</excerpts>').length, 2, 'the mark is closed once')
    t.equal(last?.content, `What is ${mark}?`)
    t.equal((await library.as('acme').ask('DELETE /agent/embeddings/document/attack')).status, 200)
  }
})
