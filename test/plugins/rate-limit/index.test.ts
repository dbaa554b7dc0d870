import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import type { RateLimitPluginOptions } from '../../../plugins/rate-limit/index.js'
import { createMemoryStore } from '../../../plugins/rate-limit/memory.js'
import { createLimit } from '../../../plugins/rate-limit/rules.js'
import type { RateLimitStore } from '../../../plugins/rate-limit/store.js'
import { testApp } from '../../helpers/app.js'
import { bearer } from '../../helpers/tokens.js'
import { sharedEngine } from '../tenancy/shared-engine.js'

const start = 1_800_000_000_500 // ms
const [acme, globex] = [bearer({ tenant_id: 'acme' }), bearer({ tenant_id: 'globex' })]

const withDatabase = await sharedEngine(t, ['acme', 'globex'])

interface Clock {
  now: number
}

interface Setup {
  readonly clock?: Clock
  readonly trustHeader?: boolean
  readonly prepare?: (app: FastifyInstance) => unknown
}

async function createApp (
  t: Test,
  options: RateLimitPluginOptions,
  { clock = { now: start }, trustHeader = false, prepare = () => {} }: Setup = {}
): Promise<FastifyInstance> {
  const { app } = await testApp(t, {
    plugins: { conventions: {}, tenancy: { trustHeader }, 'rate-limit': { enabled: true, now: () => clock.now, ...options } },
    server: { trustProxy: true },
    before: withDatabase,
    routes (app) {
      prepare(app)
      app.get('/a', { config: { access: 'open' } }, async () => ({}))
      app.get('/b', { config: { access: 'open' } }, async () => ({}))
      app.post('/b', { config: { access: 'open' }, schema: { body: { type: 'object', required: ['x'] } } }, async () => ({}))
      app.get('/own', { config: { access: 'open', rateLimitRule: { max: 1, windowMs: 60_000, message: 'Slowly' } } }, async () => ({}))
      app.get('/own/:id', { config: { access: 'open', rateLimitRule: { max: 1, windowMs: 60_000 } } }, async () => ({}))
      app.get('/free', { config: { access: 'open', rateLimitRule: false } }, async () => ({}))
      app.get('/fails', { config: { access: 'open' } }, async (_request, reply) => reply.code(404).send({}))
      app.get('/theirs', async () => ({}))
    }
  })
  return app
}

function get (app: FastifyInstance, url: string, headers: Record<string, string> = {}): Promise<LightMyRequestResponse> {
  return app.inject({ url, headers })
}

async function statuses (app: FastifyInstance, url: string, count: number, headers: Record<string, string> = {}): Promise<number[]> {
  const all: number[] = []
  for (let index = 0; index < count; index++) all.push((await get(app, url, headers)).statusCode)
  return all
}

t.test('a flood gets a refusal for each request', async (t) => {
  const app = await createApp(t, { default: { max: 1, windowMs: 60_000 } })
  const flood = await Promise.all(Array.from({ length: 130 }, () => get(app, '/a', acme)))
  t.same(flood.map(({ statusCode }) => statusCode), [200, ...new Array<number>(129).fill(429)])
  t.match(flood.at(-1)?.headers, { 'x-ratelimit-remaining': 0, 'retry-after': '60' })
  t.equal((await get(app, '/a', globex)).statusCode, 200)
})

t.test('responses show the limit, and the next one is 429 with Retry-After', async (t) => {
  const clock = { now: start }
  const app = await createApp(t, { default: { max: 2, windowMs: 10_000 } }, { clock })
  const headersOf = ({ headers }: LightMyRequestResponse) => ['limit', 'remaining', 'reset'].map((name) => headers[`x-ratelimit-${name}`])
  t.same(headersOf(await get(app, '/a', acme)), ['2', '1', '1800000011'])
  clock.now += 4000
  t.same(headersOf(await get(app, '/a', acme)), ['2', '0', '1800000011'])
  const refused = await get(app, '/a', acme)
  t.equal(refused.statusCode, 429)
  t.same(headersOf(refused), ['2', '0', '1800000011'])
  t.equal(refused.headers['retry-after'], '6')
  t.match(refused.json(), { error: 'Too Many Requests', message: 'Rate limit exceeded', code: 'TENANTRY_RATE_LIMITED', retryAfter: 6 })
  clock.now += 6000
  t.equal((await get(app, '/a', acme)).statusCode, 200, 'a new window')
})

t.test('tenants are counted separately, and users of one tenant together', async (t) => {
  const app = await createApp(t, { default: { max: 2, windowMs: 10_000 } })
  t.same(await statuses(app, '/a', 2, acme), [200, 200])
  t.equal((await get(app, '/a', bearer({ sub: 'colleague', tenant_id: 'acme' }))).statusCode, 429)
  t.same(await statuses(app, '/a', 2, globex), [200, 200])
})

t.test("callers without a token are counted by address, and never use a tenant's limit", async (t) => {
  const app = await createApp(t, { default: { max: 2, windowMs: 10_000 } })
  const from = (address: string) => ({ 'x-forwarded-for': address, 'x-tenant-id': 'acme' })
  t.same(await statuses(app, '/a', 3, from('10.0.0.1')), [200, 200, 429])
  t.same(await statuses(app, '/a', 3, from('10.0.0.2')), [200, 200, 429])
  t.same(await statuses(app, '/a', 3, from('2001:db8::1')), [200, 200, 429])
  t.same(await statuses(app, '/a', 1, from('2001:db8::2')), [429])
  t.same(await statuses(app, '/a', 3, acme), [200, 200, 429])
})

t.test('a platform administrator who names a tenant is counted by address', async (t) => {
  const app = await createApp(t, { default: { max: 1, windowMs: 10_000 } })
  t.same(await statuses(app, '/a', 2, { ...bearer({ role: 'admin' }), 'x-tenant-id': 'acme' }), [200, 429])
  t.same(await statuses(app, '/a', 1, acme), [200])
})

t.test('behind a gateway that names the tenant, the tenant is counted', async (t) => {
  const app = await createApp(t, { default: { max: 1, windowMs: 10_000 } }, { trustHeader: true })
  t.same(await statuses(app, '/a', 2, { 'x-tenant-id': 'acme' }), [200, 429])
  t.same(await statuses(app, '/a', 2, { 'x-tenant-id': 'globex' }), [200, 429])
})

t.test("the default counts all routes together; a route's own rule and an endpoint's rule count separately", async (t) => {
  const app = await createApp(t, {
    default: { max: 2, windowMs: 10_000 },
    perEndpoint: { 'GET /b': { max: 1 }, '/own': { max: 100 } }
  })
  t.same(await statuses(app, '/a', 1, acme), [200])
  t.same(await statuses(app, '/fails', 2, acme), [404, 429])
  t.same(await statuses(app, '/b', 2, acme), [200, 429], 'the endpoint')
  t.same(await statuses(app, '/own', 2, acme), [200, 429], "the route's own rule takes precedence over the endpoint's")
  t.same(await statuses(app, '/own/1', 1, acme), [200], 'another route, another count')
  t.same(await statuses(app, '/own/2', 1, acme), [429], 'the same route')
})

t.test("an endpoint's path covers every method", async (t) => {
  const app = await createApp(t, { perEndpoint: { '/b': { max: 2, windowMs: 10_000 } } })
  t.same(await statuses(app, '/b', 2, acme), [200, 200])
  t.equal((await app.inject({ method: 'POST', url: '/b', headers: acme, payload: {} })).statusCode, 429)
})

t.test('HEAD counts as GET', async (t) => {
  const app = await createApp(t, {})
  t.equal((await app.inject({ method: 'HEAD', url: '/own', headers: acme })).statusCode, 200)
  t.same(await statuses(app, '/own', 1, acme), [429])
})

t.test('the rejection has the message and the status of its rule', async (t) => {
  const app = await createApp(t, { default: { max: 1, windowMs: 1000, statusCode: 503, message: 'Busy' } })
  await statuses(app, '/a', 1)
  const refused = await get(app, '/a')
  t.equal(refused.statusCode, 503)
  t.match(refused.json(), { error: 'Service Unavailable', message: 'Busy', retryAfter: 1 })
  await statuses(app, '/own', 1)
  t.equal((await get(app, '/own')).json().message, 'Slowly')
})

t.test('a rejection with a status of 500 or more filled the log', async (t) => {
  const lines: string[] = []
  const { app } = await testApp(t, {
    plugins: { conventions: {}, 'rate-limit': { enabled: true, default: { max: 1, windowMs: 1000 } } },
    onLog: (line) => lines.push(line),
    routes: (app) => app.get('/busy', { config: { rateLimitRule: { max: 1, windowMs: 60_000, statusCode: 503 } } }, async () => ({}))
  })
  t.same(await statuses(app, '/busy', 2), [200, 503])
  t.notMatch(lines.join(''), /"level":50/)
})

t.test('responses that a rule skips do not count', async (t) => {
  const successful = await createApp(t, { default: { max: 1, windowMs: 10_000, skipSuccessfulRequests: true } })
  t.same(await statuses(successful, '/a', 3, acme), [200, 200, 200])
  t.same(await statuses(successful, '/fails', 2, acme), [404, 429])
  const failed = await createApp(t, { default: { max: 1, windowMs: 10_000, skipFailedRequests: true } })
  t.same(await statuses(failed, '/fails', 3, acme), [404, 404, 404])
  t.same(await statuses(failed, '/a', 2, acme), [200, 429])
})

t.test('a request is rejected after its token is checked, and before its body is', async (t) => {
  const app = await createApp(t, { default: { max: 1, windowMs: 10_000 } })
  const send = () => app.inject({ method: 'POST', url: '/b', headers: acme, payload: {} })
  t.equal((await send()).statusCode, 400)
  t.equal((await send()).statusCode, 429)
  t.equal((await get(app, '/a', { authorization: 'Bearer x' })).statusCode, 401)
})

t.test('without a rule, or with rateLimitRule: false, a route is not limited', async (t) => {
  const app = await createApp(t, { enabled: false, default: { max: 1, windowMs: 10_000 } })
  t.same(await statuses(app, '/a', 3, acme), [200, 200, 200])
  t.equal((await get(app, '/a', acme)).headers['x-ratelimit-limit'], undefined)
  t.same(await statuses(app, '/own', 2, acme), [200, 429], "a route's own rule applies")
  const on = await createApp(t, { default: { max: 1, windowMs: 10_000 } })
  t.same(await statuses(on, '/free', 3, acme), [200, 200, 200])
  t.same(await statuses(on, '/theirs', 3, acme), [200, 200, 200], "an embedder's route")
})

t.test('without a default in the document the limit per address is 100 a minute', async (t) => {
  const response = await get(await createApp(t, {}), '/a')
  t.equal(response.headers['x-ratelimit-limit'], '100')
  t.equal(response.headers['x-ratelimit-reset'], String(1_800_000_000 + 61))
})

t.test('a request that fails before the limit shows it, and counts for its address', async (t) => {
  const app = await createApp(t, { default: { max: 3, windowMs: 10_000 } })
  const remaining = async (headers: Record<string, string>) => (await get(app, '/a', headers)).headers['x-ratelimit-remaining']
  t.equal(await remaining({ authorization: 'Bearer x' }), '2')
  t.equal(await remaining({ ...acme, 'x-tenant-id': 'globex' }), '1', 'the named tenant is not verified yet')
  t.equal(await remaining({}), '0')
  t.same(await statuses(app, '/a', 1), [429])
  t.same(await statuses(app, '/a', 1, { authorization: 'Bearer x' }), [401], 'its response stays')
  t.same(await statuses(app, '/a', 1, acme), [200], 'a tenant is counted separately')
})

t.test('request.rateLimited shows whether a limit rejected the request', async (t) => {
  const seen: boolean[] = []
  const app = await createApp(t, { default: { max: 1, windowMs: 10_000 } }, {
    prepare: (app) =>
      app.addHook('onResponse', async (request) => {
        seen.push(request.rateLimited)
      })
  })
  await statuses(app, '/a', 2, acme)
  await statuses(app, '/a', 1, { authorization: 'Bearer x' })
  t.same(seen, [false, true, false])
})

t.test('without trustProxy callers cannot choose their counted address', async (t) => {
  const { app } = await testApp(t, {
    plugins: { 'rate-limit': { enabled: true, default: { max: 1, windowMs: 60_000 } } },
    routes: (app) => app.get('/', { config: { access: 'open' } }, async () => ({}))
  })
  t.same(await statuses(app, '/', 1, { 'x-forwarded-for': '10.0.0.1' }), [200])
  t.same(await statuses(app, '/', 1, { 'x-forwarded-for': '10.0.0.2' }), [429])
})

t.test('no spelling, method or header reaches a route beyond its limit', async (t) => {
  const app = await createApp(t, { default: { max: 100, windowMs: 60_000 } })
  t.equal((await get(app, '/own')).statusCode, 200)
  for (const url of ['/own?x=1', '/own?', '/%6fwn', '/o%77n?y', '/own#a', 'http://other.example/own']) {
    t.equal((await get(app, url)).statusCode, 429, url)
  }
  t.equal((await app.inject({ method: 'HEAD', url: '/own' })).statusCode, 429, 'HEAD')
  for (const url of ['/OWN', '//own', '/./own', '/own;x', '/own%3F']) t.not((await get(app, url)).statusCode, 200, url)
  const sent = {
    forwarded: 'for=10.0.0.9',
    'x-real-ip': '10.0.0.9',
    'true-client-ip': '10.0.0.9',
    'cf-connecting-ip': '10.0.0.9',
    'x-tenant-id': 'acme',
    'x-http-method-override': 'PATCH'
  }
  for (const [name, value] of Object.entries(sent)) t.equal((await get(app, '/own', { [name]: value })).statusCode, 429, name)
  t.equal((await get(app, '/own/1')).statusCode, 200)
  for (const url of ['/own/2', '/own/%31', '/own/1?x', '/own/1/../2']) t.not((await get(app, url)).statusCode, 200, url)
})

t.test('a store outside this process is awaited', async (t) => {
  const memory = createMemoryStore()
  const remote: RateLimitStore = {
    take: async (...use) => memory.take(...use),
    refund: async (...use) => memory.refund(...use)
  }
  const app = await createApp(t, { default: { max: 1, windowMs: 10_000, skipFailedRequests: true }, store: remote })
  t.same(await statuses(app, '/a', 2, acme), [200, 429])
})

t.test('a route that is compiled later uses the same limiter', async (t) => {
  const late = createLimit({ max: 1, windowMs: 10_000 }, 'GET /late/:id')
  const app = await createApp(t, {}, {
    prepare: (app) =>
      app.get('/late/*', { config: { access: 'open', rateLimitRule: false } }, async (request, reply) => {
        await app.rateLimiter.check(request, reply, late)
        return {}
      })
  })
  t.same(await statuses(app, '/late/1', 2, acme), [200, 429])
  t.same(await statuses(app, '/late/1', 2, globex), [200, 429])
})

t.test('the plugin works alone in a bare app, and warns about an endpoint that is not a route', async (t) => {
  const lines: string[] = []
  const { app } = await testApp(t, {
    plugins: { 'rate-limit': { enabled: true, perEndpoint: { 'GET /typo': { max: 1, windowMs: 1000 } } } },
    onLog: (line) => lines.push(line),
    routes: (app) => app.get('/', { config: { rateLimitRule: { max: 1, windowMs: 60_000 } } }, async () => ({}))
  })
  t.same(await statuses(app, '/', 2), [200, 429])
  t.match(lines.join(''), /perEndpoint has \\"GET \/typo\\", which is not a limited route/)
})

t.test('an undefined member of a rule has its default', async (t) => {
  const unset: object = { max: undefined, windowMs: undefined }
  const app = await createApp(t, { default: unset, perEndpoint: { '/b': unset } })
  const headersOf = ({ statusCode, headers }: LightMyRequestResponse) => [statusCode, headers['x-ratelimit-limit'], headers['x-ratelimit-reset']]
  for (const url of ['/a', '/b']) t.same(headersOf(await get(app, url)), [200, '100', '1800000061'], url)
})
