/** Every plugin has the same shape, and rejects unknown options. */
import { readdirSync } from 'node:fs'
import t from 'tap'
import Fastify, { type FastifyPluginAsync } from 'fastify'
import manifest from '../../package.json' with { type: 'json' }
import { orderOf } from '../../lib/plugin/define.js'
import cache from '../../plugins/cache/index.js'
import database from '../../plugins/database/index.js'
import rateLimit from '../../plugins/rate-limit/index.js'

const folder = new URL('../../plugins/', import.meta.url)
const names = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name)

t.test('each folder has one plugin, under its own name', async (t) => {
  t.ok(names.length > 30)
  for (const name of names) {
    const module: { readonly default: FastifyPluginAsync } = await import(new URL(`${name}/index.js`, folder).href)
    t.equal(orderOf(module.default).name, name)
    t.match(Reflect.get(module.default, Symbol.for('plugin-meta')), { name: `tenantry-${name}`, fastify: '5.x', dependencies: Array }, name)
    const others = Object.entries(module).filter(([key, value]) =>
      key !== 'default' && typeof value === 'function' && Reflect.get(value, Symbol.for('plugin-meta')) !== undefined
    )
    t.strictSame(others, [], `${name} has no second plugin`)
    t.ok(Object.hasOwn(manifest.exports, `./plugins/${name}`), `${name} can be imported`)
  }
})

t.test('a wrong option fails the registration with its name', async (t) => {
  const refused = async (plugin: FastifyPluginAsync<object>, options: object, message: RegExp | string) => {
    const app = Fastify()
    t.teardown(() => app.close())
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
})

t.test('the database migrates declared tables in memory without further options', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(database, { tables: { notes: { columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' } } } } })
  t.ok(app.engine.catalogue.tables.has('notes'))
})
