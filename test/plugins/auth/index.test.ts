import fastifyJwt from '@fastify/jwt'
import type { FastifyInstance, RouteOptions } from 'fastify'
import Fastify from 'fastify'
import t from 'tap'
import { accessLevels } from '../../../plugins/auth/access.js'
import auth, { type AuthOptions } from '../../../plugins/auth/index.js'
import conventions from '../../../plugins/conventions/index.js'
import { secretText, secretToken } from '../../helpers/log-scan.js'
import { bearer, signToken, testSecret } from '../../helpers/tokens.js'
import { testKey, testProvider } from './provider.js'

function createApp (config: RouteOptions['config'], hooks: Partial<RouteOptions> = {}): FastifyInstance {
  const app = Fastify()
  app.register(conventions)
  app.register(auth, { jwt: { secret: testSecret } })
  app.after(() => {
    app.route({ method: 'GET', url: '/', config, ...hooks, handler: async (request) => ({ auth: request.auth }) })
    app.post('/', { config, schema: { body: { type: 'object', required: ['title'] } } }, async () => ({}))
  })
  return app
}

t.test('a public route ignores the token', async (t) => {
  const response = await createApp({ access: 'public' }).inject({ url: '/', headers: { authorization: 'Bearer nonsense' } })
  t.equal(response.statusCode, 200)
  t.same(response.json(), { auth: null })
})

t.test('an optional route admits a caller without a token, and rejects an invalid token', async (t) => {
  const app = createApp({ access: 'open' })
  t.same((await app.inject('/')).json(), { auth: null })
  t.match((await app.inject({ url: '/', headers: bearer({ sub: 'u' }) })).json(), { auth: { sub: 'u' } })
  const wrong = await app.inject({ url: '/', headers: { authorization: 'Bearer nonsense' } })
  t.equal(wrong.statusCode, 401)
  t.equal(wrong.headers['www-authenticate'], 'Bearer error="invalid_token"')
  t.match(wrong.json(), { error: 'Unauthorized', message: 'Invalid or expired token', code: 'TENANTRY_TOKEN_INVALID' })
})

t.test('a route for users returns 401 without a token, and with an expired one', async (t) => {
  const app = createApp({ access: 'user' })
  const missing = await app.inject('/')
  t.equal(missing.statusCode, 401)
  t.equal(missing.headers['www-authenticate'], 'Bearer')
  t.match(missing.json(), { error: 'Unauthorized', message: 'No authorization token provided', code: 'TENANTRY_TOKEN_MISSING' })
  const expired = await app.inject({ url: '/', headers: bearer({}, { expiresIn: -60 }) })
  t.equal(expired.statusCode, 401)
  t.equal(expired.headers['www-authenticate'], 'Bearer error="invalid_token"')
  t.match(expired.json(), { message: 'Token expired', code: 'TENANTRY_TOKEN_EXPIRED' })
})

t.test('the scheme is Bearer in any case; other credentials are never treated as absent', async (t) => {
  const app = createApp({ access: 'open' })
  const status = async (authorization: string) => (await app.inject({ url: '/', headers: { authorization } })).statusCode
  t.equal(await status(`bearer ${signToken()}`), 200)
  t.equal(await status(`BEARER   ${signToken()}`), 200)
  for (
    const authorization of [
      'Basic dTpw',
      signToken(),
      'Bearer',
      'Bearer ',
      '',
      `Bearer ${signToken()} ${signToken()}`,
      `bearer ${signToken()} x`,
      `Token ${signToken()}`
    ]
  ) {
    t.equal(await status(authorization), 401, authorization.slice(0, 20))
  }
  t.match((await app.inject({ url: '/', headers: { authorization: 'Basic dTpw' } })).json(), {
    code: 'TENANTRY_TOKEN_MISSING',
    message: /expected Bearer/
  })
})

t.test('roles and permissions are checked before the body', async (t) => {
  const app = createApp({ access: 'tenant-admin', permission: 'secrets:write' })
  const status = async (claims: object, payload: object) =>
    (await app.inject({ method: 'POST', url: '/', headers: bearer({ ...claims }), payload })).statusCode
  t.equal(await status({ tenant_id: 'acme' }, {}), 403)
  t.equal(await status({ tenant_id: 'acme', permissions: ['secrets:*'] }, {}), 400)
  t.equal(await status({ tenant_id: 'acme', role: 'admin' }, { title: 'x' }), 200)
  const platform = createApp({ access: 'platform-admin' })
  t.equal((await platform.inject({ url: '/', headers: bearer({ role: 'admin', tenant_id: 'acme' }) })).statusCode, 403)
  t.equal((await platform.inject({ url: '/', headers: bearer({ role: 'admin' }) })).statusCode, 200)
})

t.test('a caller needs every permission that a route declares, on an optional route too', async (t) => {
  for (const access of ['open', 'user'] as const) {
    const app = createApp({ access, permissions: ['articles:write', 'articles:publish'] })
    const status = async (permissions: string[]) => (await app.inject({ url: '/', headers: bearer({ permissions }) })).statusCode
    t.equal((await app.inject('/')).statusCode, 401)
    t.equal(await status(['articles:write']), 403)
    t.equal(await status(['articles:publish', 'articles:write']), 200)
  }
})

t.test("identity runs before a route's own hooks, and HEAD is guarded like GET", async (t) => {
  const seen: unknown[] = []
  const app = createApp({ access: 'user' }, {
    onRequest: (request, _reply, done) => {
      seen.push(request.auth?.sub)
      done()
    }
  })
  await app.inject('/')
  t.equal((await app.inject({ method: 'HEAD', url: '/' })).statusCode, 401)
  t.same(seen, [])
  await app.inject({ url: '/', headers: bearer({ sub: 'u' }) })
  await app.inject({ method: 'HEAD', url: '/', headers: bearer({ sub: 'u' }) })
  t.same(seen, ['u', 'u'])
})

t.test("an embedding app's routes without declared access are not guarded", async (t) => {
  const response = await createApp(undefined).inject({ url: '/', headers: { authorization: 'Custom scheme' } })
  t.same(response.json(), { auth: null })
})

t.test("no request sees another request's claims", async (t) => {
  const app = createApp({ access: 'open' })
  await app.inject({ url: '/', headers: bearer({ sub: 'u' }) })
  t.same((await app.inject('/')).json(), { auth: null })
})

t.test('an invalid secret and an unknown access level fail at start', async (t) => {
  await t.rejects(
    async () => Fastify().register(auth, { jwt: { secret: 'short' } }).ready(),
    /\/jwt\/secret: expected at least 32 characters/
  )
  const app = Fastify()
  app.register(auth, {})
  app.after(() => {
    t.throws(
      () => app.get('/', { config: JSON.parse('{"access":"admin"}') }, async () => ({})),
      /"admin" is not an access level: expected one of public, open/
    )
  })
  await app.ready()
})

t.test('one warning says that no caller can be identified, if a route requires one', async (t) => {
  const apiKey = 'the-key-of-the-platform-of-this-test'
  const warnings = async (options: AuthOptions, config: RouteOptions['config'], before: (app: FastifyInstance) => unknown = () => {}) => {
    const lines: string[] = []
    const app = Fastify({ logger: { level: 'warn', stream: { write: (line: string) => lines.push(JSON.parse(line).msg) } } })
    t.teardown(() => app.close())
    await before(app)
    await app.register(auth, options)
    app.get('/', { config }, async () => ({}))
    app.get('/other', { config }, async () => ({}))
    return { app, lines }
  }
  const { app, lines } = await warnings({}, { access: 'user' })
  await app.ready()
  t.strictSame(lines, [
    'no caller can be identified, and routes that require one answer 401: configure `jwt`, `authProviders` or an API key, register @fastify/jwt before the plugin "tenantry/plugins/auth", or register "tenantry/plugins/api-keys"'
  ])
  const silent: Parameters<typeof warnings>[] = [
    [{}, { access: 'public' }],
    [{}, {}],
    [{ jwt: { secret: testSecret } }, { access: 'user' }],
    [{ authProviders: { idp: { issuer: 'https://idp.test', jwksUri: 'https://idp.test/keys', audience: 'api' } } }, { access: 'user' }],
    [{ apiKey }, { access: 'user' }],
    [{}, { access: 'user' }, (app) => app.register(fastifyJwt, { secret: testSecret })]
  ]
  for (const parameters of silent) {
    const { app, lines } = await warnings(...parameters)
    await app.ready()
    t.strictSame(lines, [], JSON.stringify(parameters))
  }
  const later = await warnings({}, { access: 'user' })
  later.app.decorate('apiKeys', { find: () => null, recall: () => null })
  await later.app.ready()
  t.strictSame(later.lines, [], 'the plugin api-keys may come later')
})

t.test('a partial token is accepted only by routes for partial tokens, and those accept no other', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  const apiKey = secretText('the-key-of-the-platform-of-this-test', 'API_KEY')
  await app.register(conventions)
  await app.register(auth, { jwt: { secret: testSecret }, apiKey })
  for (const access of accessLevels) app.get(`/${access}`, { config: { access } }, async (request) => ({ auth: request.auth }))
  const ask = async (url: string, headers: Record<string, string>) => {
    const { statusCode, headers: { 'www-authenticate': challenge }, body } = await app.inject({ url, headers })
    return { status: statusCode, challenge, ...JSON.parse(body) }
  }
  const partial = secretToken(app.auth.signPartial({ sub: 'u', tenant_id: 'acme' }))
  const refused = { status: 401, code: 'TENANTRY_TOKEN_INVALID', challenge: 'Bearer error="invalid_token"' }
  for (const access of accessLevels) {
    const response = await ask(`/${access}`, { authorization: `Bearer ${partial}` })
    if (access === 'partial') t.match(response, { status: 200, auth: { sub: 'u', tenant_id: 'acme', role: undefined } })
    else t.match(response, access === 'public' ? { status: 200, auth: null } : refused, access)
    if (access !== 'public') t.match(await ask(`/${access}`, { authorization: `Bearer ${partial}x` }), refused, access)
  }
  t.match(await ask('/partial', {}), { status: 401, code: 'TENANTRY_TOKEN_MISSING', challenge: 'Bearer' })
  t.match(await ask('/partial', { 'x-api-key': apiKey }), { status: 401, code: 'TENANTRY_TOKEN_MISSING' })
  t.match(await ask('/partial', bearer({ role: 'admin' })), refused)
  t.match(await ask('/partial', { authorization: 'Basic dTpw' }), { status: 401 })
})

t.test('a route with an unconfigured provider does not start', async (t) => {
  const app = Fastify()
  await app.register(auth, { jwt: { secret: testSecret } })
  t.throws(
    () => app.get('/', { config: { access: 'user', authProvider: 'google' } }, async () => ({})),
    /"google" is not an identity provider: expected one of jwt/
  )
  t.equal((await createApp({ access: 'user', authProvider: 'jwt' }).inject({ url: '/', headers: bearer({ sub: 'u' }) })).statusCode, 200)
})

t.test("without its own keys an app accepts only its providers' tokens", async (t) => {
  const key = await testKey('k')
  const provider = await testProvider(t, [key])
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(conventions)
  await app.register(auth, {
    authProviders: { idp: { issuer: provider.issuer, jwksUri: provider.jwksUri, audience: 'api', algorithms: ['ES256'] } }
  })
  app.get('/', { config: { access: 'user', authProvider: 'idp' } }, async (request) => ({ auth: request.auth }))
  const ask = (token: string) => app.inject({ url: '/', headers: { authorization: `Bearer ${token}` } })
  t.match((await ask(await provider.sign(key))).json(), { auth: { sub: 'idp:u1', provider: 'idp' } })
  t.equal((await ask(signToken())).statusCode, 401)
  provider.respond = (request) => {
    request.socket.destroy()
  }
  const other = Fastify()
  t.teardown(() => other.close())
  await other.register(conventions)
  await other.register(auth, {
    authProviders: { idp: { issuer: provider.issuer, jwksUri: provider.jwksUri, audience: 'api', algorithms: ['ES256'] } }
  })
  other.get('/', { config: { access: 'open' } }, async () => ({}))
  const down = await other.inject({ url: '/', headers: { authorization: `Bearer ${await provider.sign(key)}` } })
  t.match(down.json(), { error: 'Service Unavailable', code: 'TENANTRY_IDENTITY_PROVIDER_UNAVAILABLE' })
  t.equal(down.headers['retry-after'], '5')
  await t.rejects(async () => Fastify().register(auth, { authProviders: { 'a:b': {} } }), /\/authProviders\/a:b: expected 1 to 32 characters/)
})

t.test('permissions that are not an array of texts fail the start and name the route', async (t) => {
  for (const access of ['user', 'public', 'tenant-admin']) {
    for (const permissions of ['orders:read', {}, 5, true, null, [5], ['orders:read', null], [['orders:read']]]) {
      const app = Fastify()
      t.teardown(() => app.close())
      await app.register(auth, { jwt: { secret: testSecret } })
      t.throws(
        () => app.get('/x', { config: JSON.parse(JSON.stringify({ access, permissions })) }, async () => ({})),
        { message: 'the route GET /x: `permissions` must be an array of texts, such as ["orders:read"]' },
        JSON.stringify({ access, permissions })
      )
    }
  }
})
