import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import type { RateLimitPluginOptions } from '../../../plugins/rate-limit/index.js'
import { testApp } from '../../helpers/app.js'
import { bearer } from '../../helpers/tokens.js'
import { sharedEngine } from '../tenancy/shared-engine.js'

const withDatabase = await sharedEngine(t)

interface Setup {
  readonly plan?: string
  readonly trustHeader?: boolean
}

let number = 0

/** An app with its own tenant, on a plan of three requests a minute unless another is named. */
async function appOf (t: Test, options: RateLimitPluginOptions, { plan = 'free', trustHeader = false }: Setup = {}) {
  const clock = { now: 1_800_000_000_000 }
  const tenant = `tenant-${++number}`
  const { app } = await testApp(t, {
    plugins: {
      conventions: {},
      plans: {
        plans: {
          free: { limits: { api: { requestsPerMinute: 3 } } },
          one: { limits: { api: { requestsPerMinute: 1 } } },
          large: { limits: { api: { requestsPerMinute: 1000 } } },
          endless: { limits: { api: { requestsPerMinute: -1 } } }
        }
      },
      tenancy: { trustHeader },
      'rate-limit': { enabled: true, now: () => clock.now, ...options }
    },
    server: { trustProxy: true },
    tenants: [{ id: tenant, plan }],
    before: withDatabase,
    routes: limitedRoutes
  })
  return { app, clock, tenant, token: bearer({ tenant_id: tenant }) }
}

function limitedRoutes (app: FastifyInstance): void {
  app.get('/a', { config: { access: 'open' } }, async () => ({}))
  app.get('/fails', { config: { access: 'open' } }, async (_request, reply) => reply.code(404).send({}))
  app.get(
    '/own',
    { config: { access: 'open', rateLimitRule: { max: 2, windowMs: 120_000, message: 'Slowly', statusCode: 420 } } },
    async () => ({})
  )
  app.get(
    '/failures',
    { config: { access: 'open', rateLimitRule: { max: 1, windowMs: 60_000, skipSuccessfulRequests: true } } },
    async () => ({})
  )
  for (const path of ['/upgrade', '/subscription']) app.get(path, { config: { access: 'open', callerLimit: true } }, async () => ({}))
  app.get('/free', { config: { access: 'open', rateLimitRule: false } }, async () => ({}))
}

async function ask (app: FastifyInstance, url: string, count: number, headers: Record<string, string>): Promise<LightMyRequestResponse[]> {
  const responses: LightMyRequestResponse[] = []
  for (let index = 0; index < count; index++) responses.push(await app.inject({ url, headers }))
  return responses
}

const statuses = (responses: readonly LightMyRequestResponse[]) => responses.map(({ statusCode }) => statusCode)
const limitsOf = ({ headers }: LightMyRequestResponse) => ['limit', 'remaining', 'reset'].map((name) => Number(headers[`x-ratelimit-${name}`]))

t.test('a default with only a message leaves tenants the limit of their plan', async (t) => {
  const { app, token } = await appOf(t, { default: { message: 'Slowly' } })
  t.strictSame(limitsOf((await ask(app, '/a', 1, token))[0]!)[0], 3, 'its plan')
  t.strictSame(limitsOf((await ask(app, '/a', 1, {}))[0]!)[0], 100, 'an address')
})

t.test('a tenant without a rule is limited only by its plan, over all routes', async (t) => {
  const { app, clock, token } = await appOf(t, {})
  const [first] = await ask(app, '/a', 1, token)
  t.same(limitsOf(first!), [3, 2, 1_800_000_060])
  t.same(statuses(await ask(app, '/fails', 1, token)), [404])
  t.same(statuses(await ask(app, '/a', 2, token)), [200, 429])
  clock.now += 59_000
  const [refused] = await ask(app, '/a', 1, token)
  t.same(limitsOf(refused!), [3, 0, 1_800_000_060])
  t.match(refused!.json(), { error: 'Too Many Requests', message: 'Rate limit exceeded', retryAfter: 1 })
  t.equal(refused!.headers['retry-after'], '1')
  clock.now += 1000
  t.same(statuses(await ask(app, '/a', 1, token)), [200], 'a new minute')
})

t.test('the refusal names the plan if its limit is the reason, and no plan otherwise', async (t) => {
  const { app, token } = await appOf(t, {})
  const refused = (await ask(app, '/a', 4, token)).at(-1)!.json()
  t.match(refused, { error: 'Too Many Requests', message: 'Rate limit exceeded', code: 'TENANTRY_RATE_LIMITED', retryAfter: 60 })
  t.strictSame(refused.details, [{ path: '', message: 'the plan "free" includes 3 requests a minute', keyword: 'plan' }])
  const { app: one, token: ofOne } = await appOf(t, {}, { plan: 'one' })
  t.match((await ask(one, '/a', 2, ofOne)).at(-1)!.json(), { details: [{ message: 'the plan "one" includes 1 request a minute' }] })
  const { app: other, token: ofOther } = await appOf(t, {})
  t.notOk('details' in (await ask(other, '/own', 3, ofOther)).at(-1)!.json(), 'a rule of the route')
  t.notOk('details' in (await ask(other, '/upgrade', 31, ofOther)).at(-1)!.json(), 'a count of the caller')
})

t.test('a tenant that has used up its plan can still upgrade, thirty times a minute', async (t) => {
  const { app, token } = await appOf(t, {})
  t.same(statuses(await ask(app, '/a', 4, token)), [200, 200, 200, 429])
  t.same(new Set(statuses(await ask(app, '/upgrade', 20, token))), new Set([200]))
  t.same(statuses(await ask(app, '/subscription', 11, token)).slice(-2), [200, 429])
  const { app: other, token: fresh } = await appOf(t, {})
  await ask(other, '/upgrade', 5, fresh)
  t.same(statuses(await ask(other, '/a', 1, fresh)), [200], 'they do not count for the plan')
  const { app: one, token: ofOne } = await appOf(t, {}, { plan: 'one' })
  t.same(
    statuses([...await ask(one, '/a', 2, ofOne), ...await ask(one, '/upgrade', 1, ofOne)]),
    [200, 429, 200],
    'with a plan of one request'
  )
})

for (const [name, options] of Object.entries({
  'the plan': {},
  'the default': { default: { max: 3 } },
  'a rule of the endpoint': { perEndpoint: { 'GET /upgrade': { max: 3 } } }
})) {
  t.test(`a caller that uses up ${name} leaves the routes with a limit for each caller to the others`, async (t) => {
    const { app, tenant, token } = await appOf(t, options)
    const stolen = bearer({ sub: 'stolen', tenant_id: tenant })
    await ask(app, '/a', 4, stolen)
    t.equal(statuses(await ask(app, '/upgrade', 31, stolen)).at(-1), 429)
    t.same(statuses(await ask(app, '/upgrade', 3, token)), [200, 200, 200])
  })
}

t.test('a stolen token leaves the routes with a limit for each caller to the other sessions of its user', async (t) => {
  const { app, tenant } = await appOf(t, {})
  const session = (number: number) =>
    bearer({ sub: 'ada', role: 'admin', tenant_id: tenant, session_id: `00000000-0000-4000-8000-${String(number).padStart(12, '0')}` })
  t.same(statuses(await ask(app, '/upgrade', 31, session(0))).slice(-2), [200, 429])
  t.same(statuses(await ask(app, '/upgrade', 1, session(1))), [200])
  for (let number = 1; number <= 20; number++) await ask(app, '/upgrade', 30, session(number))
  t.same(statuses(await ask(app, '/upgrade', 1, bearer({ sub: 'boss', role: 'admin', tenant_id: tenant }))), [200], 'many sessions leave a part')
})

t.test('a claim api_key does not make a token count as an API key', async (t) => {
  const { app, tenant } = await appOf(t, {})
  const user = (number: number, claims = {}) => bearer({ sub: `user-${number}`, tenant_id: tenant, ...claims })
  for (let number = 1; number <= 10; number++) await ask(app, '/upgrade', 30, user(number))
  t.same(statuses(await ask(app, '/upgrade', 1, user(11, { api_key: 'none' }))), [429])
})

t.test('ten callers use up the total of the routes with a limit for each caller, but not that of administrators', async (t) => {
  const { app, clock, tenant } = await appOf(t, {})
  const user = (number: number) => bearer({ sub: `user-${number}`, tenant_id: tenant })
  for (let number = 1; number <= 10; number++) await ask(app, '/upgrade', 30, user(number))
  t.same(statuses(await ask(app, '/upgrade', 1, user(11))), [429])
  t.same(statuses(await ask(app, '/upgrade', 1, bearer({ sub: 'boss', role: 'admin', tenant_id: tenant }))), [200])
  clock.now += 60_000
  t.same(statuses(await ask(app, '/upgrade', 1, user(11))), [200], 'a new minute')
})

t.test('with a larger plan, the total of the routes with a limit for each caller is that of the plan', async (t) => {
  const { app, tenant } = await appOf(t, {}, { plan: 'large' })
  const user = (number: number) => bearer({ sub: `user-${number}`, tenant_id: tenant })
  t.equal(statuses(await ask(app, '/upgrade', 101, user(0))).indexOf(429), 100, 'a tenth for each caller')
  for (let number = 1; number <= 9; number++) await ask(app, '/upgrade', 100, user(number))
  t.same(statuses(await ask(app, '/upgrade', 1, user(10))), [429], 'the total')
})

t.test('the plan limits in addition to the rule, and the headers show the one with less left', async (t) => {
  const { app, clock, token } = await appOf(t, { default: { max: 2, windowMs: 10_000 } })
  t.same((await ask(app, '/a', 3, token)).map(limitsOf), [[2, 1, 1_800_000_010], [2, 0, 1_800_000_010], [2, 0, 1_800_000_010]])
  clock.now += 10_000
  const responses = await ask(app, '/a', 2, token)
  t.same(statuses(responses), [200, 429], 'the request that the rule rejected did not count for the plan')
  t.same(responses.map(limitsOf), [[3, 0, 1_800_000_060], [3, 0, 1_800_000_060]])
  t.equal(responses[1]!.headers['retry-after'], '50')
})

t.test("a route with its own rule has the plan's limit too, with the plan's message", async (t) => {
  const { app, token } = await appOf(t, {})
  const own = await ask(app, '/own', 3, token)
  t.same(statuses(own), [200, 200, 420])
  t.equal(own[2]!.json().message, 'Slowly')
  t.same(statuses(await ask(app, '/a', 2, token)), [200, 429])
  const [both] = await ask(app, '/own', 1, token)
  t.equal(both!.statusCode, 420, 'if both are used up, the one that lasts longer')
  t.equal(both!.headers['retry-after'], '120')
})

t.test('if two counts have equally much left, the headers show the one that lasts longer', async (t) => {
  const { app, token } = await appOf(t, { default: { max: 3, windowMs: 10_000 } })
  const responses = await ask(app, '/a', 4, token)
  t.same(responses.map(limitsOf), [[3, 2, 1_800_000_060], [3, 1, 1_800_000_060], [3, 0, 1_800_000_060], [3, 0, 1_800_000_060]])
  t.equal(responses[3]!.headers['retry-after'], '60')
})

t.test('a response that the rule skips counts for the plan', async (t) => {
  const { app, token } = await appOf(t, {})
  t.same(statuses(await ask(app, '/failures', 4, token)), [200, 200, 200, 429])
})

t.test('each tenant has its own plan limit; callers without a tenant never use one', async (t) => {
  const { app, tenant, token } = await appOf(t, {})
  t.same(statuses(await ask(app, '/a', 4, { 'x-tenant-id': tenant })), [200, 200, 200, 200], 'the rule for addresses')
  t.same(statuses(await ask(app, '/a', 4, { ...bearer({ role: 'admin' }), 'x-tenant-id': tenant })), [200, 200, 200, 200])
  t.same(statuses(await ask(app, '/a', 4, token)), [200, 200, 200, 429])
  t.same(statuses(await ask(app, '/a', 1, bearer({ tenant_id: `${tenant}-other` }))), [200])
})

t.test('behind a gateway that names the tenant, its plan counts', async (t) => {
  const { app, tenant } = await appOf(t, {}, { trustHeader: true })
  t.same(statuses(await ask(app, '/a', 4, { 'x-tenant-id': tenant })), [200, 200, 200, 429])
})

t.test('an unlimited plan limits nothing, a limit of 0 admits nothing, an unknown plan is free', async (t) => {
  const endless = await appOf(t, {}, { plan: 'endless' })
  const responses = await ask(endless.app, '/a', 5, endless.token)
  t.same(statuses(responses), [200, 200, 200, 200, 200])
  t.equal(responses[0]!.headers['x-ratelimit-limit'], undefined)
  t.same(statuses(await ask(endless.app, '/own', 3, endless.token)), [200, 200, 420], 'its rules stay')
  const one = await appOf(t, {}, { plan: 'one' })
  const [, refused] = await ask(one.app, '/a', 2, one.token)
  t.equal(refused!.statusCode, 429)
  t.equal(refused!.headers['retry-after'], '60')
  const unknown = await appOf(t, {})
  await unknown.app.engine.kysely.updateTable('tenantry.tenants').set({ plan: 'gone' }).where('id', '=', unknown.tenant).execute()
  t.same(statuses(await ask(unknown.app, '/a', 4, unknown.token)), [200, 200, 200, 429])
})

t.test('a changed plan applies within the running minute', async (t) => {
  const { app, tenant, token } = await appOf(t, {})
  t.same(statuses(await ask(app, '/a', 4, token)), [200, 200, 200, 429])
  await app.tenants.update(tenant, { plan: 'pro' })
  t.same((await ask(app, '/a', 1, token)).map(limitsOf), [[1000, 996, 1_800_000_060]])
  await app.tenants.update(tenant, { plan: 'free' })
  t.same((await ask(app, '/a', 1, token)).map(limitsOf), [[3, 0, 1_800_000_060]])
})

t.test("rateLimit.enabled: false and rateLimitRule: false disable the plan's limit too", async (t) => {
  const off = await appOf(t, { enabled: false })
  t.same(statuses(await ask(off.app, '/a', 5, off.token)), [200, 200, 200, 200, 200])
  t.same(statuses(await ask(off.app, '/own', 3, off.token)), [200, 200, 420], "a route's own rule applies")
  t.same(statuses(await ask(off.app, '/failures', 4, off.token)), [200, 200, 200, 200], "without the plan's limit")
  const on = await appOf(t, {})
  t.same(statuses(await ask(on.app, '/free', 5, on.token)), [200, 200, 200, 200, 200])
})
