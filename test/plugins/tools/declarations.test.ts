/** `config.tool` of routes in code. */
import Fastify from 'fastify'
import t, { type Test } from 'tap'
import auth from '../../../plugins/auth/index.js'
import tools from '../../../plugins/tools/index.js'
import { testSecret } from '../../helpers/tokens.js'

async function open (t: Test) {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(auth, { jwt: { secret: testSecret } })
  return app
}

/** The route's config as a program without types writes it. */
const configOf = (tool: unknown) => Object.assign(JSON.parse('{"access":"user"}'), { tool })

const wrong: readonly [tool: unknown, message: RegExp][] = [
  [true, /the route GET \/x .*`tool`.*expected an object, got a boolean.*name: "order"/],
  [null, /the route GET \/x .*expected an object, got null/],
  [{ name: 'x' }, /the route GET \/x .*\/description: missing: expected a string/],
  [{ name: 'x', description: undefined }, /the route GET \/x .*\/description: missing: expected a string/],
  [{ name: 'x', description: '' }, /the route GET \/x .*\/description: expected a string that is not empty/],
  [{ name: 'x', description: 5 }, /the route GET \/x .*\/description: expected a string, got an integer/],
  [{ description: 'd' }, /the route GET \/x .*\/name: missing: expected 1 to 64 of A-Z a-z 0-9 _ -/],
  [{ name: 'x y!', description: 'd' }, /the route GET \/x .*\/name: expected 1 to 64 of A-Z a-z 0-9 _ -/],
  [{ name: 'x', description: 'd', readonly: true }, /the route GET \/x .*\/readonly: unknown member, did you mean "readOnly"\?/],
  [{ name: 'x', description: 'd', permissions: 'a:b' }, /the route GET \/x .*\/permissions: expected an array, got a string/]
]

t.test('a route whose `tool` is wrong fails its registration', async (t) => {
  const app = await open(t)
  await app.register(tools)
  for (const [tool, message] of wrong) {
    t.throws(() => app.get('/x', { config: configOf(tool) }, async () => ({})), { message }, JSON.stringify(tool))
  }
})

t.test('an earlier route whose `tool` is wrong fails the registration of the plugin', async (t) => {
  for (const [tool, message] of wrong) {
    const app = await open(t)
    app.get('/x', { config: configOf(tool) }, async () => ({}))
    await t.rejects(async () => await app.register(tools), { message }, JSON.stringify(tool))
  }
})

t.test('a route whose `tool` has a name, a description and hints is a tool', async (t) => {
  const app = await open(t)
  await app.register(tools)
  const tool = { name: 'x-1', description: 'd'.repeat(3000), readOnly: true, destructive: false, uri: 'tenantry://x' }
  app.get('/x', { config: { access: 'user', tool } }, async () => ({}))
  app.get('/y', { config: configOf({ name: 'y', description: 'd' }) }, async () => ({}))
  t.strictSame([...app.tools.names], ['x-1', 'y'])
})

t.test('a route with `tool` and several methods fails its registration', async (t) => {
  const app = await open(t)
  await app.register(tools)
  const config = configOf({ name: 'x', description: 'd' })
  const several = { message: /^the route GET,POST \/x has `tool` and several methods: register one route for each method, with `tool` on one of them$/ }
  t.throws(() => app.route({ method: ['GET', 'POST'], url: '/x', config, handler: async () => ({}) }), several)
  const earlier = await open(t)
  earlier.route({ method: ['GET', 'POST'], url: '/x', config, handler: async () => ({}) })
  await t.rejects(async () => await earlier.register(tools), several)
})

t.test('a route with `tool` may have HEAD beside its method', async (t) => {
  const app = await open(t)
  await app.register(tools)
  const config = configOf({ name: 'x', description: 'd' })
  app.route({ method: ['GET', 'HEAD'], url: '/x', config, handler: async () => ({}) })
  await app.ready()
  t.strictSame([...app.tools.names], ['x'])
})
