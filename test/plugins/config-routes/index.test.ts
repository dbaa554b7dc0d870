import swagger from '@fastify/swagger'
import Fastify, { type FastifyInstance } from 'fastify'
import tap, { type Test, test } from 'tap'
import { ConfigError, type ConfigInput } from '../../../lib/configuration/index.js'
import auth from '../../../plugins/auth/index.js'
import cache from '../../../plugins/cache/index.js'
import configRoutes from '../../../plugins/config-routes/index.js'
import openapi from '../../../plugins/openapi/index.js'
import rateLimit from '../../../plugins/rate-limit/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import { testSecret } from '../../helpers/tokens.js'
import { sharedEngine } from '../tenancy/shared-engine.js'

const tables = {
  shared: { columns: { id: { type: 'integer', primaryKey: true } } },
  owned: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true } } }
} as const

const services = {
  'rate-limit': (app: FastifyInstance) => app.register(rateLimit),
  auth: (app: FastifyInstance) => app.register(auth, { jwt: { secret: testSecret } }),
  tenancy: (app: FastifyInstance) => app.register(tenancy),
  cache: (app: FastifyInstance) => app.register(cache)
}
type Service = keyof typeof services

const decorateDatabase = await sharedEngine(tap, [], tables)

/** Starts an app with these plugins. Returns the error, or null. */
async function startOf (t: Test, names: readonly Service[], options: object, withDatabase = true): Promise<Error | null> {
  const app = Fastify()
  t.teardown(() => app.close())
  if (withDatabase) decorateDatabase(app)
  for (const name of names) services[name](app)
  // The options are deliberately invalid.
  const given: Parameters<typeof configRoutes>[1] = Object.assign({ routes: [], env: {} }, options)
  app.register(configRoutes, given)
  return await app.ready().then(() => null, (error: Error) => error)
}

test('a start without a plugin that the routes need names it', async (t) => {
  const open = { path: '/a', method: 'get', queries: [{ table: 'shared', operation: 'select' }] }
  const needs: [object, readonly Service[], string][] = [
    [open, [], 'rate-limit'],
    [{ ...open, requireAuth: true }, ['rate-limit'], 'auth'],
    [{ ...open, requiredPermissions: ['a:b'] }, ['rate-limit'], 'auth'],
    [{ path: '/a', method: 'get', queries: [{ table: 'owned', operation: 'select' }] }, ['rate-limit', 'auth'], 'tenancy'],
    [{ ...open, cache: { enabled: true } }, ['rate-limit'], 'cache']
  ]
  for (const [route, names, missing] of needs) {
    const error = await startOf(t, names, { routes: [route] })
    t.match(error?.message, `register the plugin "tenantry/plugins/${missing}" before "tenantry/plugins/config-routes"`, missing)
  }
  t.equal(await startOf(t, ['rate-limit'], { routes: [open] }), null, 'a plugin that no route needs may be missing')
  t.equal(
    await startOf(t, ['rate-limit', 'auth', 'tenancy', 'cache'], {
      routes: needs.map(([route], index) => ({ ...route, path: `/${index}` }))
    }),
    null
  )
  t.match(
    (await startOf(t, ['rate-limit'], {}, false))?.message,
    'register the plugin "tenantry/plugins/database" before "tenantry/plugins/config-routes"'
  )
})

test("routes from an app's options are validated like those of a document", async (t) => {
  const route = { path: '/a', method: 'get', response: {} }
  const faultsOf = async (changes: object) => {
    const error = await startOf(t, ['rate-limit'], { routes: [{ ...route, ...changes }] })
    if (!(error instanceof ConfigError)) throw error ?? new Error('it started')
    return error.faults
  }
  t.match(await faultsOf({ requireAuht: true }), [{ pointer: '/routes/0/requireAuht', suggestion: 'requireAuth' }])
  t.match(await faultsOf({ multipart: {} }), [{ pointer: '/routes/0/multipart', message: /true or false/ }])
  t.match(await faultsOf({ response: undefined, workflow: { ref: 'x' } }), [{ pointer: '/routes/0/workflow/ref', message: /no workflow/ }])
  t.match(await faultsOf({ response: { x: '{{qurey.x}}' } }), [{ pointer: '/routes/0/response/x', suggestion: 'query' }])
})

test('HEAD is answered as GET, unless the app has its own route for it or turns it off', async (t) => {
  const routes: ConfigInput['routes'] = [{ path: '/a/:id', method: 'get', response: { id: '{{params.id}}' } }]
  const start = async (app: FastifyInstance, withOpenapi = false) => {
    t.teardown(() => app.close())
    decorateDatabase(app)
    await app.register(rateLimit)
    if (withOpenapi) await app.register(openapi)
    await app.register(configRoutes, { routes, env: {} })
  }
  const answer = async (app: FastifyInstance, withOpenapi: boolean) => {
    await start(app, withOpenapi)
    const { statusCode, headers } = await app.inject({ method: 'HEAD', url: '/a/1' })
    return [statusCode, headers['content-length']]
  }
  for (const withOpenapi of [false, true]) {
    t.strictSame(await answer(Fastify(), withOpenapi), [200, '10'])
    t.match(await answer(Fastify({ exposeHeadRoutes: false }), withOpenapi), [404])
    const own = Fastify()
    own.head('/a/:key', async (_request, reply) => await reply.code(204).send())
    t.match(await answer(own, withOpenapi), [204])
  }

  const app = Fastify()
  await app.register(swagger, { openapi: {} })
  await start(app)
  await app.ready()
  t.strictSame(Object.keys(app.swagger().paths?.['/a/{id}'] ?? {}), ['get'], 'the documentation of the app has no HEAD')
})
