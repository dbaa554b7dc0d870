import fs from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
import Fastify, { type FastifyContextConfig, type FastifyInstance } from 'fastify'
import t from 'tap'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import auth from '../../../plugins/auth/index.js'
import conventions, { errorResponses } from '../../../plugins/conventions/index.js'
import health from '../../../plugins/health/index.js'
import type { Documentation, DocumentedRoute } from '../../../plugins/openapi/documentation.js'
import openapi from '../../../plugins/openapi/index.js'
import rateLimit from '../../../plugins/rate-limit/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import { tenantDocuments } from '../../helpers/tenant-documents.js'
import { testSecret } from '../../helpers/tokens.js'
import { sharedEngine } from '../tenancy/shared-engine.js'

const decorateDatabase = await sharedEngine(t)

const article = {
  type: 'object',
  properties: {
    id: { type: 'string', format: 'uuid', expected: 'what /doc leaves out' },
    subtitle: { type: ['string', 'null'] },
    note: { type: 'string', nullable: true }
  }
}

function createApp (documentation: Documentation | (() => Documentation) = {}): FastifyInstance {
  const app = Fastify()
  app.register(auth, { jwt: { secret: testSecret } })
  decorateDatabase(app)
  app.register(tenancy)
  app.register(rateLimit)
  app.register(openapi, { title: 'Articles', version: '3.2.1', description: 'All of them.' })
  app.register(health)
  app.register(async (group) => {
    await group.register(conventions)
    group.addSchema({ $id: 'Article', ...article })
    group.get('/articles', {
      config: { access: 'open' },
      schema: {
        tags: ['Articles'],
        summary: 'List articles',
        querystring: {
          type: 'object',
          properties: { limit: { type: 'integer', minimum: 0, description: 'Rows.' }, filter: { type: 'object' } },
          required: ['limit']
        },
        response: { 200: { description: 'A page', type: 'array', items: { $ref: 'Article#' } } }
      }
    }, async () => [])
    group.put('/articles/:id', {
      config: { access: 'user' },
      schema: {
        params: { type: 'object', properties: { id: { type: 'string', format: 'uuid', description: 'Which.' } } },
        body: { $ref: 'Article#' },
        response: { 204: { type: 'null' }, ...errorResponses(404) }
      },
      validatorCompiler: () => () => true
    }, async () => null)
    group.delete('/articles/:id/reviews/:review', { config: { access: 'platform-admin', openapi: documentation } }, async () => ({}))
    group.get('/hidden', { schema: { hide: true } }, async () => ({}))
    group.get('/hidden/too', { config: { openapi: false } }, async () => ({}))
  })
  app.register(async (group) => {
    group.route({ method: ['GET', 'POST'], url: '/plain', handler: async () => ({}) })
  })
  return app
}

/** Headers of responses of limited routes. */
const headers = Object.fromEntries(
  ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'].map((name) => [name, { $ref: `#/components/headers/${name}` }])
)

async function documentOf (app: FastifyInstance) {
  return (await app.inject('/doc')).json()
}

t.test('the document is valid OpenAPI 3.1', async (t) => {
  const document = await documentOf(createApp({
    summary: 'Delete a review',
    querystring: { type: 'object', properties: { hard: { type: 'boolean' } } },
    response: { 200: { description: 'Success', type: 'object', properties: { success: { type: 'boolean' } } }, '4xx': {} },
    errors: [404, 409, 503],
    security: [{ bearer: [] }]
  }))
  const { valid, errors } = await new Validator().validate(document)
  t.ok(valid, JSON.stringify(errors))
  t.match(document, { openapi: '3.1.0', info: { title: 'Articles', version: '3.2.1', description: 'All of them.' } })
})

t.test('every route is documented with its path parameters, except internal ones', async (t) => {
  const { paths } = await documentOf(createApp())
  t.same(Object.keys(paths).sort(), ['/articles', '/articles/{id}', '/articles/{id}/reviews/{review}', '/doc', '/health', '/plain', '/ui'])
  t.same(Object.keys(paths['/articles']), ['get'], 'no HEAD')
  t.same(Object.keys(paths['/plain']), ['get', 'post'])
  t.match(paths['/articles/{id}'].put.parameters[0], {
    in: 'path',
    name: 'id',
    required: true,
    description: 'Which.',
    schema: { type: 'string', format: 'uuid' }
  })
  t.match(paths['/articles/{id}/reviews/{review}'].delete.parameters, [{ in: 'path', name: 'id', required: true }, {
    in: 'path',
    name: 'review',
    required: true
  }])
  t.match(paths['/articles'].get.parameters, [{ in: 'query', name: 'limit', required: true, schema: { type: 'integer', minimum: 0 } }, {
    in: 'query',
    name: 'filter',
    style: 'deepObject',
    explode: true
  }, { $ref: '#/components/parameters/TenantId' }])
})

t.test('operation ids are unique, and tags are listed', async (t) => {
  const app = createApp({ operationId: 'getArticles' })
  const { paths, tags } = await documentOf(app)
  const ids = Object.values<Record<string, { operationId: string }>>(paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId)
  )
  t.same(ids.sort(), ['getArticles', 'getArticles2', 'getDoc', 'getHealth', 'getPlain', 'getUi', 'postPlain', 'putArticlesById'])
  t.same(tags.map(({ name }: { name: string }) => name), ['Articles', 'articles', 'plain', 'System'], 'the built-in groups are last')
})

t.test('references point to components, and null is a type', async (t) => {
  const { paths, components } = await documentOf(createApp())
  t.same(paths['/articles'].get.responses['200'], {
    description: 'A page',
    headers,
    content: { 'application/json': { schema: { type: 'array', items: { $ref: '#/components/schemas/Article' } } } }
  })
  t.same(paths['/articles/{id}'].put.requestBody, {
    required: true,
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Article' } } }
  })
  t.same(components.schemas.Article.properties, {
    ...article.properties,
    id: { type: 'string', format: 'uuid' },
    note: { type: ['string', 'null'] }
  })
  t.same(components.schemas.ErrorResponse.required, ['error', 'message', 'code', 'requestId'])
})

t.test("errors and security follow from a route's declared access", async (t) => {
  const { paths } = await documentOf(createApp({ errors: [404] }))
  const summaryOf = (operation: { responses: object, security?: unknown }) => [Object.keys(operation.responses).join(' '), operation.security]
  t.same(summaryOf(paths['/health'].get), ['200 400 431 500 503', []])
  t.same(summaryOf(paths['/articles'].get), ['200 400 401 403 404 429 431 500', [{}, { bearer: [] }, { apiKey: [] }]])
  t.same(summaryOf(paths['/articles/{id}'].put), ['204 400 401 403 404 413 415 429 431 500', [{ bearer: [] }, { apiKey: [] }]])
  t.same(summaryOf(paths['/articles/{id}/reviews/{review}'].delete), ['200 400 401 403 404 413 415 429 431 500', [{ bearer: [] }, { apiKey: [] }]])
  t.same(summaryOf(paths['/plain'].get), ['200', undefined])
  t.same(paths['/articles/{id}'].put.responses['404'], {
    description: 'Not Found',
    content: { 'application/json': { schema: { $ref: '#/components/schemas/ErrorResponse' } } }
  })
  t.same(paths['/articles/{id}'].put.responses['204'], { description: 'No Content', headers })
  t.same(paths['/articles/{id}'].put.responses['429'], { $ref: '#/components/responses/RateLimited' })
})

t.test('the document shows requirements on callers beyond a token', async (t) => {
  const app = createApp()
  app.register(async (group) => {
    await group.register(conventions)
    const route = (url: string, config: FastifyContextConfig, more: object = {}) =>
      group.post(url, { config, schema: { body: { type: 'object' }, ...more } }, async () => ({}))
    route('/second-factor', { access: 'partial' })
    route('/settings', { access: 'tenant-admin', permission: 'settings:write' }, { description: 'All of them.', bodyOptional: true })
    route('/tenant', { access: 'tenant-admin' })
    route('/reports', { access: 'user', permissions: ['reports:read', 'reports:write'] })
  })
  const document = await documentOf(app)
  const { valid, errors } = await new Validator().validate(structuredClone(document))
  t.ok(valid, JSON.stringify(errors))
  const { paths, components } = document
  t.same(['/second-factor', '/settings', '/tenant', '/reports'].map((path) => paths[path].post.description), [
    undefined,
    'All of them.\n\nRequires an administrator of the tenant, or the permission `settings:write`.',
    'Requires an administrator of the tenant.',
    'Requires `reports:read` and `reports:write`.'
  ])
  t.equal(paths['/articles/{id}/reviews/{review}'].delete.description, 'Requires a platform administrator.')
  t.same(paths['/second-factor'].post.security, [{ partialToken: [] }, {}])
  t.match(components.securitySchemes.partialToken, { type: 'http', scheme: 'bearer' })
  t.equal(paths['/settings'].post.requestBody.required, false)
  t.equal(paths['/tenant'].post.requestBody.required, true)
  t.notOk((await documentOf(createApp())).components.securitySchemes.partialToken, 'without a route for partial tokens')
})

t.test('the document is composed once, and again after it is invalidated', async (t) => {
  let asked = 0
  const app = createApp(() => ({ summary: `asked ${++asked}` }))
  const path = '/articles/{id}/reviews/{review}'
  t.equal((await documentOf(app)).paths[path].delete.summary, 'asked 1')
  t.equal((await documentOf(app)).paths[path].delete.summary, 'asked 1')
  app.openapi.invalidate()
  t.equal((await documentOf(app)).paths[path].delete.summary, 'asked 2')
})

/** A route that a plugin adds for some callers. */
function further (method: string, url: string, openapi: Documentation = {}): DocumentedRoute {
  return { methods: [method], url, config: { access: 'open', openapi }, schema: undefined }
}

t.test('additional routes join paths of the same shape, and never replace another', async (t) => {
  const app = createApp({ summary: 'Delete a review' })
  const params = { type: 'object', properties: { key: { type: 'string', maxLength: 9 }, number: { type: 'integer' } } }
  app.decorate(
    'tenantDocuments',
    tenantDocuments({
      documentation: () => ({
        tenant: tenantIdOf('acme'),
        key: 'acme',
        routes: () => [
          further('PUT', '/articles/:key/reviews/:number', { params, tags: ['Articles', 'Own'], operationId: 'getArticles' }),
          further('DELETE', '/articles/:key/reviews/:number', { summary: 'of the tenant' }),
          further('GET', '/own/:a/:b', { tags: ['Own'] }),
          further('POST', '/own/:b/:a', { summary: 'the first' }),
          further('POST', '/own/:c/:d', { summary: 'the second' }),
          further('GET', '/articles/:id/reviews', { hide: true })
        ]
      })
    })
  )
  const document = await documentOf(app)
  const { valid, errors } = await new Validator().validate(structuredClone(document))
  t.ok(valid, JSON.stringify(errors))
  const { paths, tags } = document
  t.same(Object.keys(paths).sort(), [
    '/articles',
    '/articles/{id}',
    '/articles/{id}/reviews/{review}',
    '/doc',
    '/health',
    '/own/{a}/{b}',
    '/plain',
    '/ui'
  ])
  const reviews = paths['/articles/{id}/reviews/{review}']
  t.same(Object.keys(reviews), ['delete', 'put'])
  t.equal(reviews.delete.summary, 'Delete a review')
  t.match(reviews.put.parameters, [{ in: 'path', name: 'id', schema: { maxLength: 9 } }, {
    in: 'path',
    name: 'review',
    schema: { type: 'integer' }
  }])
  t.match(paths['/own/{a}/{b}'].post, {
    summary: 'the first',
    operationId: 'postOwnByAByB',
    parameters: [{ name: 'a' }, { name: 'b' }, {}]
  })
  t.same([paths['/articles'].get.operationId, reviews.put.operationId], ['getArticles', 'getArticles2'])
  t.same(tags.map(({ name }: { name: string }) => name), ['Articles', 'articles', 'plain', 'Own', 'own', 'System'])
  t.notMatch(app.openapi.text(), /own/, "the server's own document stays unchanged")
})

t.test('requests that wait for one composition get the same document, and requests after a change a new one', async (t) => {
  const app = createApp()
  let asked = 0
  let failing = true
  app.decorate(
    'tenantDocuments',
    tenantDocuments({
      documentation: () => ({
        tenant: tenantIdOf('acme'),
        key: 'acme',
        routes () {
          asked++
          if (failing) throw new Error('not now')
          return [further('GET', '/own', { summary: `asked ${asked}` })]
        }
      })
    })
  )
  t.equal((await app.inject('/doc')).statusCode, 500)
  failing = false
  const summary = async () => (await documentOf(app)).paths['/own'].get.summary
  t.same(new Set(await Promise.all(Array.from({ length: 5 }, summary))), new Set(['asked 2']))
  t.equal(await summary(), 'asked 2')
  const waiting = summary()
  app.openapi.invalidate()
  await waiting
  t.equal(await summary(), 'asked 3')
})

t.test('operations beyond the size limit are shown without their schemas', async (t) => {
  const app = createApp()
  const text = 'x'.repeat(100_000)
  const routes = Array.from({ length: 100 }, (_, index) =>
    further('POST', `/own${index}/:id`, {
      summary: text,
      tags: ['Own'],
      params: { type: 'object', properties: { id: { type: 'string', pattern: text } } },
      body: { type: 'object', description: text },
      response: { 200: { description: 'Done', type: 'object' } },
      errors: [404]
    }))
  app.decorate('tenantDocuments', tenantDocuments({ documentation: () => ({ tenant: tenantIdOf('acme'), key: 'acme', routes: () => routes }) }))
  const { body } = await app.inject('/doc')
  t.ok(body.length < 4_200_000, `${body.length} characters`)
  const document = JSON.parse(body)
  t.equal(document.paths['/own0/{id}'].post.summary, text)
  const { responses, ...last } = document.paths['/own99/{id}'].post
  t.same(last, {
    operationId: 'postOwn99ById',
    description: 'The schemas of this endpoint are omitted because the document would be too large.',
    tags: ['Own'],
    parameters: [{ in: 'path', name: 'id', required: true, schema: { type: 'string' } }, { $ref: '#/components/parameters/TenantId' }],
    requestBody: { required: true, content: { 'application/json': { schema: {} } } },
    security: [{}, { bearer: [] }, { apiKey: [] }]
  })
  t.same(Object.keys(responses), ['200', '400', '401', '403', '404', '413', '415', '429', '431', '500'])
  const { valid, errors } = await new Validator().validate(document)
  t.ok(valid, JSON.stringify(errors))
})

t.test('the pages are served with the document, to every caller', async (t) => {
  const app = createApp()
  const page = await app.inject('/ui')
  t.equal(page.statusCode, 200)
  t.match(page.headers['content-type'], /text\/html/)
  t.notMatch(page.headers['content-security-policy'], /upgrade-insecure-requests/)
  const files = Array.from(page.body.matchAll(/(?:src|href)="\.?(?:\/ui)?([^"]+)"/g), ([, path = '']) => path)
  t.ok(files.length > 3)
  for (const path of files) t.equal((await app.inject(`/ui${path}`)).statusCode, 200, path)
  t.equal((await app.inject('/ui/json')).body, (await app.inject('/doc')).body)
  t.equal((await app.inject('/ui?lang=en')).statusCode, page.statusCode, 'with a query string of a link')
  const head = await app.inject({ method: 'HEAD', url: '/ui' })
  t.match(head, { statusCode: 200, headers: { 'content-length': String(page.rawPayload.length) } })
  t.match((await app.inject('/ui/static/absent.js')).json(), { code: 'TENANTRY_NOT_FOUND' })
  t.match((await app.inject('/doc')).headers['content-type'], /application\/json/)
})

t.test('the pages are limited for each address, and their files are read once', async (t) => {
  const app = createApp()
  const from = (remoteAddress: string, method: 'GET' | 'HEAD' = 'GET', headers = {}) =>
    app.inject({ method, url: '/ui/static/swagger-ui.css', remoteAddress, headers })
  const first = await from('192.0.2.1')
  t.match(first, { statusCode: 200, headers: { 'content-type': 'text/css; charset=utf-8', 'cache-control': 'public, max-age=0' } })
  const reads = t.capture(fs, 'createReadStream', fs.createReadStream)
  t.ok((await from('192.0.2.1')).rawPayload.equals(first.rawPayload))
  const tag = String(first.headers.etag)
  t.match(await from('192.0.2.1', 'GET', { 'if-none-match': tag }), { statusCode: 304, rawPayload: { length: 0 } })
  for (let count = 4; count <= 100; count++) t.equal((await from('192.0.2.1', 'HEAD')).statusCode, 200)
  t.match((await from('192.0.2.1')).json(), { code: 'TENANTRY_RATE_LIMITED' })
  t.equal((await from('192.0.2.2')).statusCode, 200)
  t.same(reads(), [])
})

t.test('the plugin works alone, and the pages can be left out', async (t) => {
  const app = Fastify()
  await app.register(openapi, { ui: false })
  app.get('/mine', async () => ({}))
  t.equal((await app.inject('/ui')).statusCode, 404)
  const document = await documentOf(app)
  t.same(Object.keys(document.paths).sort(), ['/doc', '/mine'])
  t.ok((await new Validator().validate(document)).valid)
})
