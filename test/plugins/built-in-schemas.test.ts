/** The schemas of built-in endpoints, which a server compiles when a request first needs them. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { test } from 'tap'
import { isRecord } from '../../lib/json/plain-value.js'
import { createServer } from '../../lib/server.js'
import { buildSerializer } from '../../lib/validation/fastify-compilers.js'
import { testEnv } from '../helpers/server.js'
import { testSecret } from '../helpers/tokens.js'

const parts = ['body', 'querystring', 'params', 'headers'] as const

test('the schemas of every built-in endpoint compile', async (t) => {
  const app = createServer({
    routes: [],
    jwt: { secret: testSecret },
    auth: { registration: 'open' },
    rbac: { enabled: true }
  }, { env: testEnv, logger: false })
  t.teardown(() => app.close())
  const routes: { readonly context: FastifyInstance, readonly route: RouteOptions }[] = []
  app.addHook('onRoute', function (route) {
    routes.push({ context: this, route })
  })
  await app.ready()

  let compiled = 0
  for (const { context, route: { method, url, schema = {} } } of routes) {
    const place = `${String(method)} ${url}`
    // The compilers ignore the route's own method.
    const route = { method: 'GET', url } as const
    for (const httpPart of parts) {
      const part = schema[httpPart]
      if (part === undefined || context.validatorCompiler === undefined) continue
      compiled++
      // With lazy compilation, a validator compiles when it is called.
      t.doesNotThrow(() => context.validatorCompiler?.({ ...route, schema: part, httpPart })({}), `${httpPart} of ${place}`)
    }
    for (const [httpStatus, response] of Object.entries(Object(schema.response))) {
      for (const one of contentsOf(response)) {
        compiled++
        t.doesNotThrow(
          () => buildSerializer(context.getSchemas(), {})({ ...route, schema: one, httpStatus }),
          `response ${httpStatus} of ${place}`
        )
      }
    }
  }
  t.ok(routes.length > 100, `${routes.length} routes`)
  t.ok(compiled > 500, `${compiled} schemas`)
})

/** The schema of a response, or one for each of its content types. */
function contentsOf (response: unknown): unknown[] {
  if (!isRecord(response) || !isRecord(response['content'])) return [response]
  return Object.values(response['content']).map((media) => Object(media).schema)
}
