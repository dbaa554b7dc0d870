/**
 * Measures what identity costs: requests that need a permission with the platform's roles on and off, failed logins and forgotten passwords
 * of known and unknown users, and logins a second. Run `node --import tsx bench/identity.ts` after a build. Options:
 *   --seconds N        seconds of logins (default 4)
 *   --connections N    connections of the load (default 32)
 *   --pairs N          pairs of slices that compare roles (default 300)
 *   --tries N          failed logins of each kind (default 200)
 *   --parts TEXT       which of roles,time,forgot,logins (default all)
 */
import { randomBytes, randomInt } from 'node:crypto'
import { createServer } from 'node:http'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { signToken, testSecret } from '../test/helpers/tokens.js'
import type { BenchRequest } from './cases.js'
import { startDatabase, tenants } from './database.js'
import { permission } from './identity/document.js'
import type { BenchUser, DelayReport, IdentitySettings } from './identity/server.js'
import { compareSlices, markdownTable, median } from './statistics.js'
import { startLoad, startSlices, startSubject, type Subject } from './subject.js'
import { withClient } from './tenants/data.js'

const { values: given } = parseArgs({
  options: {
    seconds: { type: 'string', default: '4' },
    connections: { type: 'string', default: '32' },
    pairs: { type: 'string', default: '300' },
    tries: { type: 'string', default: '200' },
    parts: { type: 'string', default: 'roles,time,forgot,logins' }
  }
})
const parts = given.parts.split(',')
const tries = Number(given.tries)
const triesOfUser = 4 // fewer than would lock an account
const sliceSize = 1000 // requests; some tens of milliseconds without the database
const warmUp = 10 // warm-up logins of each kind
const password = randomBytes(12).toString('base64url')
let addresses = 0

const database = await startDatabase()
const load = startLoad()
const slices = startSlices()
const options = { pairs: Number(given.pairs), seconds: Number(given.seconds), connections: Number(given.connections) }
const masterKey = randomBytes(32).toString('base64')
const subjects: Subject[] = []
const mails = createServer((request, response) => {
  request.resume().on('end', () => response.writeHead(202).end())
})
const mailOrigin = await new Promise<string>((resolve) =>
  mails.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${Object(mails.address()).port}`))
)
try {
  console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, ${options.connections} connections\n`)
  const off = await startServer(false)
  await withClient(database.connectionString, async (client) => {
    await client.query("insert into tenantry.tenants (id, name, plan) select id, id, 'enterprise' from unnest($1::text[]) as id", [tenants])
  })
  if (parts.includes('roles')) await compareRoles(off)
  if (parts.includes('time')) await compareTimes(off)
  if (parts.includes('forgot')) await compareForgot(off)
  if (parts.includes('logins')) await countLogins(off)
} finally {
  for (const process of [...subjects, load, slices]) await process.stop()
  mails.close()
  mails.closeAllConnections()
  await database.stop()
}

async function startServer (rbac: boolean): Promise<Subject> {
  const settings: IdentitySettings = { connectionString: database.connectionString, jwtSecret: testSecret, masterKey, mailOrigin, rbac }
  const subject = await startSubject('identity', settings)
  subjects.push(subject)
  return subject
}

/**
 * The permission is in the token, or comes from a role that the platform assigned. A token with the permission takes the same path with
 * roles on and off. Roles are thus compared with it within one process: two processes of one program differ by a few percent, which the
 * first row of each route shows.
 */
async function compareRoles (off: Subject): Promise<void> {
  const on = await startServer(true)
  await giveRole(on)
  const rows: string[][] = []
  const own = { permissions: [permission] }
  for (const [name, pathsOf] of [['no database', greetings], ['one row', articles]] as const) {
    for (const [source, claims] of [['the token', own], ['a role', {}]] as const) {
      const order = {
        base: { url: (claims === own ? off : on).url, requests: requestsOf(pathsOf, own) },
        other: { url: on.url, requests: requestsOf(pathsOf, claims) }
      }
      const comparison = await slices.run({ ...order, connections: options.connections, pairs: options.pairs, size: sliceSize })
      const { base, other, ratio } = compareSlices(comparison.base, comparison.other)
      console.error(`${name}, ${source}: ${ratio}`)
      rows.push([name, source, base, other, ratio, '≥ 0.97'])
    }
  }
  console.log(
    `A request that needs a permission, with the platform's roles on, compared with one whose token has it, on a server without roles and on this one.\n\n${
      markdownTable(['route', 'source of the permission', 'compared, requests/s', 'this, requests/s', 'ratio', 'target ratio'], rows)
    }\n`
  )
}

async function giveRole (server: Subject): Promise<void> {
  const headers = { authorization: `Bearer ${signToken({ sub: 'root', role: 'admin' })}` }
  await post(server, '/rbac/permissions', { name: permission }, headers)
  const { id } = await post(server, '/rbac/roles', { name: 'reader', permissions: [permission] }, headers)
  for (const tenant of tenants) {
    await post(server, '/rbac/assign', { userId: userOf(tenant), roleId: id }, { ...headers, 'x-tenant-id': tenant })
  }
}

function userOf (tenant: string): string {
  return `user-of-${tenant}`
}

function requestsOf (pathsOf: (tenant: string) => readonly string[], claims: object): BenchRequest[] {
  return tenants.flatMap((tenant) => {
    const headers = { authorization: `Bearer ${signToken({ sub: userOf(tenant), tenant_id: tenant, ...claims }, { expiresIn: 86_400 })}` }
    return pathsOf(tenant).map((path): BenchRequest => ({ method: 'GET', path, headers }))
  })
}

function greetings (): readonly string[] {
  return Array.from({ length: 10 }, (_, index) => `/greetings/visitor-${index}`)
}

function articles (tenant: string): readonly string[] {
  return (database.ids.get(tenant) ?? []).slice(0, 50).map((id) => `/articles/${id}`)
}

/** Alternates failed logins of both kinds, one at a time, each from its own address. */
async function compareTimes (server: Subject): Promise<void> {
  const count = Math.ceil((tries + warmUp) / triesOfUser)
  // The same length, so that only the user differs.
  const [known, unknown] = ['known', 'never'].map((name) => users(count, name))
  if (known === undefined || unknown === undefined) throw new Error('two kinds of users')
  await post(server, '/-/users', known)
  const times: Record<'known' | 'unknown', number[]> = { known: [], unknown: [] }
  for (let index = 0; index < tries + warmUp; index++) {
    const kinds = [['known', known], ['unknown', unknown]] as const
    for (const [kind, list] of index % 2 === 0 ? kinds : [...kinds].reverse()) {
      const user = list[Math.floor(index / triesOfUser)]
      if (user === undefined) throw new Error('more attempts than users')
      const { method, path, headers, body } = login({ ...user, password: 'not the password' })
      const start = performance.now()
      const response = await fetch(server.url + path, { method, headers, body: body ?? null })
      await response.arrayBuffer()
      const time = performance.now() - start
      if (response.status !== 401) throw new Error(`a failed login: ${response.status}`)
      if (index >= warmUp) times[kind].push(time)
    }
  }
  const [knownTime, unknownTime] = [median(times.known), median(times.unknown)]
  const rows = [[String(tries), knownTime.toFixed(2), unknownTime.toFixed(2), (unknownTime / knownTime).toFixed(3), '0.9 to 1.1']]
  console.log(
    `Failed logins in turn; medians.\n\n${markdownTable(['attempts of each', 'known user, ms', 'unknown user, ms', 'ratio', 'target ratio'], rows)}\n`
  )
}

/**
 * Requests for known and unknown addresses in random order, each address once: the mail of one request is sent during the next requests, so
 * both kinds must be affected alike. Compares the difference with the variation of differences.
 */
async function compareForgot (server: Subject): Promise<void> {
  const count = tries + warmUp
  const [known, unknown] = ['known', 'never'].map((name) => users(count, `forgot-${name}`))
  if (known === undefined || unknown === undefined) throw new Error('two kinds of users')
  await post(server, '/-/users', known)
  const times: Record<'known' | 'unknown', number[]> = { known: [], unknown: [] }
  const requests = [
    ...known.map((user) => ({ kind: 'known' as const, user })),
    ...unknown.map((user) => ({ kind: 'unknown' as const, user }))
  ]
  for (let index = 0; requests.length > 0; index++) {
    const [request] = requests.splice(randomInt(requests.length), 1)
    if (request === undefined) throw new Error('no request')
    const { kind, user: { tenant, email } } = request
    const start = performance.now()
    const response = await fetch(`${server.url}/auth/password/forgot`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-tenant-id': tenant, 'x-forwarded-for': nextAddress() },
      body: JSON.stringify({ email })
    })
    await response.arrayBuffer()
    const time = performance.now() - start
    if (response.status !== 202) throw new Error(`a forgotten password: ${response.status}`)
    if (index >= 2 * warmUp) times[kind].push(time)
  }
  const differences = times.unknown.slice(0, tries).map((time, index) => time - (times.known[index] ?? time)).sort((left, right) =>
    left - right
  )
  const at = (share: number): number => differences[Math.floor((differences.length - 1) * share)] ?? NaN
  // The standard error of a median, from the quartiles.
  const noise = 1.253 * (at(0.75) - at(0.25)) / 1.349 / Math.sqrt(differences.length)
  const rows = [[
    String(tries),
    median(times.known).toFixed(2),
    median(times.unknown).toFixed(2),
    median(differences).toFixed(3),
    noise.toFixed(3),
    `within ±${(2 * noise).toFixed(3)}`
  ]]
  console.log(
    `Forgotten passwords in random order; medians.\n\n${
      markdownTable(['pairs', 'known address, ms', 'unknown address, ms', 'difference of a pair, ms', 'its standard error, ms', 'target difference'], rows)
    }\n`
  )
}

/** As many logins as possible, of users of all tenants, and the delay of the event loop meanwhile. */
async function countLogins (server: Subject): Promise<void> {
  const list = users(tenants.length * 4, 'login')
  await post(server, '/-/users', list)
  const rows: string[][] = []
  for (const connections of [1, options.connections]) {
    // More than fit into the time.
    const requests = Array.from({ length: 2000 }, (_, index) => login(list[index % list.length] ?? raise('no users')))
    await delayOf(server)
    const result = await load.run({ url: server.url, requests, connections, seconds: options.seconds })
    const { p50, p99, max } = await delayOf(server)
    rows.push([
      String(connections),
      result.requestsPerSecond.toFixed(1),
      result.p50.toFixed(0),
      result.p99.toFixed(0),
      String(result.refused + result.errors),
      p50.toFixed(1),
      p99.toFixed(1),
      max.toFixed(1)
    ])
  }
  console.log(
    `Logins with the right password; the delay of the event loop, sampled each millisecond.\n\n${
      markdownTable(['connections', 'logins/s', 'p50, ms', 'p99, ms', 'refused', 'delay p50, ms', 'p99, ms', 'longest, ms'], rows)
    }\n`
  )
}

function users (count: number, name: string): BenchUser[] {
  return Array.from(
    { length: count },
    (_, index) => ({ tenant: tenants[index % tenants.length] ?? '', email: `${name}-${index}@example.com`, password })
  )
}

function login ({ tenant, email, password }: BenchUser): BenchRequest {
  return {
    method: 'POST',
    path: '/auth/login',
    headers: { 'content-type': 'application/json', 'x-tenant-id': tenant, 'x-forwarded-for': nextAddress() },
    body: JSON.stringify({ email, password })
  }
}

/** A different address of an unassigned network each time. */
function nextAddress (): string {
  const index = addresses++
  return `10.${index >> 16 & 255}.${index >> 8 & 255}.${index & 255}`
}

async function delayOf ({ url }: Subject): Promise<DelayReport> {
  const response = await fetch(`${url}/-/delay`)
  return JSON.parse(await response.text())
}

async function post (
  { url }: Subject,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {}
): Promise<Record<string, unknown>> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body)
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`)
  return JSON.parse(text)
}

function raise (message: string): never {
  throw new Error(message)
}
