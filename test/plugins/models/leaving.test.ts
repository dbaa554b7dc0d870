/** Callers that disconnect or do not read: the provider's request is aborted, and the received part is charged. */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import type { FastifyInstance } from 'fastify'
import pg from 'pg'
import t, { type Test } from 'tap'
import { postgresDatabase, type TestDatabase } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { agentOf, apiKey, ask, begin, chunk, ledger, open, tokenOf, wireProvider } from './app.js'

const endpoints: ReadonlyArray<readonly [url: string, body: object]> = [
  ['/llm/stream', ask('hello')],
  ['/llm/chat', ask('hello')],
  ['/agent/chat', { message: 'hello' }],
  ['/agent/chat', { message: 'hello', stream: true }]
]

/** Calls for which the server has received a token. */
async function begun (app: FastifyInstance): Promise<number> {
  const { values } = await app.metrics.getSingleMetric('tenantry_llm_time_to_first_token_seconds')!.get() as {
    values: { metricName?: string, value: number }[]
  }
  return values.find(({ metricName }) => metricName?.endsWith('_count'))?.value ?? 0
}

/** Nothing is booked until `release` is called. */
async function holdLedger (t: Test, { connectionString }: TestDatabase) {
  const client = new pg.Client({ connectionString })
  await client.connect()
  t.teardown(() => client.end())
  return {
    hold: () => client.query('begin; lock table tenantry.usage_reservations in exclusive mode'),
    release: () => client.query('commit')
  }
}

/** Sends the request, and disconnects when `isReady`. */
async function leaveWhen (
  origin: string,
  [url, body]: typeof endpoints[number],
  isReady: () => boolean | Promise<boolean>,
  before: () => Promise<unknown>
): Promise<void> {
  const leaving = new AbortController()
  const request = fetch(origin + url, {
    method: 'POST',
    headers: { ...tokenOf('acme'), 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: leaving.signal
  })
  request.catch(() => {})
  await until(`${url}: the call is under way`, isReady)
  await before()
  leaving.abort()
  await request.catch(() => {})
}

t.test("a caller's disconnect aborts the provider's request before anything is booked, and the received part is charged", async (t) => {
  const database = await postgresDatabase(t)
  const wire = await wireProvider(t, (response) => {
    begin(response)
    response.write(chunk('one two'))
  })
  const { app, origin } = await open(t, agentOf('local', wire.url), {}, {
    engine: { provider: 'postgres', postgres: { connectionString: database.connectionString } }
  })
  const { hold, release } = await holdLedger(t, database)
  for (const [index, endpoint] of endpoints.entries()) {
    await leaveWhen(origin, endpoint, async () => await begun(app) === index + 1, hold)
    await wire.requests[index]?.closed
    t.equal(
      (await database.query('select from tenantry.usage_reservations where booked is null')).length,
      2,
      'tokens and cost are still reserved'
    )
    await release()
    await until('the reservations are settled', async () => (await ledger(app, 'acme')).open === 0)
    // A prompt of 10 tokens and two of the response; the prices are 1 and 2.
    t.strictSame(await ledger(app, 'acme'), { tokens: 12 * (index + 1), cost: 14 * (index + 1), open: 0 })
  }
})

t.test("a disconnect before the provider's response aborts the request, and the prompt is charged", async (t) => {
  const wire = await wireProvider(t, () => {})
  const { app, origin } = await open(t, agentOf('local', wire.url))
  for (const [index, endpoint] of endpoints.entries()) {
    await leaveWhen(origin, endpoint, () => wire.requests.length === index + 1, async () => {})
    await wire.requests[index]?.closed
    await until('the reservations are settled', async () => (await ledger(app, 'acme')).open === 0)
    t.strictSame(await ledger(app, 'acme'), { tokens: 10 * (index + 1), cost: 10 * (index + 1), open: 0 })
  }
})

/** Gemini sends the number of its thoughts, and no part for them. */
function geminiChunk (text: string): string {
  const candidate = { content: { role: 'model', parts: [{ text }] }, index: 0 }
  const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 2, thoughtsTokenCount: 80, totalTokenCount: 92 }
  return `data: ${JSON.stringify({ candidates: [candidate], usageMetadata })}\n\n`
}

t.test('a caller who leaves a model that thinks without a sign of it is charged the whole response', async (t) => {
  for (const [model, output] of [['gemini-2.5-pro', 100], ['gemini-2.0-flash', 2]] as const) {
    const wire = await wireProvider(t, (response) => {
      begin(response)
      response.write(geminiChunk('one two'))
    })
    const { app, origin } = await open(
      t,
      agentOf('google', wire.url, {
        llm: { provider: 'google', model, apiKey, baseUrl: wire.url },
        models: [{ id: model, provider: 'google', kind: 'chat', price: { input: 1, output: 2 } }]
      })
    )
    for (const [index, endpoint] of endpoints.entries()) {
      await leaveWhen(origin, endpoint, async () => await begun(app) === index + 1, async () => {})
      await until('the reservations are settled', async () => (await ledger(app, 'acme')).open === 0)
      const calls = index + 1
      t.strictSame(await ledger(app, 'acme'), { tokens: (10 + output) * calls, cost: (10 + 2 * output) * calls, open: 0 }, model)
    }
  }
})

t.test('a caller who leaves a model that thinks before its response is charged the whole response', async (t) => {
  const wire = await wireProvider(t, () => {})
  const { app, origin } = await open(t, agentOf('google', wire.url))
  await leaveWhen(origin, endpoints[0]!, () => wire.requests.length === 1, async () => {})
  await wire.requests[0]?.closed
  await until('the reservations are settled', async () => (await ledger(app, 'acme')).open === 0)
  t.strictSame(await ledger(app, 'acme'), { tokens: 110, cost: 210, open: 0 })
})

const maxUnsent = 262_144 // bytes
const piece = chunk('word '.repeat(2000))

/** Writes 200 MB, as fast as they are read. */
async function writeForEver (response: ServerResponse): Promise<void> {
  begin(response)
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  for (let written = 0; written < 200_000_000 && !gone.signal.aborted; written += piece.length) {
    if (!response.write(piece)) await once(response, 'drain', { signal: gone.signal }).catch(() => {})
  }
  response.end()
}

t.test("a reader that does not read is disconnected at 256 KB, and the provider's request is aborted", async (t) => {
  const wire = await wireProvider(t, writeForEver)
  let log = ''
  const logger = {
    level: 'warn',
    stream: {
      write (line: string) {
        log += line
      }
    }
  }
  const agent = agentOf('local', wire.url, {
    llm: { provider: 'local', model: 'test-model', apiKey, baseUrl: wire.url, maxOutputTokens: 100_000 }
  })
  const { app, origin } = await open(t, agent, {}, { logger })
  const { authorization = '' } = tokenOf('acme') as Record<string, string>
  for (const [index, [url, body]] of [['/llm/stream', ask('hello')], ['/agent/chat', { message: 'hello', stream: true }]].entries()) {
    const text = JSON.stringify(body)
    const socket = connect(Number(new URL(origin).port), '127.0.0.1').on('error', () => {})
    t.teardown(() => {
      socket.destroy()
    })
    socket.pause()
    socket.write(
      `POST ${
        String(url)
      } HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`
    )
    await until('the provider is called', () => wire.requests.length === index + 1)
    await wire.requests[index]?.closed
    await until('the call is settled', async () => (await ledger(app, 'acme')).open === 0)
    const lines = log.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as { msg: string, bytes: number })
    t.strictSame(
      lines.map(({ msg }) => msg),
      ['a client does not read its event stream: its connection is closed'],
      'the provider has not failed'
    )
    const { bytes = 0 } = lines[0] ?? {}
    t.ok(bytes > maxUnsent && bytes < maxUnsent + 2 * piece.length, `${bytes} bytes were unread`)
    log = ''
  }
})
