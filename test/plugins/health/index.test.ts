import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import { failure } from '../../../lib/errors.js'
import { version } from '../../../lib/version.js'
import { createMemoryCache } from '../../../plugins/cache/memory.js'
import health from '../../../plugins/health/index.js'
import { gate } from '../../helpers/gate.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { redisSection } from '../cache/stores.js'

interface Parts {
  readonly engine?: { ping(timeoutMs: number): Promise<void> }
  readonly cache?: object
  readonly queue?: { status(): { working: boolean } }
}

/** An app with the parts that the test provides, and its clock. */
function createApp (t: Test, parts: Parts): { app: FastifyInstance, clock: { now: number } } {
  const clock = { now: 0 }
  const app = Fastify()
  for (const [name, part] of Object.entries(parts)) app.decorate(name, Object.assign(JSON.parse('{}'), part))
  app.register(health, { now: () => clock.now })
  t.teardown(() => app.close())
  return { app, clock }
}

test('the plugin works alone, and reports version and uptime', async (t) => {
  const app = Fastify()
  app.register(health)
  const response = await app.inject('/health')
  t.equal(response.statusCode, 200)
  t.equal(response.headers['cache-control'], 'no-store')
  t.match(response.json(), { status: 'ok', uptime: Number })
  t.strictSame(response.json().checks, {})
  t.equal(response.json().version, version)
  t.match(version, /^\d+\.\d+\.\d+/)
})

test('a lost database is 503 and degraded, and its return is detected within a second', async (t) => {
  let reachable = true
  const { app, clock } = createApp(t, {
    engine: {
      async ping () {
        if (!reachable) throw failure('databaseUnavailable')
      }
    }
  })
  t.match((await app.inject('/health')).json(), { status: 'ok', checks: { database: 'ok' } })
  reachable = false
  clock.now += 1000
  const lost = await app.inject('/health')
  t.equal(lost.statusCode, 503)
  t.match(lost.json(), { status: 'degraded', version, checks: { database: 'failed' } })
  reachable = true
  clock.now += 1000
  t.equal((await app.inject('/health')).statusCode, 200)
})

test('a flood of probes causes one ping a second, the first at start', async (t) => {
  const pings: number[] = []
  const { app, clock } = createApp(t, {
    engine: {
      async ping (timeoutMs) {
        pings.push(timeoutMs)
      }
    }
  })
  await app.ready()
  t.same(pings, [1000])
  await Promise.all(Array.from({ length: 50 }, () => app.inject('/health')))
  clock.now += 999
  await app.inject('/health')
  t.same(pings, [1000])
  clock.now += 1
  await Promise.all(Array.from({ length: 50 }, () => app.inject('/health')))
  t.same(pings, [1000, 1000])
})

test('while a check hangs, the last result is reported and no other check begins', async (t) => {
  let check = Promise.resolve()
  let pings = 0
  const { app, clock } = createApp(t, {
    engine: {
      ping: () => {
        pings++
        return check
      }
    }
  })
  await app.ready()
  const hanging = gate()
  check = hanging.opened
  clock.now += 1000
  for (let round = 0; round < 10; round++) {
    const response = await app.inject('/health')
    t.match([response.statusCode, response.json().checks], [200, { database: 'ok' }])
    clock.now += 10_000
  }
  t.equal(pings, 2)
  await until('it has failed after its timeout', async () => (await app.inject('/health')).statusCode === 503)
  hanging.open()
  check = Promise.resolve()
  clock.now += 1000
  t.equal((await app.inject('/health')).statusCode, 200, 'the next check runs')
})

test('a failed cache and a failed queue are degraded, and the server still serves', async (t) => {
  const cache = { ...createMemoryCache(), async ping () {} }
  let [reached, working] = [true, true]
  const { app, clock } = createApp(t, {
    cache: {
      ...cache,
      async ping () {
        if (!reached) throw new Error('away')
      }
    },
    queue: { status: () => ({ working }) }
  })
  const ask = async () => {
    clock.now += 1000
    const response = await app.inject('/health')
    return [response.statusCode, response.json().status, response.json().checks]
  }
  t.same(await ask(), [200, 'ok', { cache: 'ok', queue: 'ok' }])
  reached = false
  t.same(await ask(), [200, 'degraded', { cache: 'failed', queue: 'ok' }])
  working = false
  reached = true
  t.same(await ask(), [200, 'degraded', { cache: 'ok', queue: 'failed' }])
})

/** A proxy in front of a server. While it is frozen, no data passes in either direction; connections are accepted and stay silent. */
async function freezable (t: Test, port: number): Promise<{ readonly port: number, freeze(): void, thaw(): void }> {
  const sockets = new Set<Socket>()
  let frozen = false
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    for (const [from, to] of [[client, upstream], [upstream, client]] as const) {
      sockets.add(from)
      from.on('data', (data) => to.write(data))
      from.on('error', () => {})
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      if (frozen) from.pause()
    }
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const address = server.address() as AddressInfo
  return {
    port: address.port,
    freeze () {
      frozen = true
      for (const socket of sockets) socket.pause()
    },
    thaw () {
      frozen = false
      for (const socket of sockets) socket.resume()
    }
  }
}

test('a server whose database and cache hang', async (t) => {
  const database = await postgresDatabase(t)
  const { cache, redis } = await redisSection(t)
  const address = new URL(database.connectionString)
  const before = await freezable(t, Number(address.port))
  address.port = String(before.port)
  const key = secretText('a-key-of-the-platform-that-no-database-knows', 'API_KEY')
  const app = await testServer(t, { cache }, {
    env: { API_KEY: key },
    engine: { provider: 'postgres', postgres: { connectionString: address.href } },
    tenants: ['acme']
  })
  const checkHealth = async (headers: Record<string, string> = {}) => {
    const response = await app.inject({ url: '/health', headers })
    const { status, checks } = response.json()
    return [response.statusCode, status, checks]
  }
  t.same(await checkHealth(), [200, 'ok', { database: 'ok', cache: 'ok', queue: 'ok' }])

  await t.test('the hang is detected within seconds, and responses take under 50 ms meanwhile', async (t) => {
    before.freeze()
    redis.pause()
    const times: number[][] = []
    // An anonymous caller, a new token, and an unknown tenant: nothing of them is looked up.
    const callers: Record<string, string>[] = [
      {},
      { authorization: `Bearer ${signToken({ tenant_id: 'acme' })}` },
      { 'x-tenant-id': 'unheard' },
      { 'x-api-key': 'tnt_acme_unheard-unheard-unheard' },
      { 'x-api-key': key, 'x-tenant-id': 'acme' }
    ]
    await until('everything is reported', async () => {
      let isReported = true
      for (const [index, caller] of callers.entries()) {
        const start = performance.now()
        const [status, , { database, cache }] = await checkHealth(caller)
        ;(times[index] ??= []).push(performance.now() - start)
        isReported &&= status === 503 && database === 'failed' && cache === 'failed'
      }
      return isReported
    })
    // A busy machine delays some requests, and a lookup would delay all of a caller's.
    for (const [index, each] of times.entries()) {
      t.ok(
        Math.min(...each) < 50,
        `caller ${index}: ${each.length} requests, the fastest ${Math.min(...each)} ms, the slowest ${Math.max(...each)} ms`
      )
    }
  })

  await t.test('administrators see all details', async (t) => {
    const response = await app.inject({ url: '/system/info', headers: { 'x-api-key': key } })
    t.match([response.statusCode, response.json()], [200, {
      engine: { kind: 'postgres', version: null },
      instances: null,
      cache: { provider: 'redis' }
    }])
    const many = await Promise.all(
      Array.from({ length: 50 }, async () => (await app.inject({ url: '/system/info', headers: { 'x-api-key': key } })).json())
    )
    t.ok(
      many.every(({ database }) => database.waiting < 20),
      `${Math.max(...many.map(({ database }) => database.waiting))} statements wait: none is added`
    )
  })

  await t.test('the recovery is detected', async () => {
    before.thaw()
    redis.resume()
    await until(
      'all checks pass',
      async () => JSON.stringify(await checkHealth()) === JSON.stringify([200, 'ok', { database: 'ok', cache: 'ok', queue: 'ok' }])
    )
  })
})
