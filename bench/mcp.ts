/**
 * Measures what a call through /mcp costs the server, compared with the same route over HTTP, and the time of `tools/list`. `npm run
 * bench:mcp`. Options:
 *   --rounds N   rounds of each case (default 20)
 *   --size N     requests in a round, ten at a time (default 300)
 */
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { createSigner } from 'fast-jwt'
import { Pool, request } from 'undici'
import { startDatabase, tenants } from './database.js'
import { markdownTable, median } from './statistics.js'
import { startSubject, type Subject } from './subject.js'

const { values: given } = parseArgs({ options: { rounds: { type: 'string', default: '20' }, size: { type: 'string', default: '300' } } })
const rounds = Number(given.rounds)
const size = Number(given.size)
const warmUp = 3 // rounds
const atOnce = 10
const allowed = 1.3
const jwtSecret = 'a secret of the benchmark, longer than 32 characters'
const [tenant = ''] = tenants
const sign = createSigner({ key: jwtSecret, expiresIn: 3_600_000 })
const host = 'bench.example.com'
const headers = { host, authorization: `Bearer ${sign({ sub: 'bench', role: 'admin', tenant_id: tenant })}` }
const accept = 'application/json, text/event-stream'
const envelope = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {}
}

interface Message {
  readonly method: string
  readonly name?: string
  readonly params?: object
}

const database = await startDatabase()
const [id = ''] = database.ids.get(tenant) ?? []
const subject = await startSubject('mcp', { connectionString: database.connectionString, jwtSecret })
const pool = new Pool(subject.url, { connections: atOnce })

try {
  await call('/tenant/config', { routes: tenantRoutes() })
  const cold = await list()
  const cases = {
    'a greeting': { path: '/greetings/bench', name: 'greet', input: { name: 'bench' } },
    'a row by its id': { path: `/articles/${id}`, name: 'read_article', input: { id } },
    'a page of 20 rows': { path: '/articles', name: 'list_articles', input: {} }
  }
  const rows: string[][] = []
  for (const [label, { path, name, input }] of Object.entries(cases)) {
    const http = async () => await get(path)
    const modern = async () => await send({ method: 'tools/call', name, params: { name, arguments: input } })
    const legacy = async () => await send({ method: 'tools/call', params: { name, arguments: input } }, false)
    const cost = { http: Array<number>(), modern: Array<number>(), legacy: Array<number>() }
    for (let round = 0; round < rounds + warmUp; round++) {
      for (const [kind, ask] of Object.entries({ http, modern, legacy })) {
        const used = await cpuOf(subject, ask)
        if (round >= warmUp) cost[kind as keyof typeof cost].push(used)
      }
    }
    const [base, newest, older] = [median(cost.http), median(cost.modern), median(cost.legacy)]
    rows.push([
      label,
      base.toFixed(0),
      newest.toFixed(0),
      older.toFixed(0),
      (newest / base).toFixed(2),
      (older / base).toFixed(2),
      newest / base <= allowed ? 'yes' : 'no'
    ])
  }
  const warm = []
  for (let index = 0; index < 200; index++) warm.push(await list())
  console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, microseconds of CPU of the server a request\n`)
  console.log(markdownTable(['Route', 'HTTP', '/mcp, 2026-07-28', '/mcp, older', 'ratio', 'older', `at most ${allowed}`], rows))
  console.log(`\ntools/list of 500 tools, a page, with the way over HTTP: ${cold.toFixed(1)} ms cold, ${median(warm).toFixed(2)} ms warm`)
} finally {
  await pool.close()
  await subject.stop()
  await database.stop()
}

/** Microseconds of the server's CPU for each request. */
async function cpuOf (server: Subject, ask: () => Promise<void>): Promise<number> {
  const before = await server.usage()
  let left = size
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (left-- > 0) await ask()
  }))
  return ((await server.usage()).cpu - before.cpu) / size
}

async function get (path: string): Promise<void> {
  const { statusCode, body } = await pool.request({ method: 'GET', path, headers })
  const text = await body.text()
  if (statusCode !== 200) throw new Error(text)
}

async function send ({ method, name, params = {} }: Message, isModern = true): Promise<void> {
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: '/mcp',
    headers: {
      ...headers,
      accept,
      'content-type': 'application/json',
      ...isModern && { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...name !== undefined && { 'mcp-name': name } }
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, ...isModern && { _meta: envelope } } })
  })
  const text = await body.text()
  if (statusCode !== 200 || text.includes('"error"') || text.includes('"isError":true')) throw new Error(text.slice(0, 1000))
}

/** Milliseconds. */
async function list (): Promise<number> {
  const begun = performance.now()
  await send({ method: 'tools/list' })
  return performance.now() - begun
}

async function call (path: string, body: object): Promise<void> {
  const response = await request(subject.url + path, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body)
  })
  const text = await response.body.text()
  if (response.statusCode !== 200) throw new Error(text.slice(0, 1000))
}

function tenantRoutes (): object[] {
  return Array.from({ length: 250 }, (_, index) => ({
    path: `/tenant${index}/:id`,
    method: 'get',
    requireAuth: true,
    mcp: { name: `tenant_${index}`, description: 'Reads an article by its id.' },
    queries: [{ table: 'articles', operation: 'select', id: '{{params.id}}', single: true }]
  }))
}
