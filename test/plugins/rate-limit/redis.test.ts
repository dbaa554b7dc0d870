import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import t from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { openRedis } from '../../../lib/redis/redis.js'
import type { RateLimitPluginOptions } from '../../../plugins/rate-limit/index.js'
import { createMemoryStore } from '../../../plugins/rate-limit/memory.js'
import { createRedisStore } from '../../../plugins/rate-limit/redis.js'
import { createLimit } from '../../../plugins/rate-limit/rules.js'
import type { RateLimitStore } from '../../../plugins/rate-limit/store.js'
import { testApp } from '../../helpers/app.js'
import type { TestRedis } from '../../helpers/redis.js'
import { startRedis } from '../../helpers/redis.js'
import { until } from '../../helpers/until.js'
import { conformance, take } from './conformance.js'

const silent = () => ({ info () {}, warn () {} })
const minute = createLimit({ max: 1000, windowMs: 60_000 }, 'GET /a')
const plan = createLimit({ max: 1000, windowMs: 60_000 }, 'plan')
const minuteKey = 'tenantry:rl:t:acme:GET /a'

/** A store on its own connection, like another instance's. */
async function storeOn (t: Test, { url }: TestRedis): Promise<RateLimitStore> {
  const connection = await openRedis(url, silent())
  t.teardown(() => connection.close())
  return createRedisStore(connection, createMemoryStore())
}

async function appOn (t: Test, redis: TestRedis, options: RateLimitPluginOptions): Promise<{ app: FastifyInstance, lines: string[] }> {
  const lines: string[] = []
  const { app } = await testApp(t, {
    plugins: { conventions: {}, 'rate-limit': { enabled: true, ...options, redis: { url: redis.url } } },
    onLog (line) {
      if (line.includes('Redis')) lines.push(line)
    },
    routes (app) {
      app.get('/a', { config: { access: 'open' } }, async () => ({}))
      app.get('/fails', { config: { access: 'open' } }, async (_request, reply) => reply.code(404).send({}))
    }
  })
  return { app, lines }
}

async function statuses (app: FastifyInstance, count: number, url = '/a'): Promise<number[]> {
  const all: number[] = []
  for (let index = 0; index < count; index++) all.push((await app.inject(url)).statusCode)
  return all
}

async function countOf (redis: TestRedis, key: string): Promise<number> {
  return Number(String(await redis.command('get', key)).split(' ')[0])
}

t.test('the Redis store fulfills the contract and uses its keys', async (t) => {
  const redis = await startRedis(t)
  await conformance(t, async (t) => {
    await redis.command('flushall')
    return storeOn(t, redis)
  })

  await t.test('instances share their counts', async (t) => {
    await redis.command('flushall')
    const [one, other] = [await storeOn(t, redis), await storeOn(t, redis)]
    const first = await take(one, 'tenant', 'acme', minute, plan)
    t.match(await take(other, 'tenant', 'acme', minute, plan), { count: 2, secondCount: 2, resetAt: first.resetAt })
    await other.refund('tenant', 'acme', minute, first.resetAt)
    t.match(await take(one, 'tenant', 'acme', minute, plan), { count: 2, secondCount: 3 })
  })

  await t.test('all counts of a request are one command', async (t) => {
    const store = await storeOn(t, redis)
    await take(store, 'tenant', 'acme', minute, plan)
    await redis.command('config', 'resetstat')
    for (let count = 0; count < 10; count++) await take(store, 'tenant', 'acme', minute, plan)
    const calls = new Map(
      String(await redis.command('info', 'commandstats')).split('\r\n').map((line) => {
        const [, name, count] = /^cmdstat_([\w|]+):calls=(\d+)/.exec(line) ?? []
        return [name, Number(count)]
      })
    )
    t.equal(calls.get('evalsha'), 10)
    t.equal(calls.get('eval'), undefined)
  })

  await t.test('keys start with the tenant or the address, and expire with their windows', async (t) => {
    await redis.command('flushall')
    const store = await storeOn(t, redis)
    const long = createLimit({ max: 1, windowMs: 30_000 }, `GET /${'x'.repeat(2000)}`)
    await take(store, 'tenant', 'acme', minute, plan)
    await take(store, 'tenant', 'acme', long)
    await take(store, 'address', '10.0.0.1', minute)
    await take(store, 'tenant', 'acme', createLimit({ max: 1, windowMs: 30_000 }, 'GET /o', { owner: tenantRef('acme') }))
    await take(store, 'address', '10.0.0.1', createLimit({ max: 1, windowMs: 30_000 }, 'GET /o', { owner: tenantRef('acme') }))
    const keys = await redis.command('keys', '*')
    if (!Array.isArray(keys)) throw new Error('no list of keys')
    t.same(keys.map((key) => String(key).replace(/#.*/, '#')).sort(), [
      'tenantry:rl:a:10.0.0.1:GET /a',
      'tenantry:rl:o:acme:young',
      'tenantry:rl:t:acme:GET /a',
      `tenantry:rl:t:acme:GET /${'x'.repeat(35)}#`,
      'tenantry:rl:t:acme:plan'
    ])
    for (const key of keys) {
      const left = Number(await redis.command('pttl', String(key)))
      const window = /:plan$|:GET \/a$/.test(String(key)) ? 60_000 : 30_000
      t.ok(left > 0 && left <= window && String(key).length < 150, `${key}: ${left} ms`)
    }
  })

  await t.test("windows of a tenant's own document are bounded, however many routes, versions and addresses there are", async (t) => {
    await redis.command('flushall')
    const store = await storeOn(t, redis)
    const own = (bucket: string, owner = 'acme', max = 5) => createLimit({ max, windowMs: 86_400_000 }, bucket, { owner: tenantRef(owner) })
    const windows = async (owner: string) => {
      const [young, old] = await Promise.all(
        ['young', 'old'].map(async (age) => Number(await redis.command('hlen', `tenantry:rl:o:${owner}:${age}`)))
      )
      return { young, old }
    }
    await take(store, 'tenant', 'globex', own('GET /kept', 'globex'))
    await take(store, 'tenant', 'acme', own('GET /refused', 'acme', 1))
    for (let version = 0; version < 15; version++) {
      await Promise.all(
        Array.from({ length: 200 }, (_, route) => take(store, 'address', `10.0.0.${route}`, own(`GET /v${version}/${route}`)))
      )
      t.match(await take(store, 'tenant', 'acme', own('GET /used', 'acme', 100)), { count: version + 1 }, 'a used one stays')
      t.match(
        await take(store, 'tenant', 'acme', own('GET /refused', 'acme', 1)),
        { admitted: false, count: 1 },
        'so does one that rejects'
      )
    }
    const { young = 0, old = 0 } = await windows('acme')
    t.ok(young <= 1000 && old === 1000, `${young} and ${old} of 3000`)
    t.equal(await redis.command('dbsize'), 3)
    t.match(await take(store, 'tenant', 'globex', own('GET /kept', 'globex')), { count: 2 }, 'another tenant loses nothing')
    const last = await take(store, 'address', '10.0.0.1', own('GET /v14/1'))
    t.match(last, { count: 2 })
    t.match(await take(store, 'address', '10.0.0.1', own('GET /v0/1')), { count: 1 }, 'the oldest is evicted')
    t.ok(Number(await redis.command('pttl', 'tenantry:rl:o:acme:old')) <= 86_400_000)

    const aged = own('GET /v8/199')
    const taken = await take(store, 'address', '10.0.0.199', aged)
    await Promise.all(Array.from({ length: 1000 }, (_, count) => take(store, 'address', '10.0.1.1', own(`GET /other/${count}`))))
    await store.refund('address', '10.0.0.199', aged, taken.resetAt)
    t.match(await take(store, 'address', '10.0.0.199', aged), { count: taken.count }, 'an aged one is refunded too')

    await take(store, 'tenant', 'brief', createLimit({ max: 5, windowMs: 60_000 }, 'GET /o', { owner: tenantRef('brief') }))
    await take(store, 'tenant', 'brief', createLimit({ max: 5, windowMs: 1000 }, 'GET /p', { owner: tenantRef('brief') }))
    const left = Number(await redis.command('pttl', 'tenantry:rl:o:brief:young'))
    t.ok(left > 1000 && left <= 60_000, `it lives as long as its longest window: ${left} ms`)
  })

  await t.test('a count that would outlive its window, or never expire, is a new window', async (t) => {
    const store = await storeOn(t, redis)
    for (const stale of [`999 ${Date.now() + 3_600_000}`, '999', 'of another version']) {
      await redis.command('set', minuteKey, stale)
      const taken = await take(store, 'tenant', 'acme', minute)
      t.match(taken, { count: 1, resetAt: taken.now + 60_000 })
      t.ok(Number(await redis.command('pttl', minuteKey)) <= 60_000)
    }
  })

  await t.test('a script that Redis has forgotten is sent again', async (t) => {
    const store = await storeOn(t, redis)
    await redis.command('flushall')
    await redis.command('script', 'flush')
    t.match(await take(store, 'tenant', 'acme', minute), { count: 1 })
  })

  await t.test('responses that a rule skips are refunded', async (t) => {
    await redis.command('flushall')
    const { app } = await appOn(t, redis, { default: { max: 1, windowMs: 60_000, skipSuccessfulRequests: true } })
    const key = 'tenantry:rl:a:127.0.0.1:'
    for (let count = 0; count < 3; count++) {
      t.same(await statuses(app, 1), [200])
      await until('it is given back', async () => await countOf(redis, key) === 0)
    }
    t.ok(Number(await redis.command('pttl', key)) > 0, 'its window ends as before')
    t.same(await statuses(app, 2, '/fails'), [404, 429])
    t.same(await statuses(app, 1), [429])
  })

  await t.test('of 200 concurrent requests to two instances exactly the limit is admitted', async (t) => {
    await redis.command('flushall')
    const options = { default: { max: 70, windowMs: 60_000, message: 'Busy', statusCode: 420 } }
    const apps = [await appOn(t, redis, options), await appOn(t, redis, options)]
    const responses = await Promise.all(Array.from({ length: 200 }, (_, index) => apps[index % 2]!.app.inject('/a')))
    t.equal(responses.filter(({ statusCode }) => statusCode === 200).length, 70)
    t.equal(responses.filter(({ statusCode }) => statusCode === 420).length, 130)
    t.same(new Set(responses.map(({ headers }) => headers['x-ratelimit-limit'])), new Set(['70']))
    t.equal(new Set(responses.map(({ headers }) => headers['x-ratelimit-reset'])).size, 1, 'one window, one end')
    const remaining = responses.filter(({ statusCode }) => statusCode === 200).map(({ headers }) => Number(headers['x-ratelimit-remaining']))
      .sort((one, other) => one - other)
    t.same(remaining, Array.from({ length: 70 }, (_, index) => index), 'each got a different remainder')
    const refused = responses.find(({ statusCode }) => statusCode === 420)
    t.match(refused?.json(), { message: 'Busy', retryAfter: Number(refused?.headers['retry-after']) })
  })
})

t.test('during an outage of Redis each instance limits separately', async (t) => {
  const redis = await startRedis(t)
  const { app, lines } = await appOn(t, redis, { default: { max: 3, windowMs: 60_000 } })
  const logged = (text: RegExp) => lines.filter((line) => text.test(line)).length
  t.same(await statuses(app, 2), [200, 200])
  await redis.stop()
  await until('the loss is noticed', () => logged(/Redis cannot be used/) === 1)
  t.same(await statuses(app, 5), [200, 200, 200, 429, 429], 'a separate count')
  t.equal(logged(/Redis cannot be used/), 1, 'logged once')
  await redis.start()
  await until('Redis is used again', () => logged(/Redis is back/) === 1)
  t.same(await statuses(app, 4), [200, 200, 200, 429], 'Redis has forgotten')
  t.equal(await countOf(redis, 'tenantry:rl:a:127.0.0.1:'), 3)
  t.equal(lines.length, 2, lines.join(''))
})

t.test("when Redis hangs, waiting requests get a response, and none exceeds the instance's limit", async (t) => {
  const redis = await startRedis(t)
  const { app, lines } = await appOn(t, redis, { default: { max: 3, windowMs: 60_000 } })
  t.same(await statuses(app, 1), [200])
  redis.pause()
  const responses = await Promise.all(Array.from({ length: 20 }, () => app.inject('/a')))
  t.equal(responses.filter(({ statusCode }) => statusCode === 200).length, 3)
  t.equal(responses.filter(({ statusCode }) => statusCode === 429).length, 17)
  t.same(responses.filter(({ statusCode }) => statusCode === 200).map(({ headers }) => headers['x-ratelimit-remaining']).sort(), [
    '0',
    '1',
    '2'
  ])
  redis.resume()
  await until('Redis is used again', () => lines.some((line) => line.includes('Redis is back')))
  await redis.command('flushall')
  t.same(await statuses(app, 4), [200, 200, 200, 429])
  t.equal(await countOf(redis, 'tenantry:rl:a:127.0.0.1:'), 3, 'in Redis')
  t.equal(lines.length, 2, lines.join(''))
})

t.test('the server starts without Redis, and limits', async (t) => {
  const redis = await startRedis(t)
  await redis.stop()
  const { app, lines } = await appOn(t, redis, { default: { max: 1, windowMs: 60_000 } })
  t.same(await statuses(app, 2), [200, 429])
  t.match(lines.join(''), /Redis cannot be used/)
})
