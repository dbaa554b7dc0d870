import type { RateLimitOptions } from '@fastify/rate-limit'
import fastifyRateLimit from '@fastify/rate-limit'
import Fastify, { type FastifyInstance, type LightMyRequestResponse } from 'fastify'
import t from 'tap'
import { createServer } from '../../../lib/index.js'
import auth from '../../../plugins/auth/index.js'
import conventions from '../../../plugins/conventions/index.js'
import rateLimit, { type RateLimitPluginOptions } from '../../../plugins/rate-limit/index.js'
import { postgresSection } from '../../helpers/postgres.js'
import { testDocument, testEnv } from '../../helpers/server.js'
import { bearer, testSecret } from '../../helpers/tokens.js'

const start = 1_800_000_000_500 // ms

interface Clock {
  now: number
}

/** An app with the plugin, and the routes that `add` registers. */
async function createApp (
  options: RateLimitPluginOptions,
  add: (app: FastifyInstance) => void,
  clock: Clock = { now: start }
): Promise<FastifyInstance> {
  const app = Fastify({ trustProxy: true })
  await app.register(rateLimit, { now: () => clock.now, ...options })
  add(app)
  return app
}

function route (url: string, options: RateLimitOptions, config: object = {}) {
  return (app: FastifyInstance) => {
    app.get(url, { config: { ...config, rateLimit: options } }, async () => ({}))
  }
}

async function statuses (app: FastifyInstance, url: string, count: number, headers: Record<string, string> = {}): Promise<number[]> {
  const all: number[] = []
  for (let index = 0; index < count; index++) all.push((await app.inject({ url, headers })).statusCode)
  return all
}

const shown = ({ headers }: LightMyRequestResponse) =>
  ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'retry-after'].map((name) => headers[name])

t.test('config.rateLimit responds like @fastify/rate-limit alone', async (t) => {
  const rules: Record<string, RateLimitOptions> = {
    '/max': { max: 2, timeWindow: '1 minute' },
    '/milliseconds': { max: 1, timeWindow: 30_000 },
    '/key': { max: 1, timeWindow: '1 minute', keyGenerator: (request) => String(request.headers['x-key']) },
    '/async': { max: async () => 1, timeWindow: async () => 60_000, keyGenerator: async () => 7 },
    '/allowed': { max: 1, allowList: ['127.0.0.1'] },
    '/banned': { max: 1, ban: 1 },
    '/body': { max: 1, errorResponseBuilder: (_request, { statusCode, after, max }) => ({ statusCode, slow: after, max }) },
    '/error': { max: 1, errorResponseBuilder: () => Object.assign(new Error('Later'), { statusCode: 420 }) },
    '/hook': { max: 1, hook: 'preHandler' },
    '/none': { max: 0 }
  }
  const add = (app: FastifyInstance) => {
    for (const [url, options] of Object.entries(rules)) route(url, options)(app)
    app.get('/free', async () => ({}))
  }
  t.intercept(Date, 'now', { value: () => start })
  const plain = Fastify()
  await plain.register(fastifyRateLimit, { global: false })
  add(plain)
  const ours = await createApp({}, add)
  for (const url of [...Object.keys(rules), '/free']) {
    for (const key of ['a', 'a', 'b', 'a']) {
      const [expected, response] = [
        await plain.inject({ url, headers: { 'x-key': key } }),
        await ours.inject({ url, headers: { 'x-key': key } })
      ]
      t.equal(response.statusCode, expected.statusCode, url)
      t.same(response.json(), expected.json(), url)
      t.same(shown(response), shown(expected), url)
    }
  }
})

t.test('a window ends after its time, and its reset is in seconds from now', async (t) => {
  const clock = { now: start }
  const app = await createApp({}, route('/', { max: 1, timeWindow: '10 seconds' }), clock)
  t.same(shown(await app.inject('/')), ['1', '0', '10', undefined])
  clock.now += 4000
  t.same(shown(await app.inject('/')), ['1', '0', '6', '6'])
  clock.now += 6000
  t.same(await statuses(app, '/', 2), [200, 429])
})

t.test('continueExceeding and exponentialBackoff extend the window of a client that continues', async (t) => {
  const clock = { now: start }
  const app = await createApp({}, (app) => {
    route('/again', { max: 1, timeWindow: 10_000, continueExceeding: true })(app)
    route('/double', { max: 1, timeWindow: 10_000, exponentialBackoff: true })(app)
  }, clock)
  await statuses(app, '/again', 1)
  clock.now += 9000
  t.same(shown(await app.inject('/again')), ['1', '0', '10', '10'])
  clock.now += 9999
  t.same(await statuses(app, '/again', 1), [429])
  clock.now += 10_000
  t.same(await statuses(app, '/again', 1), [200])
  await statuses(app, '/double', 1)
  const resets = [await app.inject('/double'), await app.inject('/double'), await app.inject('/double')].map((response) => shown(response)[2])
  t.same(resets, ['10', '20', '40'])
  clock.now += 39_999
  t.equal((await app.inject('/double')).statusCode, 429)
})

t.test('each route counts its own clients, at most as many as its cache holds', async (t) => {
  const app = await createApp({}, (app) => {
    for (const url of ['/a', '/b']) route(url, { max: 1, cache: 10, keyGenerator: (request) => String(request.headers['x-key']) })(app)
  })
  t.same(await statuses(app, '/a', 2, { 'x-key': 'first' }), [200, 429])
  t.same(await statuses(app, '/b', 2, { 'x-key': 'first' }), [200, 429])
  for (let client = 0; client < 20; client++) await statuses(app, '/a', 1, { 'x-key': String(client) })
  t.same(await statuses(app, '/a', 1, { 'x-key': 'first' }), [200], 'forgotten')
  t.same(await statuses(app, '/a', 1, { 'x-key': '19' }), [429], 'remembered')
  t.same(await statuses(app, '/b', 1, { 'x-key': 'first' }), [429], 'other routes lose nothing')
})

t.test('app.createRateLimit and app.rateLimit count where the app calls them', async (t) => {
  const app = await createApp({}, (app) => {
    const [check, other] = [app.createRateLimit({ max: 2, timeWindow: 10_000 }), app.createRateLimit({ max: 2, timeWindow: 10_000 })]
    app.get('/check', async (request) => check(request))
    app.get('/other', async (request) => other(request))
    app.get('/look', async (request) => check(request, { increment: false }))
    app.get('/hook', { preHandler: app.rateLimit({ max: 1 }) }, async () => ({}))
    app.setNotFoundHandler({ preHandler: app.rateLimit({ max: 1 }) }, (_request, reply) => {
      reply.code(404).send({})
    })
  })
  t.match((await app.inject('/look')).json(), { remaining: 2, ttl: 0 })
  t.match((await app.inject('/check')).json(), {
    isAllowed: false,
    key: '127.0.0.1',
    max: 2,
    remaining: 1,
    ttlInSeconds: 10,
    isExceeded: false
  })
  t.match((await app.inject('/look')).json(), { remaining: 1, ttlInSeconds: 10 })
  t.match((await app.inject('/check')).json(), { remaining: 0, isExceeded: false })
  t.match((await app.inject('/check')).json(), { remaining: 0, isExceeded: true })
  t.match((await app.inject('/other')).json(), { remaining: 1 }, 'another limiter')
  t.same(await statuses(app, '/hook', 2), [200, 429])
  t.same(await statuses(app, '/nowhere', 2), [404, 429])
})

t.test('beside a rule of the document both apply, and the headers show the stricter with Unix seconds', async (t) => {
  const app = await createApp({ default: { max: 3, windowMs: 60_000 } }, (app) => {
    route('/tight', { max: 2, timeWindow: 10_000 }, { access: 'open' })(app)
    route('/loose', { max: 100, timeWindow: 10_000 }, { access: 'open' })(app)
    route('/equal', { max: 3, timeWindow: 10_000 }, { access: 'open' })(app)
    route('/longer', { max: 3, timeWindow: 90_000, hook: 'preHandler' }, { access: 'open' })(app)
    route('/unlimited', { max: 3, timeWindow: 10_000 }, { access: 'open', rateLimitRule: false })(app)
  })
  const get = (url: string, address: string) => app.inject({ url, headers: { 'x-forwarded-for': address } })
  t.same(shown(await get('/tight', '10.0.0.1')), ['2', '1', '1800000011', undefined])
  t.same(shown(await get('/tight', '10.0.0.1')), ['2', '0', '1800000011', undefined])
  const refused = await get('/tight', '10.0.0.1')
  t.equal(refused.statusCode, 429)
  t.same(shown(refused), ['3', '0', '1800000061', '10'], 'both are used up: the one that ends later')
  const alsoRefused = await get('/loose', '10.0.0.1')
  t.equal(alsoRefused.statusCode, 429)
  t.match(alsoRefused.json(), { message: 'Rate limit exceeded' })
  t.same(shown(alsoRefused).slice(0, 3), ['3', '0', '1800000061'])
  t.same(shown(await get('/loose', '10.0.0.2')), ['3', '2', '1800000061', undefined])
  t.same(shown(await get('/equal', '10.0.0.3')), ['3', '2', '1800000061', undefined])
  t.same(shown(await get('/longer', '10.0.0.4')), ['3', '2', '1800000091', undefined])
  t.same(shown(await get('/unlimited', '10.0.0.5')), ['3', '2', '1800000011', undefined])
  const head = await app.inject({ method: 'HEAD', url: '/tight', headers: { 'x-forwarded-for': '10.0.0.6' } })
  t.same(shown(head), ['2', '1', '1800000011', undefined])
})

t.test('the key may be the caller that auth has identified', async (t) => {
  const app = Fastify()
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(rateLimit, { default: { max: 100, windowMs: 60_000 } })
  route('/me', { max: 1, keyGenerator: ({ auth }) => auth?.sub ?? 'nobody' }, { access: 'user' })(app)
  t.same(await statuses(app, '/me', 2, bearer({ sub: 'ada' })), [200, 429])
  t.same(await statuses(app, '/me', 2, bearer({ sub: 'bob' })), [200, 429])
  const failed = await app.inject({ url: '/me', headers: { authorization: 'Bearer x' } })
  t.equal(failed.statusCode, 401)
  t.equal(failed.headers['x-ratelimit-limit'], '100')
})

t.test('with the conventions a rejection has their body, unless the app builds its own', async (t) => {
  const app = Fastify()
  await app.register(conventions)
  await app.register(rateLimit)
  route('/a', { max: 0, timeWindow: 60_000 })(app)
  route('/banned', { max: 0, ban: 0 })(app)
  route('/body', { max: 0, errorResponseBuilder: () => ({ statusCode: 429, slow: 'down' }) })(app)
  app.get('/fails', async () => {
    throw Object.assign(new Error('of another service'), { statusCode: 429 })
  })
  const refused = await app.inject('/a')
  t.equal(refused.statusCode, 429)
  t.match(refused.json(), {
    error: 'Too Many Requests',
    message: 'Rate limit exceeded, retry in 1 minute',
    code: 'TENANTRY_RATE_LIMITED',
    retryAfter: 60
  })
  const banned = await app.inject('/banned')
  t.equal(banned.statusCode, 403)
  t.match(banned.json(), { error: 'Forbidden', code: 'TENANTRY_RATE_LIMITED' })
  const body = await app.inject('/body')
  t.equal(body.statusCode, 429)
  t.same(body.json(), { statusCode: 429, slow: 'down' })
  t.same(await statuses(app, '/fails', 1), [500], "another service's rejection is an internal error")
})

t.test('request.rateLimited is true, and onExceeded of the route is called', async (t) => {
  const keys: string[] = []
  const app = await createApp({}, (app) => {
    app.addHook('onResponse', async (request) => {
      keys.push(String(request.rateLimited))
    })
    route('/', {
      max: 1,
      onExceeded: (_request, key) => {
        keys.push(key)
      }
    })(app)
  })
  await statuses(app, '/', 2)
  t.same(keys, ['false', '127.0.0.1', 'true'])
})

t.test("the app's own registration is kept and used", async (t) => {
  const app = Fastify({ trustProxy: true })
  const seen: string[] = []
  await app.register(fastifyRateLimit, {
    max: 2,
    timeWindow: 10_000,
    keyGenerator: (request) => {
      seen.push(request.url)
      return 'all'
    }
  })
  const { createRateLimit } = app
  app.get('/early', { config: { rateLimit: { max: 1 } } }, async () => ({}))
  await app.register(rateLimit, { default: { max: 3, windowMs: 60_000 }, now: () => start })
  app.get('/theirs', async () => ({}))
  app.get('/both', { config: { access: 'open' } }, async () => ({}))
  route('/own', { max: 1 })(app)
  let counted = 0
  route('/once', { keyGenerator: () => String(counted++) })(app)
  t.equal(app.createRateLimit, createRateLimit)
  t.same(await statuses(app, '/early', 2), [200, 429])
  t.same(await statuses(app, '/own', 2), [200, 429])
  t.same(shown(await app.inject('/theirs')), ['2', '1', '10', undefined])
  t.same(shown(await app.inject('/both')), ['2', '0', '1800000011', undefined])
  const refused = await app.inject('/both')
  t.equal(refused.statusCode, 429)
  t.match(refused.json(), { message: /^Rate limit exceeded, retry in/ })
  t.equal(seen.length, 7, 'its key generator saw each request once')
  await app.inject('/once')
  t.equal(counted, 1, 'nothing else counts its routes')
})

t.test("invalid options and routes that are registered too early fail the start with the route's name", async (t) => {
  const failure = async (options: object) => {
    const app = Fastify()
    await app.register(rateLimit)
    try {
      app.get('/a', { config: { rateLimit: options } }, async () => ({}))
      await app.ready()
    } catch (error) {
      return String(error)
    }
    return undefined
  }
  t.match(await failure({ max: '5' }), /the route GET \/a: config\.rateLimit\.max is "5": expected a number from 0, or a function/)
  t.match(await failure({ max: -1 }), /config\.rateLimit\.max is -1/)
  t.match(await failure({ timeWindow: 'soon' }), /the route GET \/a: config\.rateLimit\.timeWindow is invalid/)
  t.equal(await failure({ max: 5, timeWindow: '2 hours' }), undefined)

  const late = Fastify()
  late.get('/early', { config: { rateLimit: { max: 1 } } }, async () => ({}))
  await t.rejects(async () => {
    await late.register(rateLimit)
  }, { message: /the route GET \/early was registered before the plugin "tenantry\/plugins\/rate-limit"/ })

  const apart = Fastify()
  apart.register(async (child) => {
    await child.register(fastifyRateLimit, { global: false })
    route('/own', { max: 1 })(child)
  })
  await apart.after()
  await apart.register(rateLimit)
  t.same(await statuses(apart, '/own', 2), [200, 429], 'a context with its own registration')
})

t.test('a function timeWindow that does not return a number is an error', async (t) => {
  const app = await createApp({}, route('/', { max: 1, timeWindow: () => NaN }))
  t.same(await statuses(app, '/', 3), [500, 500, 500])
})

t.test('a route added to a server is limited separately for each tenant', async (t) => {
  const document = testDocument({ rateLimit: { enabled: true, default: { max: 5, windowMs: 60_000 } } }, await postgresSection(t))
  const app = createServer(document, { env: testEnv, logger: false })
  t.teardown(() => app.close())
  await app.after()
  route('/search', { max: 2, keyGenerator: ({ tenant }) => tenant?.id ?? 'nobody' }, { access: 'user' })(app)
  await app.ready()
  for (const tenant of ['acme', 'globex']) {
    const headers = bearer({ tenant_id: tenant })
    t.same(shown(await app.inject({ url: '/search', headers })).slice(0, 2), ['2', '1'])
    t.same(await statuses(app, '/search', 1, headers), [200])
    const refused = await app.inject({ url: '/search', headers })
    t.equal(refused.statusCode, 429)
    t.match(refused.json(), { code: 'TENANTRY_RATE_LIMITED', retryAfter: 60 })
    t.ok(Number(refused.headers['x-ratelimit-reset']) > 1_700_000_000)
  }
})
