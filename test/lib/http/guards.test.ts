/** An app whose routes ask for guards that no plugin provides does not start: wrong orders, wrong contexts, and members without effect. */
import Fastify, { type FastifyContextConfig, type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import auth from '../../../plugins/auth/index.js'
import cache from '../../../plugins/cache/index.js'
import configRoutes from '../../../plugins/config-routes/index.js'
import conventions from '../../../plugins/conventions/index.js'
import database from '../../../plugins/database/index.js'
import idempotency from '../../../plugins/idempotency/index.js'
import login from '../../../plugins/login/index.js'
import mfa from '../../../plugins/mfa/index.js'
import openapi from '../../../plugins/openapi/index.js'
import plans from '../../../plugins/plans/index.js'
import rateLimit from '../../../plugins/rate-limit/index.js'
import sessions from '../../../plugins/sessions/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import usage from '../../../plugins/usage/index.js'
import users from '../../../plugins/users/index.js'
import { postgresSection } from '../../helpers/postgres.js'
import { testMasterKey } from '../../helpers/server.js'
import { bearer, testSecret } from '../../helpers/tokens.js'

const jwt = { secret: testSecret }

function bare (t: Test): FastifyInstance {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  return app
}

async function withDatabase (t: Test): Promise<FastifyInstance> {
  const app = bare(t)
  await app.register(database, await postgresSection(t))
  await app.register(auth, { jwt })
  return app
}

async function fails (t: Test, app: FastifyInstance, ...parts: string[]): Promise<void> {
  const message = await app.ready().then(() => 'it starts', (error: unknown) => String(error))
  for (const part of parts) t.ok(message.includes(part), `${message}\nnames ${part}`)
}

t.test('an app that registers login before mfa does not start, in any context of mfa', async (t) => {
  for (const isChild of [false, true]) {
    const app = await withDatabase(t)
    await app.register(tenancy)
    await app.register(sessions)
    await app.register(users)
    await app.register(login)
    if (isChild) {
      await app.register(async (child) => {
        await child.register(mfa, { masterKey: testMasterKey })
      })
    } else await app.register(mfa, { masterKey: testMasterKey })
    await fails(t, app, 'register the plugin "tenantry/plugins/mfa" before "tenantry/plugins/login"')
  }
})

t.test('permissions that no plugin would check are an error at start that names the route', async (t) => {
  const refused: [FastifyContextConfig, string][] = [
    [{ permissions: ['a:b'] }, 'the route GET /x has `permissions` and no `access`'],
    [{ access: 'public', permissions: ['a:b'] }, 'the route GET /x has `permissions` and the access "public"'],
    [{ authProvider: 'jwt' }, 'the route GET /x has `authProvider` and no `access`'],
    [{ permission: 'a:b' }, 'the route GET /x has `permission` and no `access`'],
    [{ access: 'user', permission: 'a:b' }, 'use `permissions: ["a:b"]`']
  ]
  for (const [config, message] of refused) {
    const app = bare(t)
    await app.register(auth, { jwt })
    app.register(async (group) => {
      group.get('/x', { config }, async () => ({}))
    })
    await fails(t, app, message)
  }
})

t.test('a misspelled member of a config that would leave the route open is an error at start', async (t) => {
  const starts: [string, string][] = [
    ['{"acces": "user"}', 'the route GET /x has `acces` in its config: did you mean `access`?'],
    ['{"access": "user", "Permissions": ["a:b"]}', 'has `Permissions` in its config: did you mean `permissions`?'],
    ['{"assets": "user", "theirs": 1}', 'it starts']
  ]
  for (const [text, message] of starts) {
    const app = bare(t)
    await app.register(auth, { jwt })
    const config: FastifyContextConfig = JSON.parse(text)
    app.register(async (group) => {
      group.get('/x', { config }, async () => ({}))
    })
    await fails(t, app, message)
  }
})

t.test("auth in a child context does not leave its parent's routes open", async (t) => {
  const configs: FastifyContextConfig[] = [{ access: 'platform-admin' }, { permissions: ['a:b'] }, { access: 'user' }]
  for (const config of configs) {
    const app = bare(t)
    await app.register(async (child) => {
      await child.register(auth, { jwt })
    })
    app.get('/theirs', async () => ({}))
    app.get('/admin', { config }, async () => ({}))
    await fails(t, app, 'the route GET /admin', 'register and await the plugin before the route, in the same context or in a parent')
  }
})

t.test('a route registered before auth is an error at start, in the same context and in another', async (t) => {
  const app = bare(t)
  app.register(conventions)
  app.register(auth, { jwt })
  app.get('/early', { config: { access: 'user' } }, async () => ({}))
  app.get('/open', { config: { access: 'open' } }, async () => ({}))
  await fails(t, app, 'the route GET /early', 'the route GET /open')

  const other = bare(t)
  await other.register(async (child) => {
    child.get('/early', { config: { access: 'tenant-admin' } }, async () => ({}))
  })
  await other.register(auth, { jwt })
  await fails(t, other, 'the route GET /early')
})

t.test('a route that requires a caller is an error at start without auth', async (t) => {
  const app = bare(t)
  await app.register(rateLimit)
  app.get('/mine', { config: { access: 'user' } }, async () => ({}))
  await fails(t, app, 'the route GET /mine', '"tenantry/plugins/auth"')
})

t.test('a route with a rate limit is an error at start without rate-limit, and in another context', async (t) => {
  const config = { access: 'user', rateLimitRule: { max: 1, windowMs: 1000 } } as const
  const missing = 'the route GET /limited has `rateLimitRule`, but the plugin "tenantry/plugins/rate-limit" does not limit it'
  const app = bare(t)
  await app.register(auth, { jwt })
  app.get('/limited', { config }, async () => ({}))
  await fails(t, app, missing)

  const other = bare(t)
  await other.register(auth, { jwt })
  await other.register(async (child) => {
    await child.register(rateLimit)
  })
  other.get('/limited', { config }, async () => ({}))
  await fails(t, other, missing)

  const withPages = bare(t)
  await withPages.register(auth, { jwt })
  await withPages.register(openapi)
  withPages.get('/free', { config: { access: 'user', rateLimitRule: false } }, async () => ({}))
  await withPages.ready()
})

t.test('a route with `addressLimit` is an error at start without rate-limit or before it', async (t) => {
  const addressLimit = { max: 1, windowMs: 1000 }
  const configs: FastifyContextConfig[] = [{ addressLimit }, { access: 'open', rateLimitRule: false, addressLimit }]
  for (const config of configs) {
    const app = bare(t)
    await app.register(auth, { jwt })
    app.get('/limited', { config }, async () => ({}))
    await fails(t, app, 'the route GET /limited has `addressLimit`, but the plugin "tenantry/plugins/rate-limit" does not limit it')

    const early = bare(t)
    early.get('/limited', { config }, async () => ({}))
    await early.register(rateLimit)
    await fails(t, early, 'the route GET /limited was registered before the plugin "tenantry/plugins/rate-limit"')
  }
})

t.test('endpoints of this package with `addressLimit` start without rate-limit', async (t) => {
  const app = await withDatabase(t)
  await app.register(tenancy)
  await app.register(sessions)
  await app.register(users)
  await app.register(login)
  await app.ready()
})

t.test('rate-limit, tenancy and usage after the routes that they guard are errors at start', async (t) => {
  const limited = bare(t)
  await limited.register(auth, { jwt })
  limited.get('/x', { config: { access: 'user' } }, async () => ({}))
  await limited.register(rateLimit)
  await fails(t, limited, 'the route GET /x was registered before the plugin "tenantry/plugins/rate-limit"')

  const own = bare(t)
  own.get('/own', { config: { rateLimitRule: { max: 1, windowMs: 1000 } } }, async () => ({}))
  await own.register(rateLimit)
  await fails(t, own, 'the route GET /own was registered before the plugin "tenantry/plugins/rate-limit"')

  const app = await withDatabase(t)
  app.get('/x', { config: { access: 'user' } }, async () => ({}))
  await app.register(tenancy)
  app.get('/y', { config: { access: 'user' } }, async () => ({}))
  await app.register(usage)
  await fails(
    t,
    app,
    'the route GET /x was registered before the plugin "tenantry/plugins/tenancy"',
    'the route GET /y was registered before the plugin "tenantry/plugins/usage"'
  )
})

t.test('a route that accepts Idempotency-Key before the plugin idempotency is an error at start', async (t) => {
  const app = bare(t)
  await app.register(database, { provider: 'embedded' })
  app.post('/payments', { config: { idempotency: 'plain' } }, async () => ({}))
  await app.register(idempotency)
  await fails(t, app, 'the route POST /payments was registered before the plugin "tenantry/plugins/idempotency"')
})

t.test('an unknown value of config.idempotency fails the registration of the route with both values', async (t) => {
  const app = bare(t)
  await app.register(database, { provider: 'embedded' })
  await app.register(idempotency)
  const config: object = { idempotency: 'plan' }
  t.throws(() => app.post('/payments', { config }, async () => ({})), {
    message: 'the route POST /payments has the config {"idempotency":"plan"}: expected "plain" or "encrypted"'
  })
})

t.test('a plugin that others look up once is an error at start if it is registered after them', async (t) => {
  const app = await withDatabase(t)
  await app.register(tenancy)
  await app.register(plans, { plans: { free: { limits: { api: { requestsPerMinute: 5 } } } } })
  await fails(t, app, 'register the plugin "tenantry/plugins/plans" before "tenantry/plugins/tenancy"')

  const late = await withDatabase(t)
  await late.register(rateLimit)
  await late.register(configRoutes, { routes: [] })
  await late.register(cache, { provider: 'memory' })
  await fails(t, late, 'register the plugin "tenantry/plugins/cache" before "tenantry/plugins/config-routes"')
})

t.test('an app whose guards come first starts, with its own routes and other contexts', async (t) => {
  const app = bare(t)
  app.get('/theirs', async () => ({}))
  await app.register(auth, { jwt })
  await app.register(rateLimit)
  await app.register(async (child) => {
    child.get('/mine', { config: { access: 'user' } }, async () => ({}))
  })
  t.equal((await app.inject('/theirs')).statusCode, 200)
  t.equal((await app.inject('/mine')).statusCode, 401)
  t.equal((await app.inject({ url: '/mine', headers: bearer() })).statusCode, 200)
})
