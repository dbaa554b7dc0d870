/** `app.models.embed`, and the stream of `app.models`. */
import { once } from 'node:events'
import t from 'tap'
import { isCharged } from '../../../lib/models/failures.js'
import { agentOf, ask, begin, chunk, ledger, open, wireProvider } from './app.js'

const embedding = (url: string, more: object = {}) => ({
  embedding: { provider: 'local' as const, model: 'vectors', baseUrl: url, ...more },
  models: [{ id: 'vectors', provider: 'local' as const, kind: 'embedding' as const, price: { input: 1, output: 0 } }]
})
const signal = new AbortController().signal

t.test("vectors of all texts are returned, in requests of 256, with the provider's usage", async (t) => {
  const wire = await wireProvider(t, (response, { body }, url) => {
    t.match(url, /embeddings$/)
    const input = body['input'] as string[]
    response.writeHead(200, { 'content-type': 'application/json' }).end(
      JSON.stringify({
        object: 'list',
        data: input.map((text, index) => ({ index, embedding: [text.length, 0.5] })),
        model: 'x',
        usage: { prompt_tokens: input.length * 2, total_tokens: input.length * 2 }
      })
    )
  })
  const { app } = await open(t, agentOf('local', wire.url, embedding(wire.url)))
  t.strictSame(app.models.embeddingModel, { model: 'vectors', dimensions: null })
  const { embeddings, usage } = await app.models.embed({
    tenant: 'acme',
    user: null,
    texts: Array.from({ length: 300 }, (_, index) => 'x'.repeat(1 + index % 9)),
    signal
  })
  t.equal(wire.requests.length, 2)
  t.equal(embeddings.length, 300)
  t.strictSame(embeddings[299], [1 + 299 % 9, 0.5])
  t.strictSame(usage, { inputTokens: 600, outputTokens: 0, totalTokens: 600, cost: 0.0006 })
  t.strictSame(app.models.embeddingModel, { model: 'vectors', dimensions: 2 })
  t.strictSame(await ledger(app, 'acme'), { tokens: 600, cost: 600, open: 0 })
  await t.rejects(app.models.embed({ tenant: 'small', user: null, texts: ['1 2 3 4 5 6 7 8 9 '.repeat(200)], signal }), {
    code: 'TENANTRY_PLAN_LIMIT'
  })
})

t.test('vectors that no store can compare are rejected', async (t) => {
  let reply = ''
  const wire = await wireProvider(t, (response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(`{"data":${reply},"usage":{"prompt_tokens":0}}`)
  })
  const { app } = await open(t, agentOf('local', wire.url, embedding(wire.url, { dimensions: 2 })))
  const embed = (more: object = {}) => app.models.embed({ tenant: 'acme', user: null, texts: ['hello'], signal, ...more })
  const vectors = ['[1]', '[1,2,3]', '[1,null]', '[1,"NaN"]', '[1,NaN]', '[1,1e999]', '[0,0]', '"x"'].map((vector) =>
    `[{"index":0,"embedding":${vector}}]`
  )
  let charged = 0
  for (const wrong of ['[]', ...vectors, 'null']) {
    reply = wrong
    const error = await embed().catch((error: unknown) => error)
    t.match(error, { code: 'TENANTRY_PROVIDER_FAILED' }, wrong)
    t.ok(isCharged(error), 'another attempt would be charged too')
    t.strictSame(await ledger(app, 'acme'), { tokens: charged += 2, cost: charged, open: 0 }, 'the provider has responded')
  }
  reply = '[{"index":0,"embedding":[1,2]}]'
  t.match(await embed(), { usage: { inputTokens: 2 } }, 'a reported usage of 0 is replaced by an estimate')
  t.match(await embed({ dimensions: 3 }).catch((error: unknown) => error), {
    code: 'TENANTRY_PROVIDER_FAILED',
    message: /2 numbers: expected 3/
  }, 'the caller sets the number of dimensions')
  t.equal((await ledger(app, 'acme')).open, 0)
})

t.test("a response of 100 MB is cut off, and no error contains the provider's text", async (t) => {
  let written = 0
  let status = 200
  const wire = await wireProvider(t, async (response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    const closed = new AbortController()
    response.once('close', () => closed.abort())
    const piece = '"a marigold",'.repeat(10_000)
    response.write('{"data":[')
    for (; written < 104_857_600 && !closed.signal.aborted; written += piece.length) {
      if (!response.write(piece)) await once(response, 'drain', { signal: closed.signal }).catch(() => {})
    }
    response.end('""]}')
  })
  const { app } = await open(t, agentOf('local', wire.url, embedding(wire.url)))
  for (status of [200, 500]) {
    written = 0
    const error = await app.models.embed({ tenant: 'acme', user: null, texts: ['hello'], signal }).catch((error: unknown) => error)
    t.match(error, { code: 'TENANTRY_PROVIDER_FAILED' })
    t.notMatch(String(error), /marigold/)
    await wire.requests.at(-1)?.closed
    t.ok(written < 60_000_000, `${written} bytes were sent`)
  }
  t.equal((await ledger(app, 'acme')).open, 0)
})

t.test('a failure after a charged part is charged', async (t) => {
  const wire = await wireProvider(t, (response, { body }) => {
    if (wire.requests.length === 2) {
      response.writeHead(500).end()
      return
    }
    const input = body['input'] as string[]
    response.writeHead(200, { 'content-type': 'application/json' }).end(
      JSON.stringify({ data: input.map((_, index) => ({ index, embedding: [1, 0.5] })), usage: { prompt_tokens: 100, total_tokens: 100 } })
    )
  })
  const { app } = await open(t, agentOf('local', wire.url, embedding(wire.url)))
  const error = await app.models.embed({ tenant: 'acme', user: null, texts: Array.from({ length: 300 }, () => 'hello'), signal }).catch((
    error: unknown
  ) => error)
  t.match(error, { code: 'TENANTRY_PROVIDER_FAILED' })
  t.ok(isCharged(error))
  t.strictSame(await ledger(app, 'acme'), { tokens: 100, cost: 100, open: 0 })
})

t.test("leaving the iteration aborts the provider's request", async (t) => {
  const wire = await wireProvider(t, (response) => {
    begin(response)
    response.write(chunk('one two'))
  })
  const { app } = await open(t, agentOf('local', wire.url))
  const call = { tenant: 'acme', user: null, messages: [{ role: 'user' as const, content: ask('hello').messages[0]!.content }], signal }
  const left = app.models.stream(call)[Symbol.asyncIterator]()
  t.match(await left.next(), { value: { type: 'begun' } })
  t.match(await left.next(), { value: { type: 'content', text: 'one two' } })
  await left.return?.()
  await wire.requests[0]?.closed
  const { tokens, open: reserved } = await ledger(app, 'acme')
  t.equal(reserved, 0)
  t.equal(tokens, 12)

  const iterator = app.models.stream(call)[Symbol.asyncIterator]()
  await iterator.next()
  await iterator.next()
  const waiting = iterator.next().catch(() => 'ended')
  await iterator.return?.().catch(() => {})
  await wire.requests[1]?.closed
  t.equal(await waiting, 'ended', 'also while it waits for the next event')
})
