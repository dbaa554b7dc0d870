import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import { failure } from '../../lib/errors.js'
import { version } from '../../lib/version.js'
import health from '../../plugins/health.js'

/** An app with a database whose pings the test answers. */
function createApp (ping: (timeoutMs: number) => Promise<void>, clock: { now: number }): FastifyInstance {
  const app = Fastify()
  app.decorate('engine', Object.assign(JSON.parse('{}'), { ping }))
  app.register(health, { now: () => clock.now })
  return app
}

t.test('the plugin stands alone, and tells version and uptime', async (t) => {
  const app = Fastify()
  app.register(health)
  const response = await app.inject('/health')
  t.equal(response.statusCode, 200)
  t.equal(response.headers['cache-control'], 'no-store')
  t.match(response.json(), { status: 'ok', uptime: Number, checks: {} })
  t.equal(response.json().version, version)
  t.match(version, /^\d+\.\d+\.\d+/)
})

t.test('a lost database is 503 and degraded, and its return is seen within a second', async (t) => {
  const clock = { now: 0 }
  let reachable = true
  const app = createApp(async () => { if (!reachable) throw failure('databaseUnavailable') }, clock)
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

t.test('a flood of probes is one ping a second', async (t) => {
  const clock = { now: 0 }
  const pings: number[] = []
  const app = createApp(async (timeoutMs) => { pings.push(timeoutMs) }, clock)
  await Promise.all(Array.from({ length: 50 }, () => app.inject('/health')))
  clock.now += 999
  await app.inject('/health')
  t.same(pings, [1000])
  clock.now += 1
  await app.inject('/health')
  t.same(pings, [1000, 1000])
})
