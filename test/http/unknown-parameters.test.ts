import type { RouteOptions } from 'fastify'
import { test } from 'tap'
import { createServer } from '../../lib/server.js'
import { isRecord } from '../../lib/plain-value.js'
import { postgresSection } from '../helpers/postgres.js'
import { testDocument, testEnv } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller, refused } from './caller.js'

test('built-in endpoints refuse parameters that they do not know', async (t) => {
  const engine = await postgresSection(t)
  const app = createServer(testDocument({
    rbac: { enabled: true },
    analytics: { enabled: true },
    auth: { registration: 'open' },
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true } } } },
    routes: [
      { method: 'get', path: '/any', response: { a: '{{query.a || 0}}' } },
      { method: 'get', path: '/declared', request: { query: { a: { type: 'string' } } }, response: { a: '{{query.a}}' } }
    ]
  }, engine), { env: testEnv, logger: false })
  t.teardown(() => app.close())
  const routes = new Map<string, RouteOptions>()
  app.addHook('onRoute', (route) => { for (const method of [route.method].flat()) routes.set(`${method} ${route.url.replace(/:(\w+)/g, '{$1}')}`, route) })
  await app.ready()
  await app.tenants.create({ id: 'acme', name: 'Acme' })
  const platform = caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) })
  const users = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })

  const { paths } = Object((await caller(t, app)('GET /doc')).body)
  let asked = 0
  for (const [path, operations] of Object.entries<Record<string, { requestBody?: unknown }>>(paths)) {
    if (path === '/any' || path === '/declared' || path === '/ui') continue
    for (const [name, { requestBody }] of Object.entries(operations)) {
      const target = `${name.toUpperCase()} ${path}`
      const querystring = routes.get(target)?.schema?.querystring
      t.equal(isRecord(querystring) && querystring['additionalProperties'], false, target)
      // The body is judged first, and those of payment providers are signed.
      if (requestBody !== undefined || path.includes('webhook')) continue
      asked++
      const at = target.replace('{table}', 'notes').replace('{key}', 'k').replace('{name}', 'n').replace(/\{\w+\}/g, '00000000-0000-4000-8000-000000000000')
      const ask = /^\w+ \/(?:mfa|auth|tenant|billing|usage|agent)\b/.test(target) ? users : platform
      const { status, body } = await ask(`${at}?nonsense=1`)
      t.equal(status, 400, target)
      t.match(body.details?.find(({ path }) => path === '/query/nonsense'), { message: /^"nonsense" is not a known field/, keyword: 'additionalProperties' }, target)
    }
  }
  t.ok(asked > 35, `${asked} endpoints without a body were asked`)

  t.match((await platform('GET /tenants?offest=1')).body.details, [{ path: '/query/offest', message: '"offest" is not a known field, did you mean "offset"?' }], 'and name the nearest one')
  refused(t, await caller(t, app)('GET /health?x'), 400, 'VALIDATION_FAILED', 'without a value')
  refused(t, await caller(t, app)('GET /health?__proto__=1'), 400, 'VALIDATION_FAILED', 'a name of every object')
  refused(t, await caller(t, app)('GET /health?constructor=1'), 400, 'VALIDATION_FAILED', 'and another one')
  refused(t, await caller(t, app)('GET /tenants?nonsense=1'), 401, 'TOKEN_MISSING', 'strangers learn nothing')
  refused(t, await users('GET /tenants?nonsense=1'), 403, 'FORBIDDEN', 'nor do those who may not ask')
  refused(t, await platform('POST /tenants?dryRun=true', { body: { id: 'globex', name: 'Globex' } }), 400, 'VALIDATION_FAILED', 'a parameter of another endpoint')
  t.match(await platform('GET /tenants/globex'), { status: 404 }, 'and nothing was made')

  t.same((await caller(t, app)('GET /any?a=1&b=2')).body, { a: '1' }, 'a declared route without `request` takes any')
  refused(t, await caller(t, app)('GET /declared?b=2'), 400, 'VALIDATION_FAILED', 'and one with `request` its own')
})
