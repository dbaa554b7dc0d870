/** The shape of plugins: dependencies, options, and endpoints in their own context. */
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { definePlugin, optional } from '../../../lib/plugin/define.js'
import { callback, membersOf, oneOf, record, section, text, whole, withMethods } from '../../../lib/plugin/options.js'
import { RateLimit } from '../../../lib/schema/limits.js'
import { Pagination } from '../../../lib/schema/pagination.js'

declare module 'fastify' {
  interface FastifyInstance {
    clock: () => number
  }
}

interface ClockOptions {
  readonly now?: (() => number) | undefined
  readonly every?: number | undefined
}

const clock = definePlugin<ClockOptions>({
  name: 'clock',
  routeDependencies: ['guard'],
  options: { now: callback, every: whole(1, 60) },
  setup (app, { now = () => 0 }) {
    app.decorate('clock', now)
    return (group) => {
      group.get('/time', ({ log }) => ({ time: app.clock(), prefix: group.prefix, level: log.level }))
    }
  }
})
const guard = definePlugin<Record<never, never>>({ name: 'guard', options: {}, setup: () => undefined })
const user = definePlugin<Record<never, never>>({
  name: 'user',
  dependencies: ['clock'],
  after: ['guard'],
  options: {},
  setup: () => undefined
})

function bare (t: Test): FastifyInstance {
  const app = Fastify()
  t.teardown(() => app.close())
  return app
}

t.test('a missing dependency is an error with the correct order', async (t) => {
  await t.rejects(async () => await bare(t).register(user), {
    message: 'register the plugin "tenantry/plugins/clock" before "tenantry/plugins/user", which requires it'
  })
  await t.rejects(async () => await bare(t).register(clock), {
    message: 'register the plugin "tenantry/plugins/guard" before "tenantry/plugins/clock", whose endpoints require it, or leave these out with `routes: false`'
  }, 'the endpoints need the guard')
  const app = bare(t)
  await app.register(clock, { routes: false })
  await app.register(user)
  t.ok(app.hasPlugin('tenantry-user'), 'the service does not')
})

t.test('Fastify knows the dependencies', async (t) => {
  t.match(Reflect.get(user, Symbol.for('plugin-meta')), { name: 'tenantry-user', fastify: '5.x', dependencies: ['tenantry-clock'] })
})

t.test('the dependencies are an array like any other', async (t) => {
  const { dependencies } = Object(Reflect.get(user, Symbol.for('plugin-meta')))
  t.strictSame(dependencies.map((name: string) => name.length), ['tenantry-clock'.length])
  t.strictSame([...dependencies.slice(0), ...dependencies.filter(() => true)], ['tenantry-clock', 'tenantry-clock'])
})

t.test('a plugin that is registered too late fails the start', async (t) => {
  const app = bare(t)
  await app.register(clock, { routes: false })
  await app.register(user)
  await app.register(guard)
  await t.rejects(Promise.resolve(app.ready()), {
    message: 'register the plugin "tenantry/plugins/guard" before "tenantry/plugins/user", which otherwise does not use it'
  })
})

t.test("prefix and logLevel apply to the endpoints, and the service stays in the caller's context", async (t) => {
  const app = Fastify({ logger: { level: 'silent' } })
  t.teardown(() => app.close())
  await app.register(guard)
  await app.register(clock, { prefix: '/v1', logLevel: 'error', now: () => 5 })
  t.equal(app.clock(), 5)
  t.strictSame((await app.inject('/v1/time')).json(), { time: 5, prefix: '/v1', level: 'error' })
  t.equal((await app.inject('/time')).statusCode, 404)
})

t.test("the endpoints have a name in the tree of an app's plugins", async (t) => {
  const app = bare(t)
  await app.register(guard)
  await app.register(clock)
  await app.ready()
  t.match(app.printPlugins(), /tenantry-clock \d+ ms\n.* tenantry-clock endpoints /)
})

t.test('routes: false leaves the endpoints out', async (t) => {
  const app = bare(t)
  await app.register(clock, { routes: false })
  t.equal((await app.inject('/time')).statusCode, 404)
})

t.test('a plugin whose members the app has already is an error with its name', async (t) => {
  for (const prepare of [(app: FastifyInstance) => app.register(clock, { routes: false }), (app: FastifyInstance) => app.decorate('clock', Date.now)]) {
    const app = Fastify()
    await prepare(app)
    await t.rejects(async () => { await app.register(clock, { routes: false }) }, {
      message: /^the plugin "tenantry\/plugins\/clock" cannot add its members to the app: .*'clock'.* Register the plugin once/
    })
    await app.close().catch(() => {})
  }
})

t.test("a wrong option is an error with the plugin's name and the nearest option", async (t) => {
  const refused = async (options: object, message: string) => {
    const app = bare(t)
    await app.register(guard)
    await t.rejects(async () => await app.register(clock, options), { message: `the plugin "tenantry/plugins/clock": ${message}` })
  }
  await refused({ evry: 1 }, 'unknown option "evry", did you mean "every"?')
  await refused({ colour: 1 }, 'unknown option "colour": the options are routes, prefix, logLevel, logSerializers, every')
  await refused({ every: 61 }, 'every is 61: expected a whole number from 1 to 60')
  await refused({ now: 5, every: 0 }, 'now is 5: expected a function; every is 0: expected a whole number from 1 to 60')
  await refused({ routes: 'no' }, 'routes: expected true or false')
})

t.test('an option of a section beside it is named with its section', async (t) => {
  const limits = definePlugin<{ default?: object, enabled?: boolean, perEndpoint?: object, redis?: object }>({
    name: 'limits',
    options: membersOf(RateLimit),
    setup: () => undefined
  })
  const misplaced: object = { max: 5 }
  await t.rejects(async () => await bare(t).register(limits, misplaced), {
    message: 'the plugin "tenantry/plugins/limits": unknown option "max", did you mean "default.max"?'
  })
  await t.rejects(async () => await bare(t).register(limits, { default: { max: 0 } }), { message: /default: \/max: expected at least 1/ })
})

t.test('an undefined member of the options, of a section or of an object counts as absent', async (t) => {
  const given: object[] = []
  const limits = definePlugin<
    { default?: object, enabled?: boolean, perEndpoint?: object, redis?: object, names?: object, store?: object }
  >({
    name: 'limits',
    options: { ...membersOf(RateLimit), names: record, store: withMethods<{ take: () => void }>('take') },
    setup (_app, options) {
      given.push(options)
    }
  })
  const store = { take () {}, client: undefined }
  const unset: object = {
    enabled: undefined,
    default: { max: undefined, windowMs: 5000 },
    perEndpoint: { '/a': { max: 5, message: undefined }, '/b': { max: 7 } },
    names: { list: [{ a: undefined, b: null }] },
    store
  }
  await bare(t).register(limits, unset)
  t.strictSame(given[0], {
    default: { windowMs: 5000 },
    perEndpoint: { '/a': { max: 5 }, '/b': { max: 7 } },
    names: { list: [{ b: null }] },
    store
  })
  t.equal(Object(given[0]).store, store, "an app's own object stays itself")
  const names: Record<string, unknown> = { unset: undefined }
  names['names'] = names
  await bare(t).register(limits, { names })
  t.strictSame(Object.keys(Object(given[1]).names), ['names'], 'of an object that contains itself too')
})

t.test('invalid options are rejected', async (t) => {
  t.equal(oneOf('postgres', 'embedded')('postgre'), 'expected one of postgres, embedded, did you mean "postgres"?')
  t.equal(oneOf('postgres', 'embedded')('mysql'), 'expected one of postgres, embedded')
  t.equal(text(1), 'expected a string')
  t.equal(section(Pagination)({ defaultLimit: 5 }), undefined)
  t.match(section(Pagination)({ defautLimit: 5 }), /\/defautLimit: unknown member, did you mean "defaultLimit"\?/)
})

t.test('an optional plugin is found regardless of the order', async (t) => {
  const app = bare(t)
  const found = optional(app, 'clock')
  t.equal(found(), null)
  await app.register(clock, { routes: false, now: () => 7 })
  t.equal(found()?.(), 7)
})
