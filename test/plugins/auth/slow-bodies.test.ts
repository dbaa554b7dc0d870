/** Requests whose body arrives long after their headers. */
import type { FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import conventions from '../../../plugins/conventions/index.js'
import { testApp, type TestPlugins, type Who } from '../../helpers/app.js'
import { type HeldRequest, holdRequest } from '../../helpers/held-request.js'
import { secretToken } from '../../helpers/log-scan.js'
import { listen } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, refused, type Reply } from '../../http/caller.js'
import { makeKey } from '../api-keys/key.js'
import { platformKey } from './app.js'

const late = 1001 // ms
const admin = { role: 'admin', tenant_id: 'acme' }
const byPlatform = { 'x-api-key': platformKey, 'x-tenant-id': 'acme' }

interface Opened {
  readonly app: FastifyInstance
  readonly as: (who: Who) => Ask
  readonly send: (target: string, headers: Record<string, string>) => Promise<Reply>
  /** Resolves when the caller of the request is identified. */
  readonly hold: (target: string, headers: Record<string, string>) => Promise<HeldRequest>
  readonly forward: (ms: number) => void
  /** From now on only `forward` moves the clock. */
  readonly stopClock: () => void
  readonly session: () => Promise<string>
}

async function open (t: Test, plugins: TestPlugins = {}): Promise<Opened> {
  let ahead = 0
  let reached = 0
  let time = Date.now
  const now = () => time() + ahead
  const { app, as } = await testApp(t, {
    plugins: {
      auth: { apiKey: platformKey, now },
      tenancy: {},
      'api-keys': { now },
      'tenant-rbac': {},
      sessions: { now },
      ...plugins
    },
    tenants: ['acme'],
    routes: (app) =>
      app.register(async (group) => {
        await group.register(conventions)
        group.addHook('preParsing', async () => {
          reached++
        })
        const caller = async ({ auth, tenant }: { auth: { sub: string } | null, tenant: { id: string } | null }) => ({
          sub: auth?.sub ?? null,
          tenant: tenant?.id ?? null
        })
        group.post('/user', { config: { access: 'user' } }, caller)
        group.post('/open', { config: { access: 'open' } }, caller)
        group.post('/write', { config: { access: 'user', permissions: ['articles:write'] } }, caller)
        // Without the plugin, the rule fails the start.
        const limited = 'rate-limit' in plugins && { rateLimitRule: { max: 3, windowMs: 3_600_000 } }
        group.post('/limited', { config: { access: 'user', ...limited } }, caller)
      })
  })
  const origin = await listen(app)
  return {
    app,
    as,
    send: async (target, headers) => await (await holdRequest(t, origin, target, { headers })).finish(),
    async hold (target, headers) {
      const before = reached
      const held = await holdRequest(t, origin, target, { headers })
      await until('the caller is identified', () => reached > before)
      return held
    },
    forward (ms) {
      ahead += ms
    },
    stopClock () {
      const at = Date.now()
      time = () => at
    },
    session: async () => secretToken((await app.sessions.open({ sub: 'ada', role: 'user', tenant_id: 'acme' })).token)
  }
}

const tokenOf = (token: string) => ({ authorization: `Bearer ${token}` })

/** The responses to a request that is held while something ends, and to a new one. */
async function responses (
  { hold, send, forward }: Opened,
  target: string,
  headers: Record<string, string>,
  end: () => Promise<unknown>
): Promise<{ readonly held: Reply, readonly fresh: Reply }> {
  const held = await hold(target, headers)
  await end()
  forward(late)
  return { held: await held.finish(), fresh: await send(target, headers) }
}

test('a token or key that ends before the end of a slow body is refused', async (t) => {
  const opened = await open(t)
  const { app, as } = opened
  const token = await opened.session()
  const logout = () => app.sessions.closeAll('acme', 'ada', noActor)
  refused(t, (await responses(opened, 'POST /user', tokenOf(token), logout)).held, 401, 'TOKEN_INVALID', 'logged out')
  refused(t, (await responses(opened, 'POST /open', tokenOf(await opened.session()), logout)).held, 401, 'TOKEN_INVALID', 'an open route')

  const { id, key } = await makeKey(t, as(admin), {})
  const removed = await responses(opened, 'POST /user', { 'x-api-key': key }, () => as(admin)(`DELETE /tenant/api-keys/${id}`))
  refused(t, removed.held, 401, 'TOKEN_INVALID', 'a deleted key')
  t.match(removed.held.body, { message: removed.fresh.body['message'] }, 'as a new request')

  const expired = await responses(opened, 'POST /user', bearer(admin, { expiresIn: 60 }), async () => opened.forward(60_000))
  refused(t, expired.held, 401, 'TOKEN_EXPIRED', 'an expired token')
})

test('a permission that a role loses before the end of a slow body is refused', async (t) => {
  const opened = await open(t)
  const rbac = (permissions: readonly string[]) =>
    opened.as(admin)('PUT /tenant/rbac', { body: { enabled: true, roles: [{ name: 'writer', permissions }] } })
  t.equal((await rbac(['articles:write'])).status, 200)
  const writer = bearer({ role: 'writer', tenant_id: 'acme' })
  const kept = await responses(opened, 'POST /write', writer, async () => {})
  t.match(kept.held, { status: 200, body: { sub: 'user-1', tenant: 'acme' } }, 'a caller who has lost nothing')
  const lost = await responses(opened, 'POST /write', writer, () => rbac(['articles:read']))
  refused(t, lost.held, 403, 'FORBIDDEN')
  t.same(lost.held.body['details'], lost.fresh.body['details'])
})

test('a tenant that is suspended before the end of a slow body is refused to every kind of caller', async (t) => {
  for (const trustHeader of [false, true]) {
    const opened = await open(t, { tenancy: { trustHeader } })
    for (const headers of [bearer(admin), { 'x-tenant-id': 'acme' }]) {
      const target = 'authorization' in headers ? 'POST /user' : 'POST /open'
      const { held } = await responses(opened, target, headers, () => opened.app.tenants.update('acme', { status: 'suspended' }))
      refused(t, held, 403, 'TENANT_SUSPENDED', `${target}, trustHeader: ${trustHeader}`)
      await opened.app.tenants.update('acme', { status: 'active' })
    }
    const { held } = await responses(opened, 'POST /user', byPlatform, () => opened.app.tenants.update('acme', { status: 'suspended' }))
    t.equal(held.status, 200, 'an administrator of the platform')
  }
})

test('a request with a slow body never enters a later tenant with the same id', async (t) => {
  for (const trustHeader of [false, true]) {
    const opened = await open(t, { tenancy: { trustHeader } })
    const recreate = async () => {
      await opened.app.tenants.delete('acme')
      await opened.app.tenants.create({ id: 'acme', name: 'Another customer' })
    }
    for (const headers of [bearer(admin), byPlatform, { 'x-tenant-id': 'acme' }]) {
      const target = Object.keys(headers).join() === 'x-tenant-id' ? 'POST /open' : 'POST /user'
      const { held } = await responses(opened, target, headers, recreate)
      refused(t, held, 404, 'TENANT_UNKNOWN', `${Object.keys(headers).join()}, trustHeader: ${trustHeader}`)
    }
  }
})

test('a slow body is counted once by a rate limit', async (t) => {
  const opened = await open(t, { 'rate-limit': { enabled: true } })
  const left = []
  for (let request = 0; request < 2; request++) {
    const { held } = await responses(opened, 'POST /limited', bearer(admin), async () => {})
    left.push(held.headers['x-ratelimit-remaining'])
    opened.forward(late)
  }
  t.same(left, ['2', '0'], 'of two held and two new requests, the first and the third')
})

test('a body within a second is not checked again', async (t) => {
  const opened = await open(t)
  const headers = tokenOf(await opened.session())
  opened.stopClock()
  const held = await opened.hold('POST /user', headers)
  await opened.app.sessions.closeAll('acme', 'ada', noActor)
  opened.forward(500)
  t.equal((await held.finish()).status, 200)
})

test('in an app with the plugin auth alone, a token that expires before the end of a slow body is refused', async (t) => {
  let ahead = 0
  let isReached = false
  const { app } = await testApp(t, {
    plugins: { conventions: {}, auth: { now: () => Date.now() + ahead } },
    routes (app) {
      app.post('/', {
        config: { access: 'user' },
        // An app may replace the claims.
        onRequest: async (request) => {
          isReached = true
          request.auth = { sub: 'replaced' }
        }
      }, async ({ auth, user }) => ({ auth, user }))
    }
  })
  const origin = await listen(app)
  const hold = async () => {
    isReached = false
    const held = await holdRequest(t, origin, 'POST /', { headers: bearer({ sub: 'ada' }, { expiresIn: 60 }) })
    await until('the caller is identified', () => isReached)
    return held
  }
  const kept = await hold()
  ahead += late
  t.match(await kept.finish(), { status: 200, body: { auth: { sub: 'replaced' }, user: { sub: 'ada' } } }, 'replaced claims stay')
  const expired = await hold()
  ahead += 60_000
  refused(t, await expired.finish(), 401, 'TOKEN_EXPIRED')
})
