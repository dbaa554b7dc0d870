import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import Fastify, { type FastifyInstance, type InjectOptions } from 'fastify'
import { Counter } from 'prom-client'
import t, { type Test } from 'tap'
import metrics, { type MetricsOptions } from '../../../plugins/metrics/index.js'
import { until } from '../../helpers/until.js'
import { requestsIn, samplesOf, valueOf } from './exposition.js'

/** Fastify with only the plugin and a few routes, one of which waits until it is released. */
async function open (t: Test, options: MetricsOptions = {}) {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(metrics, { routes: false, ...options })
  let held = 0
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  app.get<{ Querystring: { status?: string } }>(
    '/things/:id',
    async ({ query: { status = '200' } }, reply) => await reply.code(Number(status)).send({ ok: true })
  )
  app.route({
    method: ['GET', 'POST'],
    url: '/slow',
    handler: async () => {
      held++
      await released
      return { ok: true }
    }
  })
  app.get('/streamed', (_request, reply) =>
    reply.send(
      new ReadableStream({
        start: (controller) => {
          controller.enqueue('begun')
        }
      })
    ))
  app.get('/refused', {
    onRequest: async () => {
      throw Object.assign(new Error('no'), { statusCode: 403 })
    }
  }, async () => 'never')
  return { app, release, held: () => held }
}

const scrape = async (t: Test, app: FastifyInstance) => samplesOf(t, await app.metrics.metrics())

/** light-my-request accepts any method; its types list only the old ones. */
async function ask (app: FastifyInstance, method: string, url: string): Promise<number> {
  const options: InjectOptions = { url }
  return (await app.inject(Object.assign(options, { method }))).statusCode
}

async function counted (t: Test, app: FastifyInstance, expected: string[]): Promise<void> {
  await until('all are counted', async () => requestsIn(await scrape(t, app)).length >= expected.length)
  t.strictSame(requestsIn(await scrape(t, app)).sort(), expected)
}

t.test('requests are counted by route pattern, method and status', async (t) => {
  const { app } = await open(t)
  for (const url of ['/things/1', '/things/2?x=y', '/things/3?status=503', '/refused', '/nowhere', '/nowhere/else']) {
    await ask(app, 'GET', url)
  }
  await ask(app, 'HEAD', '/things/1')
  await ask(app, 'POST', '/things/1')
  await counted(t, app, [
    'GET (unknown) 404 2',
    'GET /refused 403 1',
    'GET /things/:id 200 2',
    'GET /things/:id 503 1',
    'HEAD /things/:id 200 1',
    'POST (unknown) 404 1'
  ])
  const samples = await scrape(t, app)
  const of = (name: string, le?: string) =>
    valueOf(samples, `http_request_duration_seconds_${name}`, {
      route: '/things/:id',
      method: 'GET',
      status_code: '200',
      ...le !== undefined && { le }
    })
  const buckets = ['0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5', '1', '2.5', '5', '10', '+Inf'].map((le) =>
    of('bucket', le) ?? NaN
  )
  t.strictSame(buckets, buckets.toSorted((left, right) => left - right), 'each bucket includes the ones before it')
  t.equal(buckets.at(-1), 2)
  const sum = of('sum') ?? NaN
  t.ok(sum > 0 && sum < 60, `${sum} s`)
  const json = (await app.metrics.getMetricsAsJSON()).find(({ name }) => name === 'http_request_duration_seconds')
  t.equal(json?.values.length, 6 * (buckets.length + 2))
  t.ok(json?.values.some(({ labels, value }) => value === 2 && labels['route'] === '(unknown)' && labels['le'] === '+Inf'))
  app.metrics.resetMetrics()
  t.strictSame(requestsIn(await scrape(t, app)), [], 'an app may reset its metrics')
})

t.test('callers cannot create series by paths or methods', async (t) => {
  const { app } = await open(t)
  for (let index = 0; index < 50; index++) {
    await ask(app, 'GET', `/things/${index}%22%7D%0A${'x'.repeat(50)}`)
    await ask(app, 'GET', `/${index}"}\n`)
    await ask(app, 'GET', `/things/1?status=200&a${index}`)
  }
  for (const method of ['PROPFIND', 'SUBSCRIBE', 'MKCOL', 'PURGE', 'TRACE']) t.equal(await ask(app, method, '/things/1'), 404)
  await counted(t, app, ['GET (unknown) 404 50', 'GET /things/:id 200 100', 'TRACE (unknown) 404 1', '_OTHER (unknown) 404 4'])
})

t.test('a request whose caller disconnects is counted once, at any stage', async (t) => {
  const { app, release, held } = await open(t)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const begin = async (text: string) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(text)
    return socket
  }
  const post = 'POST /slow HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n'
  // Before the response: its body was read completely, it has none, or it has not arrived completely.
  const waiting = await Promise.all([`${post}content-length: 2\r\n\r\n{}`, 'GET /slow HTTP/1.1\r\nhost: test\r\n\r\n'].map(begin))
  await until('two are waiting', () => held() === 2)
  const half = await begin(`${post}content-length: 20\r\n\r\n{}`)
  const streamed = await begin('GET /streamed HTTP/1.1\r\nhost: test\r\n\r\n')
  await once(streamed, 'data')
  for (const socket of [...waiting, half, streamed]) socket.destroy()
  await until('disconnected ones are counted', async () => requestsIn(await scrape(t, app)).length === 3)
  release()
  await ask(app, 'GET', '/slow')
  await counted(t, app, ['GET /slow 200 1', 'GET /slow 499 1', 'GET /streamed 200 1', 'POST /slow 499 2'])
})

t.test('each app has its own metrics, even two apps of one process', async (t) => {
  const [{ app: first }, { app: second }] = [await open(t), await open(t)]
  const jobs = new Counter({ name: 'own_orders_total', help: 'Orders "of" a\nshop.', labelNames: ['kind'], registers: [first.metrics] })
  jobs.inc({ kind: 'a "b"\\\n' }, 3)
  await ask(first, 'GET', '/things/1')
  await until('it is counted', async () => requestsIn(await scrape(t, first)).length === 1)
  t.equal(valueOf(await scrape(t, first), 'own_orders_total', { kind: 'a "b"\\\n' }), 3)
  const others = await scrape(t, second)
  t.strictSame([requestsIn(others), valueOf(others, 'own_orders_total')], [[], undefined])
  for (const name of ['process_resident_memory_bytes', 'nodejs_eventloop_lag_p99_seconds']) t.not(valueOf(others, name), undefined, name)
  t.equal(valueOf(others, 'tenantry_info', { engine: 'none' }), undefined, "an app's labels are known when it is ready")
  first.metrics.resetMetrics()
  await ask(first, 'GET', '/things/1')
  await counted(t, first, ['GET /things/:id 200 1'])
})

t.test('options and dependencies are validated at start', async (t) => {
  for (const maxTenants of [0, -1, 1.5, NaN, 1001]) {
    await t.rejects(async () => await Fastify().register(metrics, { routes: false, maxTenants }), { message: /maxTenants/ })
  }
  await t.rejects(async () => await Fastify().register(metrics, { routes: false, perTenant: true }).ready(), {
    message: /plugins\/tenancy/
  })
  await t.rejects(async () => await Fastify().register(metrics), { message: /plugins\/auth/ })
})
