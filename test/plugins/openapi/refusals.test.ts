/** `/doc` of the whole server: errors of plans and limits, and the headers of limits. */
import { Validator } from '@seriousme/openapi-schema-validator'
import t from 'tap'
import { schemaWithoutReferences } from '../../helpers/openapi.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller } from '../../http/caller.js'

const limitHeaders = ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset']
const tokens = { resource: 'llm', metric: 'tokens' }
const never = { max: 1000, windowMs: 60_000 }
const rule = (limit: number) => ({ ...tokens, period: 'total', limit, gateAction: 'block' })

const app = await testServer(t, {
  rateLimit: { enabled: true },
  rbac: { enabled: true },
  plans: { free: { limits: { tenantConfig: { maxSecrets: 0 } } } },
  routes: [
    { path: '/tea', method: 'get', rateLimit: { max: 1, windowMs: 60_000, statusCode: 418 }, response: { tea: true } },
    { path: '/away', method: 'get', rateLimit: { ...never, statusCode: 503 }, response: { away: false } },
    { path: '/kept', method: 'get', cache: { enabled: true }, response: { kept: true } },
    { path: '/ask', method: 'post', requireAuth: true, resourceLimit: tokens, response: { asked: true } }
  ]
}, { tenants: ['acme'] })
const admin = caller(t, app, { token: signToken({ tenant_id: 'acme', sub: 'ada', role: 'admin' }) })

interface Shown {
  readonly headers?: object
  readonly content?: Readonly<Record<string, { readonly schema: { readonly $ref?: string } }>>
  readonly $ref?: string
}

async function documentOf (ask = admin) {
  const { body } = await ask('GET /doc')
  const document = Object(body)
  const responsesOf = (method: string, path: string): Record<string, Shown> => document.paths[path][method].responses
  return {
    document,
    responsesOf,
    component: (response: Shown | undefined) => response?.$ref ?? response?.content?.['application/json']?.schema.$ref
  }
}

t.test('rejections have their own bodies, one component each, and responses match them', async (t) => {
  const { document, responsesOf, component } = await documentOf()
  const { valid, errors } = await new Validator().validate(structuredClone(document))
  t.ok(valid, JSON.stringify(errors))
  const { schemas } = document.components
  for (
    const [method, path] of [['post', '/tenant/secrets'], ['post', '/tenant/secrets/{key}/rotate'], [
      'post',
      '/tenant/secrets/rotate'
    ]] as const
  ) {
    t.equal(component(responsesOf(method, path)['402']), '#/components/schemas/PlanLimitError', path)
  }
  for (const path of ['/tenant/limits/resources/track', '/ask']) {
    t.equal(component(responsesOf('post', path)['402']), '#/components/schemas/ResourceLimitError', path)
  }
  t.equal(component(responsesOf('get', '/kept')['400']), '#/components/schemas/ErrorResponse')

  const plan = await admin('POST /tenant/secrets', { body: { key: 'a', value: 'v' } })
  t.match(plan, { status: 402, body: { allowed: false, upgrade: { plan: 'pro', limit: 50 } } }, 'its schema drops nothing')
  t.strictSame(Object.keys(plan.body).sort(), [...schemas.PlanLimitError.required].sort())
  t.equal((await admin('PUT /tenant/limits/resources', { body: [rule(0)] })).status, 200)
  for (const response of [await admin('POST /ask', { body: {} }), await admin('POST /tenant/limits/resources/track', { body: tokens })]) {
    t.match(response, { status: 402, body: { allowed: false, gateAction: 'block', usage: { current: 0, limit: 0 } } })
    t.strictSame(Object.keys(response.body).sort(), [...schemas.ResourceLimitError.required].sort())
  }
  await admin('GET /tea')
  const tea = await admin('GET /tea')
  t.match(tea, { status: 418, body: { retryAfter: Number } })
  t.strictSame(Object.keys(tea.body).sort(), [...schemas.RateLimitError.required].sort())
})

t.test('the identity endpoints document their inputs and errors', async (t) => {
  const { document: { paths } } = await documentOf()
  const bearer = [{ bearer: [] }]
  const withKeys = [{ bearer: [] }, { apiKey: [] }]
  const documented: ReadonlyArray<readonly [string, string, readonly object[], string]> = [
    ['post', '/auth/login', [], '401 403 429 503'],
    ['post', '/auth/register', [], '403 404 409 429 503'],
    ['post', '/auth/mfa/verify', [{ partialToken: [] }, {}], '401 403 404 429 503'],
    ['post', '/auth/logout', bearer, '400 401 403 404 429 503'],
    ['post', '/auth/logout-all', bearer, '400 401 403 404 429 503'],
    ['post', '/mfa/setup', bearer, '401 403 404 409 429 503'],
    ['post', '/mfa/enable', bearer, '401 403 404 409 429 503'],
    ['get', '/mfa/backup-codes', bearer, '401 403 404 409 429 503'],
    ['post', '/rbac/roles', withKeys, '401 403 404 409 429 503'],
    ['delete', '/rbac/unassign', withKeys, '401 403 404 429 503'],
    ['get', '/audit', withKeys, '401 403 404 429 503']
  ]
  for (const [method, path, security, statuses] of documented) {
    const operation = paths[path][method]
    t.same(operation.security, security, path)
    t.same(statuses.split(' ').filter((status) => operation.responses[status] === undefined), [], path)
  }
  for (
    const [method, path] of [['post', '/auth/logout'], ['post', '/auth/logout-all'], ['post', '/mfa/setup'], [
      'delete',
      '/rbac/unassign'
    ]] as const
  ) {
    t.equal(paths[path][method].requestBody.required, false, path)
  }
  for (const path of ['/auth/login', '/auth/register']) {
    t.match(paths[path].post.parameters, [{ in: 'header', name: 'X-Tenant-ID', required: false }], path)
  }
})

t.test('the billing endpoints document their inputs, responses and errors', async (t) => {
  const { document, component } = await documentOf()
  const { valid, errors } = await new Validator().validate(structuredClone(document))
  t.ok(valid, JSON.stringify(errors))
  const withKeys = [{ bearer: [] }, { apiKey: [] }]
  const tenants = '400 401 403 404 424 429 431 500 502 503 504'
  const webhook = '400 401 413 415 429 431 500 503'
  const documented: ReadonlyArray<readonly [string, string, readonly object[], members: string, refusals: string]> = [
    ['get', '/billing/plans', [], 'plans', '400 429 431 500'],
    ['get', '/billing/subscription', withKeys, 'tenantId subscription', '400 401 403 404 429 431 500 503'],
    ['get', '/billing/usage', withKeys, 'tenantId plan usage', '400 401 403 404 429 431 500 503'],
    ['post', '/billing/upgrade', withKeys, 'success checkoutUrl session', '400 401 403 404 409 413 415 429 431 500 502 503 504'],
    ['post', '/billing/subscription/sync', withKeys, 'success subscription', '400 401 403 404 413 415 429 431 500 502 503 504'],
    ['post', '/billing/webhook/payprov', [], 'received', webhook],
    ['post', '/webhooks/billing/altprov', [], 'received', webhook],
    ['get', '/billing/tenant/products', withKeys, 'items', tenants],
    ['post', '/billing/tenant/products', withKeys, 'id name description prices', `409 413 415 ${tenants}`],
    ['post', '/billing/tenant/checkout', withKeys, 'id url', `409 413 415 ${tenants}`],
    ['get', '/billing/tenant/customers', withKeys, 'items', tenants],
    ['get', '/billing/tenant/subscriptions', withKeys, 'items', tenants],
    ['delete', '/billing/tenant/subscriptions/{id}', withKeys, 'success subscription cancelAtPeriodEnd', `413 415 ${tenants}`],
    ['get', '/billing/tenant/customers/{id}/state', withKeys, 'customerId hasActiveSubscription subscriptions', tenants]
  ]
  for (const [method, path, security, members, refusals] of documented) {
    const { responses, ...operation } = document.paths[path][method]
    const name = `${method} ${path}`
    const [[status, response] = ['none'], ...others] = Object.entries<Shown>(responses)
    t.match(status, /^20[01]$/, name)
    t.strictSame(
      Object(schemaWithoutReferences(document, response?.content?.['application/json']?.schema)).required,
      members.split(' '),
      name
    )
    t.strictSame(others.map(([status]) => status).sort(), refusals.split(' ').sort(), name)
    for (const [status, refusal] of others) t.match(component(refusal), /^#\/components\/(schemas|responses)\/\w+$/, `${name} ${status}`)
    t.same(operation.security, security, name)
    t.ok(operation.summary !== undefined && operation.tags.length === 1, name)
    t.equal(operation.requestBody !== undefined, method === 'post', name)
  }
})

t.test('without a higher plan the upgrade is null', async (t) => {
  const server = await testServer(t, {
    plans: Object.fromEntries(
      ['free', 'pro', 'team', 'scale', 'enterprise'].map((tier) => [tier, { limits: { tenantConfig: { maxSecrets: 0 } } }])
    )
  }, { tenants: ['acme'] })
  const ask = caller(t, server, { token: signToken({ tenant_id: 'acme', sub: 'ada', role: 'admin' }) })
  t.match(await ask('POST /tenant/secrets', { body: { key: 'a', value: 'v' } }), { status: 402, body: { upgrade: null } })
})

t.test('limited routes document the limit headers of successes, and Retry-After of rejections', async (t) => {
  const { document, responsesOf } = await documentOf()
  const { headers, responses } = document.components
  t.strictSame(Object.keys(responses.RateLimited.headers), [...limitHeaders, 'Retry-After'])
  for (
    const [method, path] of [['get', '/kept'], ['get', '/tenant/info'], ['post', '/tenant/secrets'], ['get', '/billing/plans']] as const
  ) {
    const documented = responsesOf(method, path)
    t.match(Object.keys(documented['200']?.headers ?? {}), limitHeaders, path)
    t.strictSame(documented['429'], { $ref: '#/components/responses/RateLimited' }, path)
  }
  t.strictSame(Object.keys(responsesOf('get', '/kept')['200']?.headers ?? {}), [...limitHeaders, 'X-Cache'])
  t.strictSame(Object.keys(responsesOf('get', '/health')['200']?.headers ?? {}), [])

  const response = await admin('GET /kept')
  for (const name of Object.keys(headers).filter((name) => !['Retry-After', 'Location'].includes(name))) {
    t.ok(response.headers[name.toLowerCase()] !== undefined, name)
  }
  t.ok((await admin('GET /tea')).headers['retry-after'] !== undefined)
  t.match(await admin('PUT /tea'), { status: 405, headers: { allow: 'GET, HEAD' } })
  t.notOk('MethodNotAllowed' in responses)
})

t.test('a rule with its own status adds it, and keeps its other meanings', async (t) => {
  const { responsesOf, component } = await documentOf()
  t.strictSame(responsesOf('get', '/tea')['418'], { $ref: '#/components/responses/RateLimited' })
  t.strictSame(responsesOf('get', '/tea')['429'], { $ref: '#/components/responses/RateLimited' }, "the plan's")
  t.equal(component(responsesOf('get', '/away')['503']), '#/components/schemas/ErrorResponse')
  t.notOk(Object.hasOwn(responsesOf('get', '/kept'), '418'))
})

t.test("routes of tenants document the server's limits and their own", async (t) => {
  const routes = [
    { path: '/mine', method: 'get', rateLimit: { ...never, statusCode: 420 }, cache: { enabled: true }, response: { mine: true } },
    { path: '/plain', method: 'get', response: { plain: true } }
  ]
  t.equal((await admin('POST /tenant/config', { body: { routes } })).status, 200)
  const { responsesOf } = await documentOf()
  t.strictSame(Object.keys(responsesOf('get', '/mine')['200']?.headers ?? {}), [...limitHeaders, 'X-Cache'])
  for (const status of ['420', '429']) t.strictSame(responsesOf('get', '/mine')[status], { $ref: '#/components/responses/RateLimited' })
  t.strictSame(Object.keys(responsesOf('get', '/plain')['200']?.headers ?? {}), limitHeaders)
  t.notOk(Object.hasOwn(responsesOf('get', '/plain'), '420'))
})

t.test('every endpoint whose method may have a body documents 413 and 415', async (t) => {
  const { document } = await documentOf()
  for (const [path, item] of Object.entries<Record<string, { responses: object }>>(document.paths)) {
    for (const [method, { responses }] of Object.entries(item)) {
      if (method !== 'get') t.match(Object.keys(responses).join(' '), /413 415/, `${method} ${path}`)
    }
  }
})

t.test('without limits no route documents any', async (t) => {
  const server = await testServer(t, {
    routes: [{ path: '/kept', method: 'get', cache: { enabled: true }, response: { kept: true } }, {
      path: '/own',
      method: 'get',
      rateLimit: { ...never, statusCode: 418 },
      response: { own: true }
    }]
  })
  const { responsesOf } = await documentOf(caller(t, server))
  t.strictSame(Object.keys(responsesOf('get', '/kept')['200']?.headers ?? {}), ['X-Cache'])
  t.strictSame(Object.keys(responsesOf('get', '/own')['200']?.headers ?? {}), limitHeaders, 'except those with their own rule')
  t.notOk(Object.hasOwn(responsesOf('get', '/tenant/info')['200'] ?? {}, 'headers'))
})
