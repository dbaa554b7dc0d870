/** @fastify/jwt in a server and in apps: its decorators follow the rules of `access`. */
import { createHmac } from 'node:crypto'
import type { FastifyJWTOptions } from '@fastify/jwt'
import fastifyJwt from '@fastify/jwt'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import Fastify from 'fastify'
import fp from 'fastify-plugin'
import type { Test } from 'tap'
import t from 'tap'
import { createServer } from '../../../lib/server.js'
import type { AuthOptions } from '../../../plugins/auth/index.js'
import auth from '../../../plugins/auth/index.js'
import conventions from '../../../plugins/conventions/index.js'
import database from '../../../plugins/database/index.js'
import login from '../../../plugins/login/index.js'
import mfa from '../../../plugins/mfa/index.js'
import sessions from '../../../plugins/sessions/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import users from '../../../plugins/users/index.js'
import { postgresSection } from '../../helpers/postgres.js'
import { testDocument, testEnv, testMasterKey } from '../../helpers/server.js'
import { keyPair, signToken, testSecret } from '../../helpers/tokens.js'
import { testKey, testProvider } from './provider.js'

const other = 'another secret, which is longer than 32 characters'
const jwt = { secret: testSecret }

interface AppOptions {
  readonly auth?: AuthOptions
  /** The app's own registration of @fastify/jwt. */
  readonly own?: FastifyJWTOptions
  readonly before?: (app: FastifyInstance) => void
}

/** The routes return `user` and `auth`: `/access` after tenantry's guard, `/verify` after `request.jwtVerify()`. */
async function createApp (t: Test, { auth: options = { jwt }, own, before }: AppOptions = {}): Promise<FastifyInstance> {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  if (own !== undefined) await app.register(fastifyJwt, own)
  before?.(app)
  await app.register(auth, options)
  await app.register(routes)
  await app.ready()
  return app
}

async function routes (group: FastifyInstance): Promise<void> {
  await group.register(conventions)
  const seen = async ({ user, auth }: FastifyRequest) => ({ user, auth })
  group.get('/access', { config: { access: 'user' } }, seen)
  group.get('/verify', {
    onRequest: async (request) => {
      await request.jwtVerify()
    }
  }, seen)
  group.get('/public', { config: { access: 'public' } }, seen)
  group.get('/signed', async (_request, reply) => ({ token: await reply.jwtSign({ sub: 'replied' }) }))
}

async function get (
  app: FastifyInstance,
  url: string,
  token?: string
): Promise<{ status: number, challenge: unknown, body: Record<string, unknown> }> {
  const response = await app.inject({ url, headers: token === undefined ? {} : { authorization: `Bearer ${token}` } })
  const { requestId, ...body } = response.json()
  return { status: response.statusCode, challenge: response.headers['www-authenticate'], body }
}

/** Tokens that `access` rejects, with the error code. */
function wrongTokens (app: FastifyInstance): Record<string, { token: string | undefined, code: string }> {
  const invalid = 'TENANTRY_TOKEN_INVALID'
  const now = Math.floor(Date.now() / 1000)
  return {
    'no token': { token: undefined, code: 'TENANTRY_TOKEN_MISSING' },
    'a text that is not a token': { token: 'nonsense', code: invalid },
    'of another key': { token: signToken({}, { key: other }), code: invalid },
    'of another algorithm': { token: signToken({}, { algorithm: 'HS512' }), code: invalid },
    unsigned: { token: signToken({}, { algorithm: 'none' }), code: invalid },
    expired: { token: signToken({}, { expiresIn: -60 }), code: 'TENANTRY_TOKEN_EXPIRED' },
    'without exp': { token: signToken({ exp: undefined }), code: invalid },
    'without sub': { token: signToken({ sub: undefined }), code: invalid },
    'not valid yet': { token: signToken({ nbf: now + 600 }), code: invalid },
    'with a wrong tenant': { token: signToken({ tenant_id: 'a b' }), code: invalid },
    'with wrong permissions': { token: signToken(Object({ permissions: '*' })), code: invalid },
    partial: { token: app.auth.signPartial({ sub: 'u' }), code: invalid },
    'too long': { token: signToken({ text: 'x'.repeat(9000) }), code: invalid }
  }
}

const registrations: Record<string, FastifyJWTOptions | undefined> = {
  'registered by the plugin': undefined,
  'registered by the app': { secret: testSecret },
  'registered by the app, with options': {
    secret: testSecret,
    sign: { algorithm: 'HS256', expiresIn: '10m' },
    verify: { algorithms: ['HS256'], cache: true }
  }
}

for (const [name, own] of Object.entries(registrations)) {
  t.test(`${name}: request.jwtVerify and app.jwt.verify reject the same tokens as access, with the same body`, async (t) => {
    const app = await createApp(t, { own })
    for (const [kind, { token, code }] of Object.entries(wrongTokens(app))) {
      const refused = await get(app, '/access', token)
      t.match(refused, { status: 401, challenge: /^Bearer/, body: { code } }, kind)
      t.same(await get(app, '/verify', token), refused, kind)
      if (token !== undefined) t.throws(() => app.jwt.verify(token), { code, statusCode: 401 }, kind)
    }
  })

  t.test(`${name}: request.user contains the token's claims`, async (t) => {
    const app = await createApp(t, { own })
    const claims = { sub: 'ada', role: 'author', tenant_id: 'acme', department: { id: 7 }, iat: 1_700_000_000 }
    const token = signToken(claims)
    t.match(await get(app, '/verify', token), { status: 200, body: { user: claims, auth: null } })
    const known = await get(app, '/access', token)
    t.match(known, { status: 200, body: { user: claims, auth: claims } })
    t.same(known.body['user'], JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()))
    t.same((await get(app, '/public', token)).body, { user: null, auth: null })
    t.match(app.jwt.verify(token), claims)
  })

  t.test(`${name}: access accepts tokens signed by app.jwt.sign and reply.jwtSign`, async (t) => {
    const app = await createApp(t, { own, auth: { jwt: { ...jwt, expiresIn: 90 } } })
    const { token: replied } = (await get(app, '/signed')).body
    const signed = [
      app.jwt.sign({ sub: 'ada' }),
      String(replied),
      app.jwt.sign({ sub: 'ada' }, { expiresIn: '20s' }),
      app.jwt.sign({ sub: 'ada', iat: 5, exp: 4e9 })
    ]
    const lifetimes = [90, 90, 20, 4e9 - 5]
    for (const [index, token] of signed.entries()) {
      const { status, body: { auth } } = await get(app, '/access', token)
      t.equal(status, 200)
      t.equal(Object(auth).exp - Object(auth).iat, lifetimes[index])
      t.match(auth, { jti: /^[\da-f-]{36}$/ })
      t.match(JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()), { alg: 'HS256', kid: /^[\w-]{11}$/ })
    }
    t.throws(() => app.jwt.sign({ role: 'admin' }), /the claim `sub` of a token is missing: expected the id of the user, a text/)
    t.throws(() => app.jwt.sign({ sub: 'ada', tenant_id: 'a b' }), /the claim `tenant_id` of a token is wrong: expected the id of a tenant/)
    t.throws(() => app.jwt.sign({ sub: 'ada', permissions: 'a:b' }), /the claim `permissions` of a token is wrong: expected an array/)
    t.throws(() => app.jwt.sign('ada'), /the payload is not an object/)
    t.throws(() => app.jwt.sign({ sub: 'ada' }, { algorithm: 'HS512' }), /not accept an `algorithm` other than HS256/)
    t.throws(() => app.jwt.sign({ sub: 'ada' }, { key: other }), /does not accept a `key`/)
  })

  t.test(`${name}: tokens of a previous secret are valid, with and without a kid`, async (t) => {
    const before = await createApp(t, { auth: { jwt: { secret: other } } })
    const app = await createApp(t, { own, auth: { jwt: { ...jwt, previousSecrets: [other] } } })
    for (const token of [before.jwt.sign({ sub: 'ada' }), signToken({ sub: 'ada' }, { key: other })]) {
      for (const url of ['/access', '/verify']) t.match(await get(app, url, token), { status: 200, body: { user: { sub: 'ada' } } })
      t.match(app.jwt.verify(token, { allowedSub: 'ada' }), { sub: 'ada' })
      t.throws(() => app.jwt.verify(token, { allowedSub: 'bob' }), { code: 'TENANTRY_TOKEN_INVALID' })
    }
    t.throws(() => before.jwt.verify(app.jwt.sign({ sub: 'ada' })), { code: 'TENANTRY_TOKEN_INVALID' })
    t.match(await get(app, '/verify', before.auth.signPartial({ sub: 'ada' })), { status: 401 })
  })

  t.test(`${name}: a call's options apply in addition to the rules, and callbacks are called`, async (t) => {
    const app = await createApp(t, { own })
    const token = app.jwt.sign({ sub: 'ada', aud: 'shop' })
    t.match(app.jwt.verify(token, { allowedAud: 'shop' }), { sub: 'ada' })
    t.throws(() => app.jwt.verify(token, { allowedAud: 'bank' }), { code: 'TENANTRY_TOKEN_INVALID' })
    t.throws(() => app.jwt.verify(signToken({ exp: undefined }), { allowedSub: 'user-1' }), { code: 'TENANTRY_TOKEN_INVALID' })
    t.match(app.jwt.verify(token, { complete: true }), { header: { alg: 'HS256' }, payload: { sub: 'ada' } })
    t.match(await new Promise((resolve) => app.jwt.verify(token, (_error, claims) => resolve(claims))), { sub: 'ada' })
    t.match(await new Promise((resolve) => app.jwt.verify('nonsense', (error) => resolve(error))), { code: 'TENANTRY_TOKEN_INVALID' })
    t.match(
      await new Promise((resolve) => app.jwt.sign({ sub: 'ada' }, (_error: unknown, signed: unknown) => resolve(signed))),
      /^[\w-]+\.[\w-]+\.[\w-]+$/
    )
  })

  t.test(`${name}: request.jwtVerify accepts options and a callback`, async (t) => {
    const app = await createApp(t, {
      own,
      before (app) {
        app.get('/shop', async (request) => await request.jwtVerify({ allowedAud: 'shop' }))
        app.get(
          '/query',
          async (request) =>
            await request.jwtVerify({ decode: {}, verify: { extractToken: ({ url }: FastifyRequest) => url.split('=')[1] } as object })
        )
        app.get('/called', (request, reply) => {
          request.jwtVerify((error: unknown, user: unknown) => {
            reply.send(error ?? user)
          })
        })
      }
    })
    const token = app.jwt.sign({ sub: 'ada', aud: 'shop' })
    t.match(await get(app, '/shop', token), { status: 200, body: { sub: 'ada' } })
    t.match(await get(app, '/shop', app.jwt.sign({ sub: 'ada', aud: 'bank' })), { status: 401, body: { code: 'TENANTRY_TOKEN_INVALID' } })
    t.match(await get(app, '/shop'), { status: 401, body: { code: 'TENANTRY_TOKEN_MISSING' } })
    t.match(await get(app, `/query?token=${token}`), { status: 200, body: { sub: 'ada' } })
    t.match(await get(app, `/query?token=${signToken({ sub: undefined })}`), { status: 401, body: { code: 'TENANTRY_TOKEN_INVALID' } })
    t.match(await get(app, '/called', token), { status: 200, body: { sub: 'ada' } })
    t.match(await get(app, '/called', signToken({ exp: undefined })), { status: 401, body: { code: 'TENANTRY_TOKEN_INVALID' } })
  })

  t.test(`${name}: a revoked token is rejected, also by hooks and contexts older than the plugin`, async (t) => {
    const app = Fastify({ pluginTimeout: 0 })
    t.teardown(() => app.close())
    await app.register(database, { ...await postgresSection(t), migrate: 'auto' })
    if (own !== undefined) {
      await app.register(fastifyJwt, own)
      await app.register(async (group) => {
        group.get('/older', async (request) => await request.jwtVerify())
      })
      app.addHook('onRequest', async (request) => {
        if (request.url === '/hooked') await request.jwtVerify()
      })
    }
    await app.register(auth, { jwt })
    await app.register(tenancy)
    await app.register(sessions)
    await app.register(routes)
    app.get('/hooked', async () => ({}))
    await app.ready()
    const claims = { sub: 'ada', tenant_id: 'acme' }
    const [ended, kept] = [app.jwt.sign(claims), app.jwt.sign(claims)]
    const urls = own === undefined ? ['/access', '/verify'] : ['/access', '/verify', '/older', '/hooked']
    const statuses = async (token: string) => await Promise.all(urls.map(async (url) => (await get(app, url, token)).status))
    t.same(await statuses(ended), urls.map(() => 200))
    t.match(await app.jwt.verify(ended), claims)
    const logout = await app.inject({ method: 'POST', url: '/auth/logout', headers: { authorization: `Bearer ${ended}` } })
    t.equal(logout.statusCode, 200)
    t.same(await statuses(ended), urls.map(() => 401))
    t.same(await statuses(kept), urls.map(() => 200))
    await t.rejects(async () => {
      await app.jwt.verify(ended)
    }, { code: 'TENANTRY_TOKEN_INVALID' })
    t.type(app.jwt.verify(kept), Promise, 'always, so that a missing await is noticed')
  })
}

t.test('a server accepts tokens signed by its app.jwt, in routes of the document and in added ones', async (t) => {
  const app = createServer(
    testDocument({
      routes: [{ method: 'get', path: '/who', requireAuth: true, response: { who: '{{auth.sub}}' } }]
    }, await postgresSection(t)),
    { env: testEnv, logger: false }
  )
  t.teardown(() => app.close())
  app.register(routes)
  await app.ready()
  const token = app.jwt.sign({ sub: 'ada', role: 'admin' })
  t.match(await get(app, '/who', token), { status: 200, body: { who: 'ada' } })
  t.match(await get(app, '/verify', token), { status: 200, body: { user: { sub: 'ada' } } })
  t.match(await get(app, '/access', token), { status: 200, body: { user: { sub: 'ada' }, auth: { sub: 'ada' } } })
  await app.inject({ method: 'POST', url: '/auth/logout', headers: { authorization: `Bearer ${token}` } })
  for (const url of ['/who', '/verify', '/access']) {
    t.match(await get(app, url, token), { status: 401, body: { code: 'TENANTRY_TOKEN_INVALID' } }, url)
  }
})

t.test('the text of a public key is not a secret', async (t) => {
  const { publicKey, privateKey } = keyPair('RS256')
  for (
    const options of [{ auth: { jwt: { publicKey, privateKey } } }, {
      own: { secret: { public: publicKey, private: privateKey } },
      auth: {}
    }]
  ) {
    const app = await createApp(t, options)
    const [header, payload] = [{ alg: 'HS256', typ: 'JWT' }, { sub: 'root', role: 'admin', exp: 9_999_999_999 }].map((part) =>
      Buffer.from(JSON.stringify(part)).toString('base64url')
    )
    const forged = `${header}.${payload}.${createHmac('sha256', publicKey).update(`${header}.${payload}`).digest('base64url')}`
    for (const token of [forged, signToken({}, { algorithm: 'none' }), signToken({}, { key: privateKey, algorithm: 'RS384' })]) {
      for (const url of ['/access', '/verify']) t.match(await get(app, url, token), { status: 401 })
      t.throws(() => app.jwt.verify(token), { code: 'TENANTRY_TOKEN_INVALID' })
    }
    for (const url of ['/access', '/verify']) {
      t.match(await get(app, url, app.jwt.sign({ sub: 'ada' })), { status: 200, body: { user: { sub: 'ada' } } })
    }
  }
})

t.test("without the option jwt, the key of the app's own registration is used", async (t) => {
  const app = await createApp(t, { own: { secret: testSecret, sign: { expiresIn: '2m' } }, auth: {} })
  for (const token of [app.jwt.sign({ sub: 'ada' }), app.auth.sign({ sub: 'ada' }), signToken({ sub: 'ada' })]) {
    for (const url of ['/access', '/verify']) t.match(await get(app, url, token), { status: 200, body: { user: { sub: 'ada' } } })
  }
  t.equal(app.auth.lifetime, 120)
  const { iat, exp } = app.jwt.verify<{ iat: number, exp: number }>(app.auth.sign({ sub: 'ada', iat: 1 }, { expiresIn: 5 }))
  t.equal(exp - iat, 5)
  for (
    const token of [
      signToken({}, { key: other }),
      signToken({}, { algorithm: 'HS512' }),
      signToken({ exp: undefined }),
      signToken({ sub: undefined }),
      signToken({}, { expiresIn: -60 })
    ]
  ) {
    for (const url of ['/access', '/verify']) t.match(await get(app, url, token), { status: 401, body: { code: /^TENANTRY_TOKEN_/ } })
  }
  t.throws(() => app.auth.signPartial({ sub: 'ada' }), /the option `jwt`/)
})

t.test("logins with a second factor need the key's text, and fail at start without it", async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(database, { ...await postgresSection(t), migrate: 'auto' })
  await app.register(fastifyJwt, { secret: testSecret })
  await app.register(auth)
  for (const plugin of [tenancy, sessions, users]) await app.register(plugin, {})
  await app.register(mfa, { masterKey: testMasterKey })
  await t.rejects(async () => await app.register(login, {}), /give it the option `jwt`/)
})

t.test('tokens of another server are verified with its public key, and signing is not possible', async (t) => {
  const { publicKey, privateKey } = keyPair('ES256')
  const options = { secret: { public: publicKey }, verify: { algorithms: ['ES256' as const] } }
  const app = await createApp(t, { own: options, auth: {} })
  t.match(await get(app, '/access', signToken({ sub: 'ada' }, { key: privateKey, algorithm: 'ES256' })), {
    status: 200,
    body: { user: { sub: 'ada' } }
  })
  t.equal(app.auth.canSign, false)
  t.throws(() => app.jwt.sign({ sub: 'ada' }), /required to sign tokens/)
})

t.test('a registration that contradicts the plugin is an error at start', async (t) => {
  const { publicKey, privateKey } = keyPair('RS256')
  const wrong: [FastifyJWTOptions, AuthOptions, RegExp][] = [
    [{ secret: other }, { jwt }, /another secret or algorithm than the option `jwt`/],
    [{ secret: testSecret, verify: { algorithms: ['HS512'] } }, { jwt }, /another secret or algorithm/],
    [{ secret: other }, { jwt: { publicKey } }, /another secret or algorithm/],
    [{ secret: { public: publicKey, private: privateKey } }, { jwt }, /another secret or algorithm/],
    [{ secret: async () => testSecret }, {}, /the secret of @fastify\/jwt is a function/],
    [{ secret: { public: publicKey } }, {}, /without a fixed algorithm/]
  ]
  for (const [own, options, message] of wrong) await t.rejects(createApp(t, { own, auth: options }), message)
})

t.test("the app's own `trusted`, `formatUser`, `decoratorName` and cookie apply to request.jwtVerify, for previous secrets too", async (t) => {
  const denied = new Set<unknown>(['denied'])
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(fastifyJwt, {
    secret: testSecret,
    decoratorName: 'account',
    trusted: (_request, { jti }) => !denied.has(jti),
    formatUser: (payload) => Object({ name: Object(payload).sub }),
    cookie: { cookieName: 'token', signed: false }
  })
  app.decorateRequest('cookies', { getter: () => ({ token: signToken({ sub: 'eve' }) }) })
  await app.register(auth, { jwt: { ...jwt, previousSecrets: [other] } })
  await app.register(conventions)
  const account = async (request: FastifyRequest) => ({ account: request.getDecorator('account') })
  app.get('/verify', {
    onRequest: async (request) => {
      await request.jwtVerify()
    }
  }, account)
  app.get('/access', { config: { access: 'user' } }, account)
  for (const key of [testSecret, other]) {
    t.match(await get(app, '/verify', signToken({ sub: 'ada' }, { key })), { status: 200, body: { account: { name: 'ada' } } })
    t.match(await get(app, '/verify', signToken({ sub: 'ada', jti: 'denied' }, { key })), {
      status: 401,
      body: { code: 'TENANTRY_TOKEN_INVALID' }
    })
  }
  t.match(await get(app, '/verify'), { status: 200, body: { account: { name: 'eve' } } })
  t.match(await get(app, '/access', signToken({ sub: 'ada' })), { status: 200, body: { account: { sub: 'ada' } } })
  t.match(await get(app, '/access'), { status: 401, body: { code: 'TENANTRY_TOKEN_MISSING' } })
})

t.test("a token older than the app's own `maxAge` is rejected, although it was accepted before", async (t) => {
  const app = await createApp(t, { own: { secret: testSecret, verify: { maxAge: '1m' } } })
  const token = app.jwt.sign({ sub: 'ada' })
  for (const url of ['/access', '/verify']) t.match(await get(app, url, token), { status: 200 })
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  Date.now = () => now() + 120_000
  for (const url of ['/access', '/verify']) t.match(await get(app, url, token), { status: 401, body: { code: 'TENANTRY_TOKEN_INVALID' } })
})

t.test('registrations with a namespace keep working before, after and above the plugin', async (t) => {
  const own = { secret: other, namespace: 'mail' }
  for (const order of ['before', 'after', 'above'] as const) {
    const root = Fastify({ pluginTimeout: 0 })
    t.teardown(() => root.close())
    let app: FastifyInstance = root
    if (order !== 'after') await root.register(fastifyJwt, own)
    const setup = async (context: FastifyInstance) => {
      app = context
      await context.register(auth, { jwt })
      if (order === 'after') await context.register(fastifyJwt, own)
      await context.register(routes)
    }
    await root.register(order === 'above' ? setup : fp(setup))
    await root.ready()
    const mail = Object(app.jwt).mail
    t.match(mail.verify(mail.sign({ address: 'a@b.example' })), { address: 'a@b.example' })
    t.match(await get(app, '/verify', app.jwt.sign({ sub: 'ada' })), { status: 200, body: { user: { sub: 'ada' } } })
    t.match(await get(app, '/verify', mail.sign({ sub: 'ada', exp: 9_999_999_999 })), { status: 401 })
    t.throws(() => app.jwt.verify(mail.sign({ sub: 'ada', exp: 9_999_999_999 })), { code: 'TENANTRY_TOKEN_INVALID' })
  }
})

t.test("the rules apply in the plugin's context, and a context above keeps its own", async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(fastifyJwt, { secret: testSecret })
  app.get('/outside', async (request) => await request.jwtVerify())
  await app.register(async (group) => {
    await group.register(auth, { jwt })
    await group.register(routes)
  })
  const endless = signToken({ exp: undefined })
  t.match(await get(app, '/outside', endless), { status: 200 })
  t.match(await get(app, '/verify', endless), { status: 401 })
  t.match(app.jwt.verify(endless), { sub: 'user-1' })
})

t.test('two contexts with the plugin have separate keys', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  for (const [prefix, secret] of [['/a', testSecret], ['/b', other]] as const) {
    await app.register(async (group) => {
      await group.register(auth, { jwt: { secret } })
      await group.register(routes)
    }, { prefix })
  }
  const [a, b] = [signToken({ sub: 'a' }), signToken({ sub: 'b' }, { key: other })]
  for (const path of ['access', 'verify']) {
    t.same([(await get(app, `/a/${path}`, a)).status, (await get(app, `/a/${path}`, b)).status], [200, 401])
    t.same([(await get(app, `/b/${path}`, a)).status, (await get(app, `/b/${path}`, b)).status], [401, 200])
  }
  t.notOk(app.hasDecorator('jwt'))
})

t.test("the app's own decorator `user` is kept", async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  const name: string = 'user'
  app.decorateRequest(name, null)
  await app.register(auth, { jwt })
  await app.register(conventions)
  app.get('/', { config: { access: 'user' } }, async (request) => ({ user: request.user, jwtUser: request.getDecorator('jwtUser') }))
  t.match(await get(app, '/', signToken({ sub: 'ada' })), { status: 200, body: { user: null, jwtUser: { sub: 'ada' } } })
})

t.test("for a provider's token request.user is its payload, and request.auth the mapped caller", async (t) => {
  const key = await testKey('k1')
  const provider = await testProvider(t, [key])
  const authProviders = { idp: { issuer: provider.issuer, jwksUri: provider.jwksUri, audience: 'api', algorithms: ['ES256' as const] } }
  const token = await provider.sign(key, { sub: 'ada', role: 'admin' })
  const app = await createApp(t, { auth: { authProviders } })
  for (let round = 0; round < 2; round++) {
    t.match(await get(app, '/access', token), {
      status: 200,
      body: { user: { sub: 'ada', role: 'admin' }, auth: { sub: 'idp:ada', role: undefined } }
    })
    t.match(await get(app, '/verify', token), { status: 200, body: { user: { sub: 'ada' } } })
  }
  t.match(await get(app, '/verify', signToken()), { status: 401 })
  t.throws(() => app.jwt.sign({ sub: 'ada' }), /a `jwt` section is required/)
  const owned = await createApp(t, { auth: { authProviders, jwt }, own: { secret: testSecret } })
  t.match(await get(owned, '/access', token), { status: 200 })
  t.match(await get(owned, '/verify', token), { status: 401 })
})

t.test('a caller with an API key has no request.user', async (t) => {
  const app = await createApp(t, { auth: { jwt, apiKey: 'a-key-of-the-platform-here' } })
  const response = await app.inject({ url: '/access', headers: { 'x-api-key': 'a-key-of-the-platform-here' } })
  t.match(response.json(), { user: null, auth: { sub: 'api-key' } })
})

t.test('the lifetime by default must not exceed maxLifetime either, if the server signs tokens', async (t) => {
  const fault = { message: /\/jwt\/expiresIn: exceeds `jwt\.maxLifetime`: expected at most 600 seconds/ }
  const { publicKey, privateKey } = keyPair('RS256')
  const short = { ...jwt, maxLifetime: 600 }
  const signs = (expiresIn: string) => ({ secret: testSecret, sign: { expiresIn } })
  await t.rejects(createApp(t, { auth: { jwt: short } }), fault)
  await t.rejects(createApp(t, { auth: { jwt: { publicKey, privateKey, maxLifetime: 600 } } }), fault)
  await t.rejects(createApp(t, { auth: { jwt: short }, own: signs('20m') }), fault)
  const working = [{ auth: { jwt: { ...short, expiresIn: 600 } } }, { auth: { jwt: short }, own: signs('10m') }]
  for (const options of working) t.ok((await createApp(t, options)).auth.sign({ sub: 'ada' }))
  t.equal((await createApp(t, { auth: { jwt: { publicKey, maxLifetime: 600 } } })).auth.canSign, false, 'tokens are issued elsewhere')
})
