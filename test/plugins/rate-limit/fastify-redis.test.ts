import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { testApp } from '../../helpers/app.js'
import { startRedis, type TestRedis } from '../../helpers/redis.js'
import { until } from '../../helpers/until.js'

async function appOn (t: Test, { url }: TestRedis): Promise<{ app: FastifyInstance, lines: string[] }> {
  const lines: string[] = []
  const { app } = await testApp(t, {
    plugins: { 'rate-limit': { enabled: true, redis: { url } } },
    onLog (line) {
      if (line.includes('Redis')) lines.push(line)
    },
    routes: countedRoutes
  })
  return { app, lines }
}

function countedRoutes (app: FastifyInstance): void {
  const keyGenerator = ({ headers }: { headers: Record<string, unknown> }) => String(headers['x-key'] ?? 'all')
  app.get('/a', { config: { rateLimit: { max: 3, timeWindow: '1 minute', keyGenerator } } }, async () => ({}))
  app.get('/again', { config: { rateLimit: { max: 1, timeWindow: '1 minute', continueExceeding: true } } }, async () => ({}))
  app.get('/double', { config: { rateLimit: { max: 1, timeWindow: '1 minute', exponentialBackoff: true } } }, async () => ({}))
  const [first, second] = [app.createRateLimit({ max: 9, timeWindow: 60_000 }), app.createRateLimit({ max: 9, timeWindow: 60_000 })]
  app.get('/first', async (request) => first(request))
  app.get('/second', async (request) => second(request))
  app.get('/look', async (request) => first(request, { increment: false }))
}

async function statuses (app: FastifyInstance, count: number, url = '/a'): Promise<number[]> {
  const all: number[] = []
  for (let index = 0; index < count; index++) all.push((await app.inject(url)).statusCode)
  return all
}

t.test('config.rateLimit and createRateLimit count together over all instances', async (t) => {
  const redis = await startRedis(t)
  const [one, other] = [await appOn(t, redis), await appOn(t, redis)]
  t.same([...await statuses(one.app, 2), ...await statuses(other.app, 2)], [200, 200, 200, 429])
  const responses = await Promise.all(Array.from({ length: 20 }, (_, index) => {
    return (index % 2 === 0 ? one : other).app.inject({ url: '/a', headers: { 'x-key': 'at once' } })
  }))
  t.equal(responses.filter(({ statusCode }) => statusCode === 200).length, 3)

  await one.app.inject('/first')
  t.equal((await other.app.inject('/first')).json().remaining, 7)
  t.equal((await other.app.inject('/second')).json().remaining, 8, 'another limiter with the same options')
  t.match((await other.app.inject('/look')).json(), { remaining: 7, ttlInSeconds: /^(60|59)$/ })
  t.equal((await one.app.inject('/look')).json().remaining, 7, 'a peek counts nothing')
})

t.test('windows in Redis end, and grow as the options say', async (t) => {
  const redis = await startRedis(t)
  const { app } = await appOn(t, redis)
  const age = async () => {
    for (const key of await keysOf(redis)) await redis.command('pexpire', key, 30_000)
  }
  const reset = async (url: string) => Number((await app.inject(url)).headers['x-ratelimit-reset'])
  await app.inject('/a')
  await age()
  t.ok(await reset('/a') <= 30, 'the window continues')
  await app.inject('/again')
  await age()
  t.ok(await reset('/again') > 30, 'it starts again')
  await app.inject('/double')
  t.same([await reset('/double'), await reset('/double'), await reset('/double')], [60, 120, 240])
  for (let count = 0; count < 60; count++) await app.inject('/double')
  t.equal((await app.inject('/double')).statusCode, 429, 'however often')
  for (const key of await keysOf(redis)) await redis.command('persist', key)
  t.ok(await reset('/a') > 0)
  const left = await Promise.all((await keysOf(redis)).map((key) => redis.command('pttl', key)))
  t.ok(left.some((ms) => Number(ms) > 0), 'a key without an expiry gets one')
})

t.test("a caller's long key takes little space", async (t) => {
  const redis = await startRedis(t)
  const { app } = await appOn(t, redis)
  for (const end of ['a', 'b']) await app.inject({ url: '/a', headers: { 'x-key': 'x'.repeat(10_000) + end } })
  const keys = await keysOf(redis)
  t.equal(keys.length, 2)
  for (const key of keys) t.ok(key.startsWith('tenantry:rl:r:') && key.length < 150, key)
})

t.test('during an outage of Redis each instance counts separately, and no request fails', async (t) => {
  const redis = await startRedis(t)
  const { app, lines } = await appOn(t, redis)
  t.same(await statuses(app, 2), [200, 200])
  await redis.stop()
  await until('the loss is noticed', () => lines.some((line) => line.includes('Redis cannot be used')))
  t.same(await statuses(app, 4), [200, 200, 200, 429])
  t.equal((await app.inject('/first')).json().remaining, 8)
  t.equal((await app.inject('/look')).json().remaining, 8)
  await redis.start()
  await until('Redis is used again', () => lines.some((line) => line.includes('Redis is back')))
  t.same(await statuses(app, 4), [200, 200, 200, 429])
  t.equal((await keysOf(redis)).length, 1)
})

async function keysOf (redis: TestRedis): Promise<string[]> {
  const keys = await redis.command('keys', '*')
  if (!Array.isArray(keys)) throw new Error('no list of keys')
  return keys.map(String)
}
