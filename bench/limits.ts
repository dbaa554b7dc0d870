/**
 * Measures what limits cost: usage, plan rate limits and analytics compared with the same requests without them, limits in Redis, the
 * memory that many callers leave behind, and the savings of caches. Run `node --import tsx bench/limits.ts` after a build. Options:
 *   --rounds N         rounds of each case (default 5)
 *   --seconds N        seconds of load in a round (default 4)
 *   --connections N    connections of the load (default 32)
 *   --parts TEXT       which of counting,redis,memory,caches (default all)
 *   --addresses N      different callers' addresses (default 100000)
 *   --tenants N        different callers' tenants (default 10000)
 * Parts that need Redis are skipped if it is not installed.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { signToken, testSecret } from '../test/helpers/tokens.js'
import type { BenchRequest } from './cases.js'
import { startDatabase, tenants } from './database.js'
import { compare, type CompareOptions, type Comparison, type Side, type Spread } from './limits/compare.js'
import type { Variant } from './limits/document.js'
import { startRedis } from './limits/redis.js'
import type { LimitsSettings, ProcessReport } from './limits/server.js'
import { markdownTable } from './statistics.js'
import { startLoad, startSubject, type Subject } from './subject.js'
import { tenantId, withClient } from './tenants/data.js'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '4' },
    connections: { type: 'string', default: '32' },
    parts: { type: 'string', default: 'counting,redis,memory,caches' },
    addresses: { type: 'string', default: '100000' },
    tenants: { type: 'string', default: '10000' }
  }
})
const parts = given.parts.split(',')
const callers = { addresses: Number(given.addresses), tenants: Number(given.tenants) }
const steps = 5 // into which the callers are divided
const fillTime = 60_000 // ms until a cache holds the responses

const database = await startDatabase()
const load = startLoad()
const redis = await startRedis()
const folder = await mkdtemp(join(tmpdir(), 'tenantry-bench-'))
const options: CompareOptions = {
  load,
  rounds: Number(given.rounds),
  seconds: Number(given.seconds),
  connections: Number(given.connections)
}
const masterKey = randomBytes(32).toString('base64')
const subjects: Subject[] = []
try {
  console.log(
    `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, ${options.connections} connections, ${options.rounds} rounds of ${options.seconds} s\n`
  )
  if (redis === null) console.log('redis-server is missing: the parts that need it are skipped.\n')
  const off = await startServer({ counting: false })
  await insertTenants(tenants)
  if (parts.includes('counting') || parts.includes('redis')) await compareCounting(off)
  if (parts.includes('memory')) await passCallers()
  if (parts.includes('caches')) await compareCaches()
} finally {
  for (const process of [...subjects, load]) await process.stop()
  await redis?.stop()
  await database.stop()
  await rm(folder, { recursive: true })
}

async function startServer (variant: Variant): Promise<Subject> {
  const settings: LimitsSettings = { connectionString: database.connectionString, jwtSecret: testSecret, masterKey, variant }
  const subject = await startSubject('limits', settings)
  subjects.push(subject)
  return subject
}

/** A plan whose limits are never reached. */
async function insertTenants (ids: readonly string[]): Promise<void> {
  await withClient(database.connectionString, async (client) => {
    await client.query(
      "insert into tenantry.tenants (id, name, plan) select id, id, 'enterprise' from unnest($1::text[]) as id on conflict (id) do update set plan = excluded.plan",
      [ids]
    )
    await client.query('analyze tenantry.tenants')
  })
}

/** A user of each tenant reads some of its rows, one by one. */
function oneRow (path = ''): BenchRequest[] {
  return byTenant((tenant) => (database.ids.get(tenant) ?? []).slice(0, 50).map((id) => `${path}/articles/${id}`))
}

function list (path = ''): BenchRequest[] {
  return byTenant(() => [`${path}/articles`])
}

function byTenant (pathsOf: (tenant: string) => readonly string[]): BenchRequest[] {
  return tenants.flatMap((tenant) => {
    const headers = { authorization: `Bearer ${signToken({ sub: `user-of-${tenant}`, tenant_id: tenant }, { expiresIn: 86_400 })}` }
    return pathsOf(tenant).map((path): BenchRequest => ({ method: 'GET', path, headers }))
  })
}

async function held ({ url }: Subject): Promise<ProcessReport> {
  const response = await fetch(`${url}/-/process`)
  return JSON.parse(await response.text())
}

async function compareCounting (off: Subject): Promise<void> {
  const base: Side = { server: off, requests: oneRow() }
  const rows: string[][] = []
  const measure = async (name: string, variant: Variant, asked: string): Promise<void> => {
    const server = await startServer(variant)
    const { base: without, other, ratio, cpu } = printed(name, await compare(base, { server, requests: base.requests }, options))
    const [before, after] = [await held(off), await held(server)]
    rows.push([
      name,
      rate(without),
      rate(other),
      shown(ratio),
      asked,
      shown(cpu),
      megabytes(before.heap),
      megabytes(after.heap),
      megabytes(before.rss),
      megabytes(after.rss)
    ])
  }
  if (parts.includes('counting')) await measure('usage, plan rate limit in memory, analytics', { counting: true }, '≥ 0.95')
  if (parts.includes('redis') && redis !== null) {
    await measure('the same, rate limit in Redis', { counting: true, redisUrl: redis.url }, '≥ 0.75')
  }
  console.log(
    `One row of a tenant, with a token, against the same without.\n\n${
      markdownTable(['on', 'off, requests/s', 'on, requests/s', 'ratio', 'target ratio', 'CPU a request', 'heap MB off', 'on', 'resident MB off', 'on'], rows)
    }\n`
  )
}

/** Callers that each send one request: the memory that they leave behind is bounded. */
async function passCallers (): Promise<void> {
  const server = await startServer({ counting: true })
  await insertTenants(Array.from({ length: callers.tenants }, (_, index) => tenantId(index)))
  const rows: string[][] = []
  const tell = async (label: string): Promise<void> => {
    const { heap, rss } = await held(server)
    rows.push([label, megabytes(heap), megabytes(rss)])
  }
  // The first requests warm up the code.
  await pass(server, 'addresses', callers.addresses, 1000)
  await tell('none yet')
  for (const kind of ['addresses', 'tenants'] as const) {
    const step = Math.ceil(callers[kind] / steps)
    for (let from = 0; from < callers[kind]; from += step) {
      const count = Math.min(step, callers[kind] - from)
      await pass(server, kind, from, count)
      await tell(`${from + count} ${kind}`)
    }
  }
  console.log(
    `Memory of a process after callers that each sent one request, with usage, rate limits in memory and analytics.\n\n${
      markdownTable(['passed', 'heap MB', 'resident MB'], rows)
    }\n`
  )
}

async function pass ({ url }: Subject, kind: keyof typeof callers, from: number, count: number): Promise<void> {
  const response = await fetch(`${url}/-/callers?kind=${kind}&from=${from}&count=${count}`)
  if (!response.ok) throw new Error(`${kind}: ${response.status} ${await response.text()}`)
}

async function compareCaches (): Promise<void> {
  const rows: string[][] = []
  const providers: readonly Variant[] = [
    { counting: false, cache: 'memory' },
    ...redis === null ? [] : [{ counting: false, cache: 'redis', redisUrl: redis.url } as const],
    { counting: false, cache: 'lmdb', folder }
  ]
  for (const variant of providers) {
    const server = await startServer(variant)
    for (const [name, requestsOf] of [['one row', oneRow], ['20 rows', list]] as const) {
      const requests = requestsOf('/cached')
      await fill(server, requests)
      const { base, other, ratio, cpu } = printed(
        `${variant.cache}, ${name}`,
        await compare({ server, requests: requestsOf() }, { server, requests }, options)
      )
      rows.push([variant.cache ?? '', name, rate(base), rate(other), shown(ratio), shown(cpu)])
    }
  }
  console.log(
    `Cached responses compared with those from the database.\n\n${
      markdownTable(['cache', 'response', 'computed, requests/s', 'cached, requests/s', 'ratio', 'CPU a request'], rows)
    }\n`
  )
}

/** Repeats each request until the cache answers it: then the cache is connected and holds the response. */
async function fill ({ url }: Subject, requests: readonly BenchRequest[]): Promise<void> {
  const deadline = performance.now() + fillTime
  for (const { path, headers } of requests) {
    for (let cached: string | null = null; cached !== 'HIT';) {
      const response = await fetch(url + path, { headers })
      await response.arrayBuffer()
      cached = response.headers.get('x-cache')
      if (!response.ok || performance.now() > deadline) throw new Error(`${path}: ${response.status}, ${cached}`)
    }
  }
}

function printed (name: string, comparison: Comparison): Comparison {
  console.error(`${name}: ${shown(comparison.ratio)}, CPU ${shown(comparison.cpu)}`)
  return comparison
}

function shown ({ median, low, high }: Spread): string {
  return `${median.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`
}

function rate (requestsPerSecond: number): string {
  return Math.round(requestsPerSecond).toString()
}

function megabytes (bytes: number): string {
  return (bytes / 1024 / 1024).toFixed(1)
}
