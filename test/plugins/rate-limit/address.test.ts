/** `config: { addressLimit }`: counts each address before all other checks, on a route of any plugin. */
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import type { RateLimitPluginOptions } from '../../../plugins/rate-limit/index.js'
import { testApp } from '../../helpers/app.js'
import { bearer } from '../../helpers/tokens.js'

/** A login with one valid password. It waits for `gate` before it responds. */
function login (app: FastifyInstance, gate: () => Promise<void>): void {
  app.post(
    '/login',
    { config: { access: 'public', addressLimit: { max: 3, windowMs: 60_000, skipSuccessfulRequests: true } } },
    async (request, reply) => {
      await gate()
      return request.headers['x-password'] === 'right' ? {} : reply.code(401).send({})
    }
  )
  app.get(
    '/verify',
    { config: { access: 'user', addressLimit: { max: 2, windowMs: 60_000, message: 'Slowly', statusCode: 420 } } },
    async () => ({})
  )
}

async function appOf (t: Test, options: RateLimitPluginOptions = {}, gate = async () => {}): Promise<FastifyInstance> {
  const { app } = await testApp(t, {
    plugins: { conventions: {}, auth: {}, 'rate-limit': options },
    server: { trustProxy: true },
    routes: (app) => login(app, gate)
  })
  return app
}

/** Sends at once; `inject` sends only when its result is awaited. */
const post = async (app: FastifyInstance, password: string, from = '10.0.0.1') =>
  await app.inject({ method: 'POST', url: '/login', headers: { 'x-password': password, 'x-forwarded-for': from } })

t.test('an address is rejected before its token is checked, even if rate limits are off', async (t) => {
  const app = await appOf(t)
  const get = (headers: Record<string, string>) => app.inject({ url: '/verify', headers })
  t.equal((await get({ authorization: 'Bearer x' })).statusCode, 401)
  const second = await get(bearer({}))
  t.equal(second.statusCode, 200)
  t.match(second.headers, { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '0' })
  const refused = await get(bearer({ tenant_id: 'acme' }))
  t.equal(refused.statusCode, 420, 'a valid token does not bypass it')
  t.equal(refused.json().message, 'Slowly')
  t.equal((await get({ ...bearer({}), 'x-forwarded-for': '10.0.0.2' })).statusCode, 200, 'another address')
})

t.test('only failures count, per address', async (t) => {
  const app = await appOf(t)
  for (let count = 0; count < 5; count++) t.equal((await post(app, 'right')).statusCode, 200)
  for (let count = 0; count < 3; count++) t.equal((await post(app, 'wrong')).statusCode, 401)
  const refused = await post(app, 'right')
  t.equal(refused.statusCode, 429)
  t.ok(Number(refused.headers['retry-after']) > 0)
  t.equal((await post(app, 'right', '10.0.0.2')).statusCode, 200)
})

t.test('of concurrent guesses at most the allowed number of failures is checked; successes are refunded', async (t) => {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const app = await appOf(t, undefined, () => opened)
  const guesses = Array.from({ length: 20 }, (_, index) => post(app, index === 0 ? 'right' : 'wrong'))
  // Rejected ones do not wait for the gate.
  t.same((await Promise.all(guesses.slice(3))).map(({ statusCode }) => statusCode), Array.from({ length: 17 }, () => 429))
  open()
  t.same((await Promise.all(guesses.slice(0, 3))).map(({ statusCode }) => statusCode), [200, 401, 401])
  t.same([(await post(app, 'wrong')).statusCode, (await post(app, 'wrong')).statusCode], [401, 429], 'the success made room')
})

t.test("the headers show the address's count or the route's rule, whichever has less left", async (t) => {
  const app = await appOf(t, { enabled: true, default: { max: 2, windowMs: 60_000 } })
  t.match((await post(app, 'wrong')).headers, { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '1' })
  t.match((await post(app, 'wrong', '10.0.0.9')).headers, { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '1' })
  const wide = await appOf(t, { enabled: true, default: { max: 100, windowMs: 60_000 } })
  t.match((await post(wide, 'wrong')).headers, { 'x-ratelimit-limit': '3', 'x-ratelimit-remaining': '2' })
})
