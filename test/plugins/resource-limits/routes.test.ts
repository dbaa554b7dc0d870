/** Routes of the platform and of a tenant that declare their use of a limited resource. */
import { test } from 'tap'
import { postgresSection } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { testServer } from '../../helpers/server.js'
import { signToken, type TokenClaims } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'
import { rule } from './app.js'

const limited = { resource: 'llm', metric: 'tokens' }
const document: TestDocument = {
  tables: { notes: { tenantScoped: true, columns: { id: { type: 'text', primaryKey: true }, title: { type: 'text', notNull: true } } } },
  rateLimit: { enabled: false },
  cache: { enabled: true, provider: 'memory' },
  routes: [
    { path: '/one', method: 'get', requireAuth: true, resourceLimit: limited, response: { ok: true } },
    {
      path: '/many',
      method: 'post',
      requiredPermissions: ['notes:write'],
      request: { body: { quantity: { type: 'number' }, title: { type: 'string' } } },
      resourceLimit: { ...limited, amount: '{{body.quantity || 1}}' },
      response: { ok: true }
    },
    { path: '/notes', method: 'post', requireAuth: true, resourceLimit: limited, queries: [{ table: 'notes', operation: 'insert' }] },
    {
      path: '/notes/:id',
      method: 'get',
      requireAuth: true,
      resourceLimit: limited,
      queries: [{ table: 'notes', operation: 'select', id: '{{params.id}}', single: true }]
    },
    { path: '/cached', method: 'get', requireAuth: true, cache: { enabled: true }, resourceLimit: limited, response: { ok: true } },
    {
      path: '/pages',
      method: 'get',
      requireAuth: true,
      request: { query: { pages: { type: 'integer' } } },
      resourceLimit: { ...limited, amount: '{{query.pages}}' },
      response: { ok: true }
    },
    {
      path: '/own',
      method: 'get',
      requireAuth: true,
      resourceLimit: { ...limited, amount: '{{tenant.config.cost}}' },
      response: { ok: true }
    }
  ]
}

test('routes with limits', async (t) => {
  const engine = await postgresSection(t)
  const app = await testServer(t, document, { engine, tenants: ['acme', 'globex'] })
  const as = (claims: TokenClaims) => caller(t, app, { token: signToken({ tenant_id: 'acme', sub: 'uma', ...claims }) })
  const uma = as({ permissions: ['notes:write'] })
  const { resourceLimits: limits } = app
  const used = async (id = 'uma') => (await limits.usage({ tenant: 'acme', id }))[0]?.current
  const set = async (limit = 7, changes = {}) => {
    await limits.replace('acme', [])
    await limits.replace('acme', [rule({ limit, ...changes })])
  }

  await t.test('without a rule they are served like any other', async (t) => {
    t.match(await uma('GET /one'), { status: 200, body: { ok: true } })
  })

  await t.test('each request uses one, and a request over the limit is rejected', async (t) => {
    await set(2)
    t.same([(await uma('GET /one')).status, (await uma('GET /one')).status], [200, 200])
    const refusal = await uma('GET /one')
    refused(t, refusal, 402, 'RESOURCE_LIMIT')
    t.match(refusal.body, {
      error: 'Usage limit exceeded',
      message: 'The limit of llm tokens is 2 a day',
      allowed: false,
      gateAction: 'block',
      usage: { current: 2, limit: 2 }
    })
    t.equal(await used(), 2)
    t.equal((await as({ sub: 'ben' })('GET /one')).status, 200, 'another user has its own')
    t.equal((await as({ tenant_id: 'globex' })('GET /one')).status, 200, 'and so has the same one in another tenant')
    const ops = caller(t, app, { token: signToken({ sub: 'uma', role: 'admin' }), tenant: 'acme' })
    t.equal((await ops('GET /one')).status, 200, "the platform's administrator has none")
    t.equal(await used(), 2)
    for (const gateAction of ['upgrade', 'login'] as const) {
      await set(1, { gateAction })
      await uma('GET /one')
      t.match((await uma('GET /one')).body, { code: 'TENANTRY_RESOURCE_LIMIT', gateAction })
    }
  })

  await t.test('of a hundred concurrent requests only the available number is served', async (t) => {
    await set(7)
    const responses = await Promise.all(Array.from({ length: 100 }, () => uma('GET /one')))
    t.equal(responses.filter(({ status }) => status === 200).length, 7)
    t.equal(responses.filter(({ status }) => status === 402).length, 93)
  })

  await t.test('a value of the request can set the amount', async (t) => {
    await set(7)
    t.equal((await uma('POST /many', { body: { quantity: 5 } })).status, 200)
    t.match((await uma('POST /many', { body: { quantity: 3 } })).body, { usage: { current: 5, limit: 7 } })
    t.equal((await uma('POST /many', { body: {} })).status, 200, 'the default of its template')
    t.equal(await used(), 6)
    for (const quantity of [0, -1, 0.5, 2 ** 53, 1e300]) {
      const response = await uma('POST /many', { body: { quantity } })
      refused(t, response, 400, 'VALIDATION_FAILED', `${quantity}`)
      t.match(response.body.details, [{ path: '/body/quantity', message: /must be a whole number from 1 to 9007199254740991/ }])
    }
    for (const target of ['GET /pages', 'GET /pages?pages=0']) t.match((await uma(target)).body.details, [{ path: '/query/pages' }], target)
    t.match((await uma('GET /own')).body.details, [{ path: '/tenant/config/cost' }])
    t.equal(await used(), 6)
    t.equal((await uma('GET /pages?pages=1')).status, 200)
    t.equal(await used(), 7)
  })

  await t.test('only served requests count', async (t) => {
    await set(7)
    t.equal((await uma('POST /many', { body: { quantity: 'x' } })).status, 400)
    t.equal((await as({})('POST /many', { body: { quantity: 1 } })).status, 403)
    t.equal((await caller(t, app)('GET /one', { tenant: 'acme' })).status, 401)
    t.equal(await used(), 0, 'not those rejected earlier')
    t.equal((await uma('POST /notes', { body: { id: 'a', title: 'x' } })).status, 201)
    t.equal(await used(), 1)
    t.equal((await uma('POST /notes', { body: { id: 'a', title: 'x' } })).status, 409)
    t.equal((await uma('POST /notes', { body: { id: 'b', title: null } })).status, 400)
    t.equal((await uma('GET /notes/none')).status, 404)
    t.equal(await used(), 1, 'failed ones are refunded')
    t.equal((await uma('GET /notes/a')).status, 200)
    t.match([(await uma('GET /cached')).headers['x-cache'], (await uma('GET /cached')).headers['x-cache']], ['MISS', 'HIT'])
    t.equal(await used(), 4, 'a cached response counts too')
  })

  await t.test("a tenant's own routes can have limits", async (t) => {
    const admin = as({ sub: 'ada', role: 'admin' })
    const route = (changes: object) => ({
      path: '/mine',
      method: 'post',
      requireAuth: true,
      resourceLimit: { ...limited, amount: '{{body.n}}' },
      response: { mine: true },
      ...changes
    })
    t.equal((await admin('POST /tenant/config', { body: { settings: { cost: 4 }, routes: [route({})] } })).status, 200)
    await set(7)
    t.equal((await uma('POST /mine', { body: { n: 2 } })).status, 200)
    t.equal((await uma('GET /own')).status, 200, 'its settings set an amount')
    t.equal(await used(), 6)
    t.match((await uma('POST /mine', { body: { n: 2 } })).body, { usage: { current: 6, limit: 7 } })
    for (
      const [changes, message] of [
        [{ requireAuth: false }, /limits require a caller with a token/],
        [{ requireAuth: undefined }, /limits require a caller with a token/],
        [{ resourceLimit: { ...limited, amount: 0 } }, /at least 1/],
        [{ resourceLimit: { ...limited, amount: '{{secret:KEY}}' } }, /`secret` is not available here/],
        [{ resourceLimit: { ...limited, amount: '{{results.notes.id}}' } }, /`results` is not available here/],
        [{ resourceLimit: { ...limited, amount: 'n={{body.n}}' } }, /one template/],
        [{ resourceLimit: { resource: 'llm' } }, /missing/]
      ] as const
    ) {
      const response = await admin('POST /tenant/config', { body: { routes: [route(changes)] } })
      refused(t, response, 400, 'CONFIG_INVALID', JSON.stringify(changes))
      t.match(response.body.details, [{ message }])
    }
  })

  await t.test('the documentation describes the rejection', async (t) => {
    const { paths } = (await uma('GET /doc')).body as { paths?: Record<string, Record<string, { responses: object }>> }
    t.ok(paths?.['/one']?.['get'] !== undefined && '402' in paths['/one']['get'].responses)
    t.ok(
      paths?.['/tenant/limits/resources/track']?.['post'] !== undefined &&
        '402' in paths['/tenant/limits/resources/track']['post'].responses
    )
  })
})

test('a document with a limited route needs the plugin, and one of a tenant does not', async (t) => {
  await t.rejects(
    testServer(t, { ...document, plugins: { 'resource-limits': false } }),
    /\/routes\/0\/resourceLimit: the document disables limits/
  )
  const app = await testServer(t, { plugins: { 'resource-limits': false }, rateLimit: { enabled: false } }, { tenants: ['acme'] })
  const admin = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })
  refused(t, await admin('GET /tenant/limits/resources'), 404, 'NOT_FOUND')
  t.equal(
    (await admin('POST /tenant/config', {
      body: { routes: [{ path: '/mine', method: 'get', requireAuth: true, resourceLimit: limited, response: {} }] }
    })).status,
    200
  )
  t.equal((await admin('GET /mine')).status, 200, 'and without it no tenant has limits')
})
