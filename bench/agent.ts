/**
 * Measures what the agent costs: a chat compared with the provider itself, many concurrent streams, search, documents, and the ledger. Run
 * `node --import tsx bench/agent.ts` after a build. It needs a system PostgreSQL with pgvector. Options:
 *   --parts TEXT       which of first-token,leaving,streams,ledger,search,ingest (default all)
 *   --pairs N          alternating calls of each side (default 300)
 *   --streams N        concurrent streams (default 500), each with 20 tokens a second
 *   --seconds N        duration of a stream in seconds (default 15)
 *   --rounds N         rounds of streams and of documents (default 3)
 *   --chunks N         chunks to search, of all tenants (default 100000)
 *   --tenants N        tenants to search (default 1000)
 *   --dimensions N     dimensions of a vector (default 384)
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { installCommand, pgvectorPrograms } from '../test/helpers/pgvector.js'
import { startPrivateServer } from '../test/helpers/postgres/private.js'
import { signToken, testSecret } from '../test/helpers/tokens.js'
import { fillLibrary, nearestTexts, textOf } from './agent/library.js'
import { type Content, startProvider } from './agent/provider.js'
import type { ReadersOrder, ReadersReport, StreamRequest } from './agent/readers.js'
import type { AgentServerSettings, LedgerReport } from './agent/server.js'
import { markdownTable, median } from './statistics.js'
import { startSubject, startWorker } from './subject.js'
import { withClient } from './tenants/data.js'

type Side = 'direct' | 'tenantry'

const { values: given } = parseArgs({
  options: {
    parts: { type: 'string', default: 'first-token,leaving,streams,ledger,search,ingest' },
    pairs: { type: 'string', default: '300' },
    streams: { type: 'string', default: '500' },
    seconds: { type: 'string', default: '15' },
    rounds: { type: 'string', default: '3' },
    chunks: { type: 'string', default: '100000' },
    tenants: { type: 'string', default: '1000' },
    dimensions: { type: 'string', default: '384' }
  }
})
const parts = given.parts.split(',')
const [pairs, streams, seconds, rounds, dimensions] = [given.pairs, given.streams, given.seconds, given.rounds, given.dimensions].map(
  Number
) as [number, number, number, number, number]
const warmUp = 20 // calls of each side
const tenantCount = 10
const tokensPerSecond = 20
const searches = 200 // searches of each tenant
const ingested = 1000 // chunks of a document
const marks = { direct: '"content":"word ', tenantry: '"type":"content"' } as const satisfies Record<Side, string>

const programs = pgvectorPrograms()
if (programs === null) throw new Error(`a PostgreSQL server with pgvector is missing: run "${installCommand}"`)
const database = await startPrivateServer({
  programs,
  settings: { shared_buffers: '1GB', work_mem: '16MB', random_page_cost: '1.1', autovacuum: 'on', timezone: 'UTC' }
})
const connectionString = `postgres://postgres:postgres@127.0.0.1:${database.port}/postgres`
const provider = await startProvider(dimensions)
const settings: AgentServerSettings = {
  connectionString,
  jwtSecret: testSecret,
  masterKey: randomBytes(32).toString('base64'),
  provider: provider.url,
  dimensions
}
const server = await startSubject('agent', settings)
const agent = new Agent({ keepAlive: true })
const rows: string[][] = []
try {
  await withClient(
    connectionString,
    (client) =>
      client.query(
        "insert into tenantry.tenants (id, name, plan) select 'tenant-' || n, n, 'open' from generate_series(0, $1::int - 1) n",
        [tenantCount]
      )
  )
  if (parts.includes('first-token')) await firstTokens()
  if (parts.includes('leaving')) await leavings()
  if (parts.includes('streams')) await manyStreams()
  if (parts.includes('ledger')) await ledgers()
  if (parts.includes('search')) await searchAll()
  if (parts.includes('ingest')) await ingest()
  console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}\n`)
  console.log(markdownTable(['figure', 'direct', 'tenantry', 'target', 'holds'], rows))
} finally {
  agent.destroy()
  await server.stop()
  provider.stop()
  await database.remove()
}

function call (side: Side, content: Content, index = 0): StreamRequest {
  const messages = [{ role: 'user', content: JSON.stringify(content) }]
  return side === 'direct'
    ? { url: `${provider.url}/chat/completions`, headers: {}, body: JSON.stringify({ model: 'chat', stream: true, messages }) }
    : { url: `${server.url}/llm/stream`, headers: headersOf(`tenant-${index % tenantCount}`), body: JSON.stringify({ messages }) }
}

function headersOf (tenant: string): Record<string, string> {
  return { authorization: `Bearer ${signToken({ sub: `user-of-${tenant}`, role: 'user', tenant_id: tenant }, { expiresIn: 86_400 })}` }
}

/** Sends the request. Resolves with the response and the time at which it was sent. */
async function open ({ url, headers, body }: StreamRequest) {
  const sent = request(url, { method: 'POST', agent, headers: { 'content-type': 'application/json', ...headers } })
  sent.on('error', () => {})
  const at = performance.now()
  sent.end(body)
  const [response] = await once(sent, 'response')
  if (response.statusCode !== 200) throw new Error(`${url}: ${response.statusCode}`)
  return { sent, response, at }
}

/** Milliseconds to the first token. */
async function firstToken (side: Side): Promise<number> {
  const { response, at } = await open(call(side, { tokens: 20, everyMs: 0 }))
  let first = Number.NaN
  for await (const part of response) if (Number.isNaN(first) && String(part).includes(marks[side])) first = performance.now() - at
  return first
}

/** Milliseconds from the reader's disconnect to the end of the provider's response. */
async function leave (side: Side): Promise<number> {
  const left = provider.left()
  const { sent, response } = await open(call(side, { tokens: 1000, everyMs: 20 }))
  await once(response, 'data')
  const at = performance.now()
  response.on('error', () => {})
  sent.destroy()
  return await left - at
}

/** Alternates the calls of both sides, and returns the extra time of the second: noise of the machine affects both. */
async function compare (
  once: (side: Side) => Promise<number>,
  count: number
): Promise<{ direct: number[], tenantry: number[], more: number }> {
  const times: Record<Side, number[]> = { direct: [], tenantry: [] }
  for (let pair = 0; pair < count + warmUp; pair++) {
    const sides: Side[] = pair % 2 === 0 ? ['direct', 'tenantry'] : ['tenantry', 'direct']
    for (const side of sides) times[side].push(await once(side))
  }
  const [direct, tenantry] = [times.direct.slice(warmUp), times.tenantry.slice(warmUp)]
  return { direct, tenantry, more: median(tenantry.map((time, index) => time - (direct[index] ?? Number.NaN))) }
}

async function firstTokens (): Promise<void> {
  const { direct, tenantry, more } = await compare(firstToken, pairs)
  rows.push([
    `time to the first token, ms: median of ${pairs}`,
    shown(median(direct)),
    `${shown(median(tenantry))} (${shown(more)} more)`,
    '≤ 5 more',
    holds(more <= 5)
  ])
}

async function leavings (): Promise<void> {
  const { direct, tenantry } = await compare(leave, Math.ceil(pairs / 3))
  const worst = Math.max(...tenantry)
  rows.push([
    "end of the provider's request after the reader disconnected, ms: median (largest)",
    `${shown(median(direct))} (${shown(Math.max(...direct))})`,
    `${shown(median(tenantry))} (${shown(worst)})`,
    '≤ 100',
    holds(worst <= 100)
  ])
}

async function manyStreams (): Promise<void> {
  const readers = startWorker<ReadersOrder, ReadersReport>('agent/readers.ts')
  try {
    const reports: Record<Side, ReadersReport[]> = { direct: [], tenantry: [] }
    for (let round = 0; round < rounds; round++) {
      for (const side of ['direct', 'tenantry'] as const) {
        const content = { tokens: seconds * tokensPerSecond, everyMs: 1000 / tokensPerSecond }
        const requests = Array.from({ length: streams }, (_, index) => call(side, content, index))
        const report = await readers.run({ requests, mark: marks[side], spreadMs: 2000 })
        if (report.tokens !== streams * content.tokens) throw new Error(`${side}: ${report.tokens} tokens`)
        reports[side].push(report)
      }
    }
    const columns = (side: Side) =>
      `${shown(median(reports[side].map(({ p50 }) => p50)))}, ${shown(median(reports[side].map(({ p99 }) => p99)))}, ${
        shown(Math.max(...reports[side].map(({ max }) => max)))
      }`
    const worst = Math.max(...reports.tenantry.map(({ p99 }) => p99))
    rows.push([
      `${streams} streams of ${tokensPerSecond} tokens a second, gap in ms: p50, p99, largest`,
      columns('direct'),
      columns('tenantry'),
      'p99 < 250',
      holds(worst < 250)
    ])
  } finally {
    await readers.stop()
  }
}

async function ledgers (): Promise<void> {
  const response = await fetch(`${server.url}/-/ledger?count=1000&tenant=tenant-0`, { method: 'POST', headers: headersOf('tenant-0') })
  const { times }: LedgerReport = JSON.parse(await response.text())
  const sorted = times.slice(100).map((time) => time / 1000).sort((left, right) => left - right)
  rows.push(['reservation and settlement of tokens and cost, ms: median', '', shown(median(sorted)), '< 1', holds(median(sorted) < 1)])
}

async function ask (path: string, tenant: string, body: object): Promise<Record<string, unknown>> {
  const sent = request(server.url + path, { method: 'POST', agent, headers: { 'content-type': 'application/json', ...headersOf(tenant) } })
  sent.end(JSON.stringify(body))
  const [response] = await once(sent, 'response')
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  if (response.statusCode >= 300) throw new Error(`${path}: ${response.statusCode} ${text}`)
  return JSON.parse(text)
}

async function searchAll (): Promise<void> {
  await withClient(connectionString, async (client) => {
    const library = await fillLibrary(client, { tenants: Number(given.tenants), chunks: Number(given.chunks), dimensions })
    const bySize = library.tenants.toSorted((one, other) => one.chunks - other.chunks)
    const [smallest, largest] = [bySize[0], bySize.at(-1)]
    const byIndex = bySize.find(({ chunks }) => chunks > 2000)
    for (const tenant of [smallest, byIndex, largest]) {
      if (tenant === undefined) continue
      const times: number[] = []
      let found = 0
      let wanted = 0
      for (let search = 0; search < searches + warmUp; search++) {
        const query = textOf(tenant.id, Math.floor(Math.random() * tenant.chunks))
        const at = performance.now()
        const { results } = await ask('/agent/embeddings/search', tenant.id, { query, limit: 10 })
        if (search < warmUp) continue
        times.push(performance.now() - at)
        const nearest = await nearestTexts(client, tenant.id, query, dimensions, 10)
        wanted += nearest.size
        found += Object(results).filter(({ content }: { content: string }) => nearest.has(content)).length
      }
      const recall = found / wanted
      rows.push([
        `search of a tenant with ${tenant.chunks} of ${given.chunks} chunks: recall@10, p50 in ms`,
        '',
        `${recall.toFixed(3)}, ${shown(median(times))}`,
        '≥ 0.95, < 20',
        holds(recall >= 0.95 && median(times) < 20)
      ])
    }
  })
}

/** A document with the given number of chunks, one per section. */
function documentOf (round: number): string {
  return Array.from(
    { length: ingested },
    (_, index) => `# Section ${index} of ${round}\n\n${'Some words of a handbook that people read. '.repeat(30)}`
  ).join('\n\n')
}

async function ingest (): Promise<void> {
  const rates: number[] = []
  for (let round = 0; round <= rounds; round++) {
    const document = documentOf(round)
    const at = performance.now()
    const { chunks } = await ask('/agent/embeddings/document', 'tenant-0', {
      id: `handbook-${round}`,
      contentType: 'text/markdown',
      document
    })
    if (chunks !== ingested) throw new Error(`${String(chunks)} chunks`)
    // The first call warms up the code.
    if (round > 0) rates.push(ingested / (performance.now() - at) * 1000)
    await sleep(500)
  }
  rows.push([
    `documents of ${ingested} chunks, chunks a second: median`,
    '',
    median(rates).toFixed(0),
    '≥ 500',
    holds(median(rates) >= 500)
  ])
}

function shown (milliseconds: number): string {
  return milliseconds.toFixed(milliseconds < 10 ? 2 : 1)
}

function holds (isSo: boolean): string {
  return isSo ? 'yes' : 'no'
}
