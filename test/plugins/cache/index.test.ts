import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import type { CacheOptions } from '../../../plugins/cache/index.js'
import { createMemoryCache } from '../../../plugins/cache/memory.js'
import { testApp } from '../../helpers/app.js'
import { runProgram } from '../../helpers/program.js'
import type { TestRedis } from '../../helpers/redis.js'
import { startRedis } from '../../helpers/redis.js'
import { found } from './conformance.js'

async function appOf (t: Test, options: CacheOptions): Promise<{ app: FastifyInstance, lines: string[] }> {
  const lines: string[] = []
  const onLog = (line: string) => {
    if (JSON.parse(line).level >= 30) lines.push(line)
  }
  const { app } = await testApp(t, { plugins: { cache: { routes: false, ...options } }, onLog })
  return { app, lines }
}

t.test('the plugin works alone with each store, and applies the configured bounds', async (t) => {
  const prove = async (t: Test, options: CacheOptions) => {
    const { app } = await appOf(t, { maxSize: 2, ...options })
    for (const key of ['a', 'b', 'c']) await app.cache.set('', key, 'v', 60_000)
    t.match(await app.cache.stats(''), { items: 2 })
    t.equal(await found(app.cache.get('', 'c')), 'v')
    await app.close()
  }
  await t.test('memory', (t) => prove(t, { provider: 'memory' }))
  await t.test('redis', async (t) => prove(t, { provider: 'redis', redis: { url: (await startRedis(t)).url } }))
  await t.test('lmdb', (t) => prove(t, { provider: 'lmdb', lmdb: { dbPath: t.testdir({}) } }))
})

t.test('a disabled cache opens nothing', async (t) => {
  const { app, lines } = await appOf(t, { enabled: false, provider: 'redis', redis: { url: 'redis://127.0.0.1:1' } })
  await app.cache.clear('acme')
  t.same(lines, [])
})

t.test('invalid bounds are an error at start', async (t) => {
  for (const maxSize of [0, -1, 1.5, NaN, Infinity, 100_000_001]) {
    await t.rejects(appOf(t, { maxSize }), {
      message: new RegExp(`^the plugin "tenantry/plugins/cache": maxSize is ${maxSize}: expected `)
    })
  }
  for (const maxMemoryMB of [0, -1, NaN, Infinity, 1_048_577]) {
    await t.rejects(appOf(t, { maxMemoryMB }), {
      message: new RegExp(`^the plugin "tenantry/plugins/cache": maxMemoryMB is ${maxMemoryMB}: expected `)
    })
  }
})

t.test('a provider without its section is an error at start', async (t) => {
  for (const [provider, message] of [['redis', /cache\.redis\.url is missing/], ['lmdb', /cache\.lmdb\.dbPath is missing/]] as const) {
    await t.rejects(appOf(t, { provider }), message)
  }
})

t.test('a missing package is an error at start that names it, and other providers do not need it', async (t) => {
  const { code, output } = await runProgram(t, 'test/programs/without-peers.ts')
  t.match(output, /^redis: .*npm i ioredis@6$/m)
  t.match(output, /^lmdb: .*npm i lmdb@3$/m)
  t.match(output, /^memory: starts$/m)
  t.notMatch(output, /hunter2/)
  t.equal(code, 0)
})

t.test('a value that cannot be stored is logged once a minute, without its text', async (t) => {
  for (const options of [{ provider: 'memory' }, { provider: 'lmdb', lmdb: { dbPath: t.testdir({}) } }] as const) {
    const { app, lines } = await appOf(t, { maxMemoryMB: 0.01, ...options })
    for (let index = 0; index < 5; index++) await app.cache.set('acme', `key ${index}`, 'confidential '.repeat(10_000), 60_000)
    t.equal(lines.length, 1)
    t.match(lines[0], /a response was not cached: it is larger than the cache/)
    t.notMatch(lines[0], /confidential/)
  }
})

t.test('an unreachable Redis is logged without its password at start, and used once it is reachable', async (t) => {
  const redis: TestRedis = await startRedis(t)
  await redis.command('config', 'set', 'requirepass', 'hunter2')
  await redis.stop()
  const { app, lines } = await appOf(t, { provider: 'redis', redis: { url: `redis://:hunter2@127.0.0.1:${redis.port}` } })
  await app.cache.set('acme', 'k', 'v', 60_000)
  t.equal(await found(app.cache.get('acme', 'k')), undefined)
  t.ok(lines.length > 0)
  t.notMatch(lines.join(), /hunter2/)
})

t.test("an embedder's own store is used, and closed with the app", async (t) => {
  const own = createMemoryCache()
  let closed = 0
  const { app } = await appOf(t, {
    provider: undefined,
    store: {
      ...own,
      close () {
        closed++
      }
    }
  })
  await app.cache.set('acme', 'k', 'v', 1000)
  t.equal(await found(own.get('acme', 'k')), 'v')
  await app.close()
  t.equal(closed, 1)
})
