/** Every plugin has the same shape, and rejects unknown options. */
import { readdirSync } from 'node:fs'
import Fastify, { type FastifyPluginAsync, type RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import t from 'tap'
import { defaultRoleTables } from '../../lib/database/declared-tables.js'
import { orderOf } from '../../lib/plugin/define.js'
import { sortPlugins } from '../../lib/plugin/group.js'
import manifest from '../../package.json' with { type: 'json' }
import agent from '../../plugins/agent/index.js'
import auth from '../../plugins/auth/index.js'
import cache from '../../plugins/cache/index.js'
import database from '../../plugins/database/index.js'
import embeddings from '../../plugins/embeddings/index.js'
import health from '../../plugins/health/index.js'
import rateLimit from '../../plugins/rate-limit/index.js'
import { page } from '../docs/markdown.js'
import { testApp, type TestPlugins } from '../helpers/app.js'
import { testSecret } from '../helpers/tokens.js'

const folder = new URL('../../plugins/', import.meta.url)
const names = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name)

const load = async (name: string): Promise<{ readonly default: FastifyPluginAsync }> => await import(new URL(`${name}/index.js`, folder).href)

t.test('each folder has one plugin, under its own name', async (t) => {
  t.ok(names.length > 30)
  for (const name of names) {
    const module = await load(name)
    t.equal(orderOf(module.default).name, name)
    t.match(Reflect.get(module.default, Symbol.for('plugin-meta')), { name: `tenantry-${name}`, fastify: '5.x', dependencies: Array }, name)
    const others = Object.entries(module).filter(([key, value]) =>
      key !== 'default' && typeof value === 'function' && Reflect.get(value, Symbol.for('plugin-meta')) !== undefined
    )
    t.strictSame(others, [], `${name} has no second plugin`)
    t.ok(Object.hasOwn(manifest.exports, `./plugins/${name}`), `${name} can be imported`)
  }
})

t.test('each plugin names a missing dependency, of itself or of its endpoints', async (t) => {
  for (const name of names) {
    const { default: plugin } = await load(name)
    const { dependencies, routeDependencies } = orderOf(plugin)
    const all = [...dependencies, ...routeDependencies]
    for (const missing of new Set(all)) {
      const app = Fastify()
      t.teardown(() => app.close())
      for (const other of all) if (other !== missing) app.register(fp(async () => {}, { name: `tenantry-${other}` }))
      const reason = dependencies.includes(missing)
        ? 'which requires it'
        : 'whose endpoints require it, or leave these out with `routes: false`'
      await t.rejects(async () => await app.register(plugin), {
        message: `register the plugin "tenantry/plugins/${missing}" before "tenantry/plugins/${name}", ${reason}`
      })
    }
  }
})

t.test('each plugin refuses an unknown option, before it does anything', async (t) => {
  for (const name of names) {
    const { default: plugin } = await load(name)
    const { dependencies } = orderOf(plugin)
    const app = Fastify()
    t.teardown(() => app.close())
    for (const other of dependencies) app.register(fp(async () => {}, { name: `tenantry-${other}` }))
    const options = { prefx: '/api' }
    await t.rejects(async () => await app.register(plugin, options), {
      message: new RegExp(`^the plugin "tenantry/plugins/${name}": unknown option "prefx"(, did you mean "prefix"|:)`)
    })
  }
})

t.test('the order of the guide fits all plugins', async (t) => {
  const [, list = ''] = page('docs/guides/embedding.md').text.match(/in this order:\n\n```text\n([^`]*)```/) ?? []
  const listed = list.trim().split(/,\s+/)
  t.strictSame([...listed].sort(), [...names].sort())
  const entries = await Promise.all(listed.map(async (name) => ({ order: orderOf((await load(name)).default) })))
  t.strictSame(sortPlugins(entries).map(({ order }) => order.name), listed)
})

for (const prefix of ['/api', '/api/', 'api']) {
  t.test(`Fastify's prefix and logLevel apply to the endpoints of each plugin, with the prefix ${prefix}`, async (t) => {
    const plugins: Record<string, object> = {}
    for (const name of names) if (orderOf((await load(name)).default).hasEndpoints) plugins[name] = { prefix, logLevel: 'warn' }
    const needed: TestPlugins = {
      database: { roleTables: defaultRoleTables, vectorTable: { dimensions: 3 } },
      mail: { deliver: async () => {}, appUrl: 'https://app.example.com' },
      mcp: { ...plugins.mcp, url: 'https://api.example.com' },
      models: { ...plugins.models, embedding: { provider: 'local', model: 'words', baseUrl: 'http://127.0.0.1:1/v1', dimensions: 3 } },
      embeddings: { ...plugins.embeddings, dimensions: 3 },
      files: { ...plugins.files, path: t.testdir() },
      'config-routes': { ...plugins['config-routes'], routes: [{ path: '/declared', method: 'get', response: {} }] }
    }
    const routes: RouteOptions[] = []
    await testApp(t, {
      engine: { provider: 'embedded' },
      before: (app) => {
        app.addHook('onRoute', (route) => {
          routes.push(route)
        })
      },
      plugins: Object.assign(plugins, needed)
    })
    t.ok(routes.length > 150)
    for (const { method, url, logLevel } of routes) t.ok(/^\/api\/[^/]/.test(url) && logLevel === 'warn', `${String(method)} ${url}`)
  })
}

t.test('a wrong option fails the registration with its name', async (t) => {
  const refused = async (plugin: FastifyPluginAsync<object>, options: object, message: RegExp | string) => {
    const app = Fastify()
    t.teardown(() => app.close())
    for (const other of orderOf(plugin).dependencies) app.register(fp(async () => {}, { name: `tenantry-${other}` }))
    await t.rejects(async () => await app.register(plugin, options), { message })
  }
  await refused(
    cache,
    { routes: false, providr: 'redis' },
    'the plugin "tenantry/plugins/cache": unknown option "providr", did you mean "provider"?'
  )
  await refused(rateLimit, { max: 5 }, 'the plugin "tenantry/plugins/rate-limit": unknown option "max", did you mean "default.max"?')
  await refused(database, { provider: 'mysql' }, 'the plugin "tenantry/plugins/database": provider: expected one of postgres, embedded')
  await refused(
    database,
    { postgres: { conectionString: 'postgres://x' } },
    /postgres: \/conectionString: unknown member, did you mean "connectionString"\?/
  )
  const expected: ReadonlyArray<[string, object, string]> = [
    [
      'database',
      { tables: { notes: { tenantscoped: true, columns: { id: { type: 'uuid', primaryKey: true } } } } },
      'tables: /notes/tenantscoped: unknown member, did you mean "tenantScoped"?'
    ],
    [
      'database',
      { roleTables: { roles: 'roles' } },
      'roleTables: /permissions: missing: expected a string; /userRoles: missing: expected a string'
    ],
    ['database', { vectorTable: { dimension: 3 } }, 'vectorTable: /dimension: unknown member, did you mean "dimensions"?'],
    ['database', { watched: { notes: null } }, 'watched: /notes: expected an object, got null'],
    ['cache', { store: {} }, 'store: expected an object with the methods get, set, invalidate, delete, clear, keys, stats, ping, close'],
    ['rate-limit', { store: new Map() }, 'store: expected an object with the methods take, refund'],
    [
      'webhooks',
      { webhooks: [{ name: 'crm', url: 'https://crm.example.com', event: ['*'] }] },
      'webhooks: /0/event: unknown member, did you mean "events"?'
    ],
    [
      'integrations',
      { customIntegrations: [{ name: 'crm', baseUrl: 'https://crm.example.com' }] },
      'customIntegrations: /0/actions: missing: expected an object'
    ],
    ['workflows', { steps: { lm: {} } }, 'steps: /lm: unknown member, did you mean "llm"?'],
    ['tenant-config', { config: { routes: [] } }, 'config: expected the result of checkConfig'],
    ['mail', { colour: 1 }, 'unknown option "colour": the options are mail, links, appUrl, deliver'],
    ['cors', { maxAge: 5 }, 'missing option "origins"'],
    ['mcp', { name: 'Shop' }, 'missing option "url"'],
    ['mcp-client', { servers: [{ name: 'crm', uri: 'https://crm.example.com' }] }, 'servers: /0/uri: unknown member, did you mean "url"?']
  ]
  for (const [name, options, fault] of expected) {
    const { default: plugin } = await load(name)
    await refused(plugin, options, `the plugin "tenantry/plugins/${name}": ${fault}`)
  }
  await refused(auth, { jwt: { secret: testSecret, audiance: 'shop' } }, /\/jwt\/audiance: unknown member, did you mean "audience"\?/)
  await refused(
    auth,
    { authProviders: { idp: { roleclaim: 'role' } } },
    /\/authProviders\/idp\/roleclaim: unknown member, did you mean "roleClaim"\?/
  )
  await refused(agent, { chat: { maxRound: 3 } }, /chat: \/maxRound: unknown member, did you mean "maxRounds"\?/)
  await refused(embeddings, { vectorStore: { provider: 'pinecone' } }, /vectorStore: \/provider: expected one of/)
})

t.test('braces in a setting are not a template', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await t.resolves(async () => await app.register(auth, { jwt: { secret: `{{${testSecret}}}\${` } }))
  const postgres = { connectionString: 'postgres://shop:a}}{{b@127.0.0.1:1/shop' }
  await t.rejects(async () => await app.register(database, { postgres }), { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
})

t.test('a plugin names itself when the app has its route already', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  app.get('/health', async () => 'ok')
  await t.rejects(async () => await app.register(health), {
    message:
      "the plugin \"tenantry/plugins/health\" cannot add its endpoints to the app: Method 'GET' already declared for route '/health'. Register the plugin once or with a `prefix`, or give your own route another path"
  })
})

t.test('the database migrates declared tables in memory without further options', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(database, { tables: { notes: { columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' } } } } })
  t.ok(app.engine.catalogue.tables.has('notes'))
})
