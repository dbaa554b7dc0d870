/** Options of the plugins tenancy, cache and analytics that other plugins, or the plugin itself, act on. */
import Fastify, { type FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import type { Route } from '../../../lib/schema/route.js'
import analytics from '../../../plugins/analytics/index.js'
import auth from '../../../plugins/auth/index.js'
import cache, { type CacheOptions } from '../../../plugins/cache/index.js'
import configRoutes from '../../../plugins/config-routes/index.js'
import database from '../../../plugins/database/index.js'
import rateLimit from '../../../plugins/rate-limit/index.js'
import tenancy, { type TenancyOptions } from '../../../plugins/tenancy/index.js'
import tenantConfig from '../../../plugins/tenant-config/index.js'
import { signToken, testSecret } from '../../helpers/tokens.js'
import { caller } from '../../http/caller.js'

const token = signToken({ tenant_id: 'acme', role: 'admin' })

const routes: Route[] = [{
  path: '/orders',
  method: 'get',
  requireAuth: true,
  excludeFields: ['internal'],
  cache: { enabled: true },
  queries: [{ table: 'orders', operation: 'select' }]
}]

interface Options {
  readonly tenancy?: TenancyOptions
  readonly cache?: CacheOptions
}

async function embedded (t: Test, options: Options): Promise<FastifyInstance> {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  const id = { type: 'uuid', primaryKey: true, default: 'uuid()' } as const
  await app.register(database, {
    provider: 'embedded',
    tables: {
      orders: { tenantScoped: true, columns: { id, internal: { type: 'text', default: 'margin' } } },
      countries: { columns: { id } }
    }
  })
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(rateLimit)
  await app.register(tenancy, options.tenancy ?? {})
  await app.register(cache, options.cache ?? {})
  return app
}

t.test('tenancy.dashboardPermission guards the excluded fields of config-routes', async (t) => {
  const app = await embedded(t, { tenancy: { dashboardPermission: 'dashboard:use' } })
  await app.register(configRoutes, { routes })
  await app.ready()
  const member = signToken({ tenant_id: 'acme' })
  const ask = caller(t, app, { token: member, tenant: 'acme' })
  await ask('GET /orders')
  await sql`INSERT INTO orders (tenant_id) VALUES ('acme')`.execute(app.db)
  const { text } = await ask('GET /orders?limit=5')
  t.match(text, /"id"/)
  t.notMatch(text, /margin/)
  const operator = signToken({ tenant_id: 'acme', permissions: ['dashboard:use'] })
  t.match((await caller(t, app, { token: operator, tenant: 'acme' })('GET /orders?limit=6')).text, /margin/)
})

t.test('tenancy.sharedTables are those of tenant-config', async (t) => {
  const app = await embedded(t, { tenancy: { sharedTables: ['countries'] } })
  await app.register(tenantConfig)
  await app.ready()
  const saved = await caller(t, app, { token })('POST /tenant/config', {
    body: { routes: [{ path: '/countries', method: 'get', queries: [{ table: 'countries', operation: 'select' }] }] }
  })
  t.equal(saved.status, 200, saved.text)
})

t.test('no declared route is cached with cache.enabled false', async (t) => {
  const app = await embedded(t, { cache: { enabled: false } })
  await app.register(configRoutes, { routes })
  await app.ready()
  const ask = caller(t, app, { token })
  await ask('GET /orders')
  t.equal((await ask('GET /orders')).headers['x-cache'], undefined)
})

t.test('cache.ttl is the lifetime of responses of routes without one', async (t) => {
  const lifetimes: number[] = []
  const store = {
    provider: 'own',
    shared: false,
    get: () => ({ stamp: 1 }),
    set: (_tenant: string, _key: string, _value: string, ttlMs: number) => {
      lifetimes.push(ttlMs)
    },
    invalidate: () => {},
    delete: () => false,
    clear: () => 0,
    keys: () => [],
    stats: () => ({ items: 0, bytes: 0, hits: 0, misses: 0 }),
    ping: () => {},
    close: () => {}
  }
  const app = await embedded(t, { cache: { store, ttl: 7 } })
  await app.register(configRoutes, { routes })
  await app.ready()
  await caller(t, app, { token })('GET /orders')
  t.strictSame(lifetimes, [7000])
})

t.test('analytics.enabled false counts nothing and has no endpoint', async (t) => {
  const app = await embedded(t, {})
  await app.register(analytics, { enabled: false })
  await app.ready()
  t.notOk(app.hasDecorator('analytics'))
  t.equal((await app.inject('/analytics/summary')).statusCode, 404)
})
