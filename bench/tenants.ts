/**
 * Measures what tenants cost: their routes compared with the platform's, secrets, thousands of tenants at once, a tenant's first request,
 * and a save. Run `node --import tsx bench/tenants.ts` after a build. Options:
 *   --seconds N        seconds of load where memory is measured (default 4)
 *   --connections N    connections of the load (default 32)
 *   --pairs N          pairs of slices of each comparison (default 200)
 *   --parts TEXT       which of routes,secrets,many,cold,save (default all)
 *   --lists N          different column lists in the tenants' routes (default 13699, so that few routes share a statement)
 *   --tenants LIST     numbers of visited tenants (default 1000,10000)
 */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { testSecret } from '../test/helpers/tokens.js'
import type { BenchRequest } from './cases.js'
import { startDatabase } from './database.js'
import { compareSlices, markdownTable, median } from './statistics.js'
import { startLoad, startSlices, startSubject, type Subject } from './subject.js'
import { insertArticles, insertTenants, tenantId, withClient } from './tenants/data.js'
import { measured, measuredRoutes, routePath, routesOfTenant, secretRoutes } from './tenants/document.js'
import type { HandWrittenSettings } from './tenants/hand-written/server.js'
import type { ProcessReport, TenantsSettings } from './tenants/server.js'
import { headersOf, visits } from './tenants/visits.js'

const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '4' },
    connections: { type: 'string', default: '32' },
    lists: { type: 'string', default: '13699' },
    pairs: { type: 'string', default: '200' },
    parts: { type: 'string', default: 'routes,secrets,many,cold,save' },
    tenants: { type: 'string', default: '1000,10000' }
  }
})
const [seconds = 4, connections = 32] = [options.seconds, options.connections].map(Number)
const parts = options.parts.split(',')
const lists = Number(options.lists)
const counts = options.tenants.split(',').map(Number)
const most = Math.max(...counts)

/** Tenants beyond the visited ones, for the other parts. */
const [ownTenant, coldStart] = [most, most + 1]
const coldTenants = 300
const sliceSize = 1000 // requests
const largeTenants = 20 // of 500 routes each

const database = await startDatabase()
const load = startLoad()
const slices = startSlices()
const { connectionString } = database
const settings: TenantsSettings = {
  connectionString,
  jwtSecret: testSecret,
  masterKey: randomBytes(32).toString('base64'),
  maxLoadedTenants: most + 1000
}
const subjects: Subject[] = []
try {
  const server = await startServer()
  console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, ${connections} connections\n`)
  await insertTenants(connectionString, coldStart + coldTenants, (index) => ({ routes: routesOfTenant(index, 10, lists) }))
  await insertTenants(connectionString, coldStart + coldTenants + largeTenants, (index) => ({ routes: routesOfTenant(index, 500, lists) }))
  await insertArticles(connectionString, most + 1, 5)
  if (parts.includes('routes')) await compareRoutes(server)
  if (parts.includes('secrets')) await compareSecrets(server)
  if (parts.includes('cold')) await coldRequests()
  if (parts.includes('save')) await saves(server)
  if (parts.includes('many')) await manyTenants(server)
} finally {
  for (const process of [...subjects, load, slices]) await process.stop()
  await database.stop()
}

async function startServer (more: Partial<TenantsSettings> = {}): Promise<Subject> {
  const given: TenantsSettings = { ...settings, ...more }
  const subject = await startSubject('tenants', given)
  subjects.push(subject)
  return subject
}

async function stopServer (server: Subject): Promise<void> {
  subjects.splice(subjects.indexOf(server), 1)
  await server.stop()
}

async function report ({ url }: Subject, collect = false): Promise<ProcessReport> {
  const response = await fetch(`${url}/-/process${collect ? '?gc=1' : ''}`)
  return JSON.parse(await response.text())
}

/** Sends a request as an administrator of the tenant. Throws unless it succeeds. */
async function ask ({ url }: Subject, index: number, method: string, path: string, body?: unknown): Promise<string> {
  const response = await fetch(url + path, {
    method,
    headers: { ...headersOf(index), ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) })
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
  return text
}

/** Requests a second. */
async function round (server: Subject, requests: readonly BenchRequest[], time = seconds): Promise<number> {
  const result = await load.run({ url: server.url, requests, connections, seconds: time })
  if (result.errors + result.refused > 0) throw new Error(`${requests[0]?.path}: ${result.errors} errors, ${result.refused} refused`)
  return result.requestsPerSecond
}

/** Two kinds of requests to one server in alternating slices. */
async function compareVisits (
  { url }: Subject,
  name: string,
  ofOne: readonly BenchRequest[],
  requests: readonly BenchRequest[]
): Promise<[base: string, other: string, ratio: string]> {
  const result = await slices.run({
    base: { url, requests: ofOne },
    other: { url, requests },
    connections,
    pairs: Number(options.pairs),
    size: sliceSize
  })
  const { base, other, ratio } = compareSlices(result.base, result.other)
  console.error(`${name}: ${ratio}`)
  return [base, other, ratio]
}

async function compareRoutes (server: Subject): Promise<void> {
  await ask(server, ownTenant, 'POST', '/tenant/config', { routes: [...measuredRoutes('/own'), ...secretRoutes] })
  const ids = await withClient(connectionString, async (client) => {
    const { rows } = await client.query<{ id: string }>('select id::text from articles where tenant_id = $1', [tenantId(ownTenant)])
    return rows.map(({ id }) => id)
  })
  const headers = headersOf(ownTenant)
  const requestsOf: Record<keyof typeof measured, (path: string) => string[]> = {
    record: (path) => ids.map((id) => `${path}/articles/${id}`),
    list: (path) => [`${path}/articles?limit=5`],
    mapped: (path) => [`${path}/greetings/visitor`]
  }
  const rows: string[][] = []
  for (const [name, paths] of Object.entries(requestsOf)) {
    const side = (path: string) => paths(path).map((target): BenchRequest => ({ method: 'GET', path: target, headers }))
    rows.push([name, ...await compareVisits(server, name, side('/base'), side('/own')), '≥ 0.95'])
  }
  console.log(
    `A tenant's route compared with the same route of the platform.\n\n${
      markdownTable(['route', "platform's, requests/s", "tenant's, requests/s", 'ratio', 'target ratio'], rows)
    }\n`
  )
}

async function compareSecrets (server: Subject): Promise<void> {
  await ask(server, ownTenant, 'POST', '/tenant/config', { routes: [...measuredRoutes('/own'), ...secretRoutes] })
  await ask(server, ownTenant, 'POST', '/tenant/secrets', { key: 'BENCH_KEY', value: 'a value of the benchmark' })
  const headers = headersOf(ownTenant)
  const side = (path: string): BenchRequest[] => [{ method: 'GET', path, headers }]
  const row = await compareVisits(server, 'reads a secret', side('/own/without-secret'), side('/own/with-secret'))
  console.log(
    `A request that uses a secret compared with one that does not.\n\n${
      markdownTable(['request', 'without, requests/s', 'with, requests/s', 'ratio', 'target ratio'], [['reads a secret', ...row, '≥ 0.95']])
    }\n`
  )
}

async function manyTenants (server: Subject): Promise<void> {
  const head = [
    'tenants',
    'visited',
    'one tenant, requests/s',
    'these, requests/s',
    'ratio',
    'target ratio',
    'heap MB',
    'resident MB',
    "PostgreSQL's connections MB"
  ]
  const rows: string[][] = []
  const memory = async (subject: Subject) => {
    const { heap, rss } = await report(subject, true)
    return [megabytes(heap), megabytes(rss), megabytes(await backendMemory())]
  }
  await round(server, visits(10, 'evenly', 'one'), 2)
  rows.push(['1', '', '', '', '', '', ...await memory(server)])
  for (const count of counts) {
    for (const law of ['evenly', "by Zipf's law"] as const) {
      const [requests, ofOne] = [visits(count, law), visits(count, law, 'one')]
      for (const visited of [requests, ofOne]) await visitAll(server, visited)
      const figures = await compareVisits(server, `${count} tenants ${law}`, ofOne, requests)
      rows.push([String(count), law, ...figures, '≥ 0.9', ...await memory(server)])
    }
  }
  console.log(`Tenants with 10 routes each, all loaded (maxLoadedTenants ${settings.maxLoadedTenants}).\n\n${markdownTable(head, rows)}\n`)
  await manyTenantsByHand()

  const small = await startServer({ maxLoadedTenants: 100 })
  const bounded: string[][] = []
  await round(small, visits(10, 'evenly', 'one'), 2)
  bounded.push(['1', '', '', ...await memory(small)])
  for (const count of counts) {
    const requests = visits(count, 'evenly')
    await visitAll(small, requests)
    const requestsPerSecond = await round(small, requests)
    bounded.push([String(count), 'evenly', Math.round(requestsPerSecond).toString(), ...await memory(small)])
  }
  await stopServer(small)
  console.log(
    `The same with 100 loaded tenants: that bounds the memory, and every request compiles a tenant's routes again.\n\n${
      markdownTable(['tenants', 'visited', 'requests/s', ...head.slice(-3)], bounded)
    }\n`
  )
}

/** The share of the database and the tokens: the cost for a server with hard-coded routes. */
async function manyTenantsByHand (): Promise<void> {
  const given: HandWrittenSettings = { ...settings, lists }
  const server = await startSubject('tenants/hand-written', given)
  subjects.push(server)
  const rows: string[][] = []
  for (const count of counts) {
    for (const law of ['evenly', "by Zipf's law"] as const) {
      const [requests, ofOne] = [visits(count, law), visits(count, law, 'one')]
      for (const visited of [requests, ofOne]) await visitAll(server, visited)
      rows.push([String(count), law, ...await compareVisits(server, `${count} tenants ${law}, by hand`, ofOne, requests)])
    }
  }
  await stopServer(server)
  console.log(
    `The same routes in a hand-written server.\n\n${markdownTable(['tenants', 'visited', 'one tenant, requests/s', 'these, requests/s', 'ratio'], rows)}\n`
  )
}

/** Sends each request once, to warm up. */
async function visitAll ({ url }: Subject, requests: readonly BenchRequest[]): Promise<void> {
  const waiting = [...requests]
  await Promise.all(Array.from({ length: 16 }, async () => {
    for (let request = waiting.pop(); request !== undefined; request = waiting.pop()) {
      const response = await fetch(url + request.path, { headers: request.headers })
      await response.arrayBuffer()
      if (!response.ok) throw new Error(`${request.path}: ${response.status}`)
    }
  }))
}

async function coldRequests (): Promise<void> {
  const server = await startServer()
  await ask(server, ownTenant, 'GET', '/base/greetings/x')
  const measure = async (start: number, count: number): Promise<number[]> => {
    const times: number[] = []
    for (let index = start; index < start + count; index++) {
      const headers = headersOf(index)
      const begin = performance.now()
      const response = await fetch(server.url + routePath(index, index % 10), { headers })
      await response.arrayBuffer()
      times.push(performance.now() - begin)
      if (!response.ok) throw new Error(`a cold request: ${response.status}`)
    }
    return times.sort((left, right) => left - right)
  }
  const row = (
    name: string,
    times: readonly number[],
    asked: string
  ) => [name, median(times).toFixed(2), (times[Math.floor(times.length * 0.99)] ?? Number.NaN).toFixed(2), asked]
  // The first requests warm up the code.
  await measure(coldStart, 20)
  const rows = [
    row('10 routes', await measure(coldStart + 20, coldTenants - 20), '≤ 20'),
    row('500 routes', await measure(coldStart + coldTenants, largeTenants), '')
  ]
  await stopServer(server)
  console.log(`The first request of a tenant.\n\n${markdownTable(['tenant of', 'median ms', '99 % ms', 'target'], rows)}\n`)
}

async function saves (server: Subject): Promise<void> {
  const rows: string[][] = []
  for (const count of [100, 500]) {
    const blocks: number[] = []
    const times: number[] = []
    for (let round = 0; round < 12; round++) {
      const body = { routes: routesOfTenant(ownTenant + round, count, lists) }
      await report(server, true)
      await report(server)
      const begin = performance.now()
      await ask(server, ownTenant, 'POST', '/tenant/config', body)
      times.push(performance.now() - begin)
      blocks.push((await report(server)).longestBlock)
    }
    // The first two warm up the code.
    rows.push([
      String(count),
      median(times.slice(2)).toFixed(1),
      median(blocks.slice(2)).toFixed(1),
      Math.max(...blocks).toFixed(1),
      count === 100 ? '≤ 50' : ''
    ])
  }
  console.log(
    `Saves of a document, and the time for which they block the event loop.\n\n${
      markdownTable(['routes', 'save, median ms', 'longest block, median ms', 'longest of all ms', 'target'], rows)
    }\n`
  )
}

/** Memory of the PostgreSQL connections' processes, in bytes; NaN if the system does not report it. */
async function backendMemory (): Promise<number> {
  const pids = await withClient(connectionString, async (client) => {
    const { rows } = await client.query<{ pid: number }>(
      "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
    )
    return rows.map(({ pid }) => pid)
  })
  const held = await Promise.all(pids.map(async (pid) => {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
    return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) * 1024
  }))
  return held.reduce((sum, bytes) => sum + bytes, 0)
}

function megabytes (bytes: number): string {
  return Math.round(bytes / 1024 / 1024).toString()
}
