/** A database that is down, disconnects, recovers, is busy or hangs. */
import { execFile } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { type Test, test } from 'tap'
import { createServer } from '../../lib/server.js'
import { atOnce } from '../helpers/at-once.js'
import { postgresDatabase, postgresServer } from '../helpers/postgres.js'
import { startRedis } from '../helpers/redis.js'
import { listen, testDocument, testEnv, testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { until as untilTrue } from '../helpers/until.js'
import { type Ask, caller, refused, remoteCaller, type Reply } from './caller.js'
import { everyKind } from './document.js'

const pool = { max: 3, acquireTimeoutMs: 4000, statementTimeoutMs: 2000 }

function section (connectionString: string, options = pool) {
  return { provider: 'postgres', postgres: { connectionString, pool: options } } as const
}

/** Every response while the database cannot work: 503 with Retry-After. */
function unavailable (t: Test, response: Reply, code = /^TENANTRY_DATABASE_(UNAVAILABLE|BUSY)$/): void {
  t.match([response.status, response.body['code'], response.headers['retry-after']], [503, code, /^\d+$/], response.text)
}

/** Retries until the request succeeds. Returns the milliseconds that it took. */
async function recovery (ask: Ask, target: string): Promise<number> {
  const start = performance.now()
  await untilTrue(`${target} succeeds`, async () => (await ask(target)).status === 200)
  return performance.now() - start
}

/** The milliseconds, and the time of some requests, which a busy machine takes longer for. */
async function andSomeRequests (ms: number, ask: Ask, target: string): Promise<number> {
  const start = performance.now()
  for (let count = 0; count < 10; count++) await ask(target)
  return ms + performance.now() - start
}

test('a database that is down at the start is reported as such', async (t) => {
  const app = createServer(testDocument(everyKind, section('postgres://user:hidden@127.0.0.1:1/nothing')), { env: testEnv, logger: false })
  t.teardown(() => app.close())
  const error: unknown = await app.ready().then(() => undefined, (error: unknown) => error)
  t.match(error, { code: 'TENANTRY_DATABASE_UNAVAILABLE', message: /database cannot be reached/ })
  t.notMatch(String(error), /hidden/)
})

/** Finds the server's session that receives notices of changes. */
const listening = "select from pg_stat_activity where application_name = 'tenantry notices' and state = 'idle' and query ~ 'listen'"

test('a database that goes down under load', async (t) => {
  // The tests' server may lose the last rows in a crash; this one must not.
  const database = await postgresServer(t, { settings: { synchronous_commit: 'on' } })
  const app = await testServer(t, everyKind, { engine: section(database.connectionString), tenants: ['a'] })
  const ask = remoteCaller(t, await listen(app), { tenant: 'a' })
  await ask('POST /notes', { body: { title: 'before' } })
  const most = await andSomeRequests(2000, ask, 'GET /notes')

  const seen = new Map<number, number>()
  let written = 0
  const end = new AbortController()
  const ended = end.signal
  const worker = async (number: number) => {
    while (!ended.aborted) {
      for (
        const [target, request] of [['GET /notes', {}], ['POST /notes', { body: { title: 'under load' } }], ['POST /pairs', {
          body: { name: `p${number}`, title: 'pair' }
        }], ['GET /docs', {}]] as const
      ) {
        const response = await ask(target, request)
        seen.set(response.status, (seen.get(response.status) ?? 0) + 1)
        if (response.status >= 400) unavailable(t, response)
        if (target === 'POST /notes' && response.status === 201) written++
      }
    }
  }
  const until = async (status: number) => {
    const start = seen.get(status) ?? 0
    while ((seen.get(status) ?? 0) < start + 20) await wait(10)
  }
  // The result of a health check is cached for a second.
  const lost = async (): Promise<Response> => {
    for (const deadline = Date.now() + 60_000; ;) {
      const health = await fetch(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}/health`)
      if (health.status === 503 || Date.now() > deadline) return health
      await health.arrayBuffer()
      await wait(50)
    }
  }
  const workers = Array.from({ length: 6 }, (_, index) => worker(index))
  await until(200)
  for (const mode of ['kill', 'immediate', 'fast'] as const) {
    await (mode === 'kill' ? database.kill() : database.stop(mode))
    await until(503)
    const health = await lost()
    t.match([health.status, await health.json()], [503, { status: 'degraded', checks: { database: 'failed' } }], `${mode}: /health reports the outage`)
    t.match(await ask('POST /echo', { body: { text: 'x' } }), { status: 200 }, 'a route without the database is served')
    await database.start()
    t.ok(await recovery(ask, 'GET /notes') < most, `${mode}: requests succeed within 2 s of its return`)
    // With the first notices, the server forgets its tenants. It must know this tenant again before the next outage.
    while ((await database.query(listening)).length === 0) await wait(25)
    await until(201)
  }
  end.abort()
  await Promise.all(workers)
  t.strictSame([...seen.keys()].sort(), [200, 201, 503], 'only successes and 503')
  const [row] = await database.query("select count(*)::int as count from notes where title = 'under load'")
  t.ok(Number(row?.['count']) >= written, `${written} rows were acknowledged, ${String(row?.['count'])} exist`)
})

// Requests that wait for connections, locks and responses.
test('a database that blocks temporarily', (t) =>
  atOnce(t, {
    'broken connections, idle or in use, cause no failure': idle,
    'a busy database is reported as such': busy,
    'a database that stops responding does not block requests forever': silent
  }))

async function idle (t: Test): Promise<void> {
  const database = await postgresDatabase(t)
  const app = await testServer(t, everyKind, { engine: section(database.connectionString), tenants: ['a'] })
  const ask = caller(t, app, { tenant: 'a' })
  // Otherwise the first requests would all wait for one lookup of their tenant, on one connection.
  await ask('GET /notes')
  for (let round = 0; round < 5; round++) {
    const responses = Array.from(
      { length: 30 },
      (_, index) => ask(index % 2 === 0 ? 'GET /notes' : 'POST /pairs', index % 2 === 0 ? {} : { body: { name: 'x', title: 'y' } })
    )
    await database.disconnect()
    for (const response of await Promise.all(responses)) if (response.status !== 200) unavailable(t, response)
    t.match(await ask('GET /notes'), { status: 200 }, 'the next request succeeds')
  }
  const [row] = await database.query('select (select count(*) from people)::int as people, (select count(*) from notes)::int as notes')
  t.equal(row?.['people'], row?.['notes'], 'interrupted transactions left nothing')
}

async function busy (t: Test): Promise<void> {
  const database = await postgresDatabase(t)
  const app = await testServer(t, everyKind, { engine: section(database.connectionString), tenants: ['a'] })
  const ask = caller(t, app, { tenant: 'a' })
  await ask('POST /notes', { body: { title: 'x' } })
  const other = new pg.Client({ connectionString: database.connectionString })
  await other.connect()
  t.teardown(() => other.end())
  await other.query('begin; lock table notes in access exclusive mode')
  const responses = await Promise.all(Array.from({ length: 20 }, () => ask('GET /notes')))
  t.equal(responses.length, 20, 'every request gets a response, including those that wait for a connection')
  for (const response of responses) unavailable(t, response, /^TENANTRY_DATABASE_BUSY$/)
  unavailable(t, await ask('POST /pairs', { body: { name: 'left', title: 'over' } }), /^TENANTRY_DATABASE_BUSY$/)
  await other.query('rollback')
  t.match((await ask('GET /notes')).body.data, [{ title: 'x' }], 'then requests succeed as before')
  t.same((await ask('GET /people')).body.data, [], 'the transaction left nothing')
}

async function silent (t: Test): Promise<void> {
  const database = await postgresDatabase(t)
  const proxy = await createProxy(t, Number(new URL(database.connectionString).port))
  const address = new URL(database.connectionString)
  address.port = String(proxy.port)
  const app = await testServer(t, everyKind, { engine: section(String(address)), tenants: ['a'] })
  const ask = caller(t, app, { tenant: 'a' })
  t.match(await ask('GET /notes'), { status: 200 })
  const most = await andSomeRequests(2000, ask, 'GET /notes')
  proxy.freeze()
  for (
    const response of await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        ask(index % 2 === 0 ? 'GET /notes' : 'POST /pairs', index % 2 === 0 ? {} : { body: { name: 'x', title: 'y' } }))
    )
  ) unavailable(t, response)
  proxy.thaw()
  t.ok(await recovery(ask, 'GET /notes') < most, 'requests succeed within 2 s')
}

/** A proxy between server and database that can stop forwarding bytes without closing connections. */
async function createProxy (t: Test, port: number): Promise<{ port: number, freeze: () => void, thaw: () => void }> {
  const sockets = new Set<Socket>()
  let frozen = false
  const proxy = createTcpServer((near) => {
    const far = connect(port, '127.0.0.1')
    for (const [from, to] of [[near, far], [far, near]] as const) {
      sockets.add(from)
      from.on('data', (bytes) => {
        if (!frozen) to.write(bytes)
      })
      from.on('close', () => to.destroy())
      from.on('error', () => {})
    }
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => {
    proxy.close()
    for (const socket of sockets) socket.destroy()
  })
  return {
    port: (proxy.address() as AddressInfo).port,
    freeze: () => {
      frozen = true
    },
    thaw: () => {
      frozen = false
    }
  }
}

test('requests are rejected while a frozen database does not respond, and served when it continues', async (t) => {
  const database = await postgresServer(t)
  const [row] = await database.query('show data_directory')
  const postmaster = Number((await readFile(`${String(row?.['data_directory'])}/postmaster.pid`, 'utf8')).split('\n')[0])
  // Longer than the test: only the detection of the freeze can end a wait.
  const patience = { max: 3, acquireTimeoutMs: 600_000, statementTimeoutMs: 600_000 }
  const app = await testServer(t, everyKind, { engine: section(database.connectionString, patience), tenants: ['a'] })
  const ask = caller(t, app, { tenant: 'a' })
  t.equal((await ask('POST /notes', { body: { title: 'before' } })).status, 201)
  t.equal((await ask('GET /notes')).status, 200)
  // New callers of /metrics: the second needs a lookup of its tenant, the third of its key.
  const newAdmin = () => caller(t, app, { token: signToken({ role: 'admin', sub: randomUUID() }) })('GET /metrics')
  const newTenant = () =>
    caller(t, app, { token: signToken({ role: 'admin', sub: randomUUID(), tenant_id: randomUUID() }) })('GET /metrics')
  const newKey = () =>
    caller(t, app, { headers: { 'x-api-key': `tnt_${randomUUID()}_${randomBytes(32).toString('base64url')}` } })('GET /metrics')
  t.equal((await newAdmin()).status, 200)
  t.same([(await newTenant()).status, (await newKey()).status], [403, 401])
  // A caller with a new token.
  const stranger = () => caller(t, app, { token: signToken({ role: 'admin', sub: randomUUID(), tenant_id: 'a' }) })('GET /tenant/secrets')
  t.equal((await stranger()).status, 200)

  const signal = async (name: NodeJS.Signals) => {
    const children = (await promisify(execFile)('ps', ['-o', 'pid=', '--ppid', String(postmaster)]).catch(() => ({ stdout: '' }))).stdout
    for (const pid of [String(postmaster), ...children.trim().split(/\s+/)]) {
      try {
        if (pid !== '') process.kill(Number(pid), name)
      } catch (error) {
        // The session has ended since the list was made.
        if (!String(error).includes('ESRCH')) throw error
      }
    }
  }
  t.teardown(() => signal('SIGCONT'))
  await signal('SIGSTOP')
  const beforeKnown = Promise.all([newAdmin(), newTenant(), newKey()])
  const first = await Promise.all(
    Array.from(
      { length: 12 },
      (_, index) =>
        index % 3 === 0 ? stranger() : index % 3 === 1 ? ask('GET /notes') : ask('POST /pairs', { body: { name: 'x', title: 'y' } })
    )
  )
  for (const response of first) unavailable(t, response, /^TENANTRY_DATABASE_UNAVAILABLE$/)
  t.same((await beforeKnown).map(({ status }) => status), [200, 503, 503], '/metrics responds even before the server has detected the hang')
  for (const response of [await ask('GET /notes'), await stranger(), await ask('POST /notes', { body: { title: 'x' } })]) {
    unavailable(t, response, /^TENANTRY_DATABASE_UNAVAILABLE$/)
  }
  t.equal((await ask('POST /echo', { body: { text: 'x' } })).status, 200, 'a route without the database is served')
  t.equal((await app.inject('/health')).statusCode, 503)
  for (let round = 0; round < 3; round++) {
    const [metrics, ofTenant, ofKey, health] = await Promise.all([newAdmin(), newTenant(), newKey(), app.inject('/health')])
    t.match([metrics.status, metrics.text], [200, /^tenantry_database_pending_requests \d+$/m], '/metrics needs no database')
    for (const response of [ofTenant, ofKey]) unavailable(t, response, /^TENANTRY_DATABASE_UNAVAILABLE$/)
    t.equal(health.statusCode, 503, '/health responds during the hang')
  }
  await signal('SIGCONT')
  while ((await ask('GET /notes')).status !== 200) await wait(25)
  t.match((await ask('GET /notes')).body.data, [{ title: 'before' }], 'requests succeed again, without a restart')
  t.equal((await ask('POST /notes', { body: { title: 'after' } })).status, 201)
})

test('a database outage writes few bytes to the log for each rejected request', async (t) => {
  const database = await postgresServer(t)
  const lines: string[] = []
  const app = await testServer(t, everyKind, {
    engine: section(database.connectionString),
    tenants: ['a', 'b'],
    logger: {
      level: 'info',
      stream: {
        write: (line: string) => {
          lines.push(line)
        }
      }
    }
  })
  const asks = [caller(t, app, { tenant: 'a' }), caller(t, app, { tenant: 'b' })]
  for (const ask of asks) await ask('GET /notes')
  await database.stop('immediate')
  // By now, the errors of the broken connections have been logged.
  for (const ask of asks) unavailable(t, await ask('GET /notes'))
  lines.length = 0
  for (let round = 0; round < 50; round++) {
    for (
      const response of await Promise.all(Array.from({ length: 10 }, (_, index) => (asks[index % 2] ?? caller(t, app))('GET /notes')))
    ) { unavailable(t, response) }
  }
  const requests = lines.filter((line) => line.includes('"msg":"request"'))
  t.equal(requests.length, 500)
  for (const line of requests) t.match(JSON.parse(line), { status: 503, code: /^TENANTRY_DATABASE_/ }, 'the line of a request contains the reason')
  const whole = lines.filter((line) => line.includes('"stack"'))
  t.ok(whole.length < 10, `${whole.length} errors are logged in full`)
  const bytes = Buffer.byteLength(lines.join(''))
  t.ok(bytes < 200_000, `${bytes} bytes`)
  await app.close()
  const counted = lines.map((line): Record<string, unknown> => JSON.parse(line)).filter((line) => 'failures' in line)
  const count = counted.reduce((sum, line) => sum + Number(line['failures']), 0)
  t.ok(count + whole.length >= 500, `${count} errors are counted`)
})

for (const provider of ['memory', 'redis'] as const) {
  test(`a production server with its cache in ${provider}, on a database that is not migrated, recovers after the migration`, async (t) => {
    const database = await postgresDatabase(t, { empty: true })
    const cache = { enabled: true, provider, ...provider === 'redis' && { redis: { url: (await startRedis(t)).url } } }
    const document = testDocument({ ...everyKind, migrate: 'manual', cache }, section(database.connectionString))
    const app = createServer(document, { env: { ...testEnv, NODE_ENV: 'production' }, logger: false })
    t.teardown(() => app.close())
    await app.ready()
    const ask = caller(t, app, { tenant: 'a' })
    for (const target of ['GET /notes', 'GET /docs', 'POST /notes']) {
      const response = await ask(target, target.startsWith('POST') ? { body: { title: 'x' } } : {})
      refused(t, response, 503, 'MIGRATION_PENDING', target)
      t.match(response.body['message'], /tenantry migrate/)
      t.equal(response.headers['retry-after'], '1', 'the server checks again within a second')
    }
    refused(t, await ask('GET /mine'), 401, 'TOKEN_MISSING', 'access is checked first')
    // Another process migrates, like the command does.
    const migrating = createServer({ ...document, migrate: 'auto' }, { env: testEnv, logger: false })
    await migrating.ready()
    await migrating.tenants.create({ id: 'a', name: 'A' })
    await migrating.close()
    t.ok(await recovery(ask, 'GET /notes') < await andSomeRequests(5000, ask, 'GET /notes'), 'requests succeed without a restart')
    t.match(await ask('POST /notes', { body: { title: 'x' } }), { status: 201 })
  })
}
