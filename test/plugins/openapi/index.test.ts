import { Validator } from '@seriousme/openapi-schema-validator'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import auth from '../../../plugins/auth/index.js'
import conventions, { errorResponses } from '../../../plugins/conventions.js'
import health from '../../../plugins/health.js'
import type { Documentation } from '../../../plugins/openapi/documentation.js'
import openapi from '../../../plugins/openapi/index.js'
import rateLimit from '../../../plugins/rate-limit/index.js'
import tenancy from '../../../plugins/tenancy.js'
import { testSecret } from '../../helpers/tokens.js'

const article = { type: 'object', properties: { id: { type: 'string', format: 'uuid' }, subtitle: { type: ['string', 'null'] }, note: { type: 'string', nullable: true } } }

function createApp (documentation: Documentation | (() => Documentation) = {}): FastifyInstance {
  const app = Fastify()
  app.register(auth, { jwt: { secret: testSecret } })
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
        querystring: { type: 'object', properties: { limit: { type: 'integer', minimum: 0, description: 'Rows.' } }, required: ['limit'] },
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
  app.register(async (group) => { group.route({ method: ['GET', 'POST'], url: '/plain', handler: async () => ({}) }) })
  return app
}

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

t.test('every route is there, with the parameters of its path, and what is internal is not', async (t) => {
  const { paths } = await documentOf(createApp())
  t.same(Object.keys(paths).sort(), ['/articles', '/articles/{id}', '/articles/{id}/reviews/{review}', '/health', '/plain'])
  t.same(Object.keys(paths['/articles']), ['get'], 'no HEAD')
  t.same(Object.keys(paths['/plain']), ['get', 'post'])
  t.match(paths['/articles/{id}'].put.parameters[0], { in: 'path', name: 'id', required: true, description: 'Which.', schema: { type: 'string', format: 'uuid' } })
  t.match(paths['/articles/{id}/reviews/{review}'].delete.parameters, [{ in: 'path', name: 'id', required: true }, { in: 'path', name: 'review', required: true }])
  t.match(paths['/articles'].get.parameters, [{ in: 'query', name: 'limit', required: true, schema: { type: 'integer', minimum: 0 } }, { $ref: '#/components/parameters/TenantId' }])
})

t.test('operation ids are unique, and tags are listed', async (t) => {
  const app = createApp({ operationId: 'getArticles' })
  const { paths, tags } = await documentOf(app)
  const ids = Object.values<Record<string, { operationId: string }>>(paths).flatMap((path) => Object.values(path).map(({ operationId }) => operationId))
  t.same(ids.sort(), ['getArticles', 'getArticles2', 'getHealth', 'getPlain', 'postPlain', 'putArticlesById'])
  t.same(tags, [{ name: 'System' }, { name: 'Articles' }])
})

t.test('references lead to components, and null is a type', async (t) => {
  const { paths, components } = await documentOf(createApp())
  t.same(paths['/articles'].get.responses['200'], { description: 'A page', content: { 'application/json': { schema: { type: 'array', items: { $ref: '#/components/schemas/Article' } } } } })
  t.same(paths['/articles/{id}'].put.requestBody, { required: true, content: { 'application/json': { schema: { $ref: '#/components/schemas/Article' } } } })
  t.same(components.schemas.Article.properties, { ...article.properties, note: { type: ['string', 'null'] } })
  t.same(components.schemas.Error.required, ['error', 'message', 'code', 'requestId'])
})

t.test('errors and security follow from the access that a route declares', async (t) => {
  const { paths } = await documentOf(createApp({ errors: [404] }))
  const told = (operation: { responses: object, security?: unknown }) => [Object.keys(operation.responses).join(' '), operation.security]
  t.same(told(paths['/health'].get), ['200 500 503', []])
  t.same(told(paths['/articles'].get), ['200 400 401 403 429 500', [{}, { bearer: [] }]])
  t.same(told(paths['/articles/{id}'].put), ['204 400 401 403 404 429 500', [{ bearer: [] }]])
  t.same(told(paths['/articles/{id}/reviews/{review}'].delete), ['200 400 401 403 404 429 500', [{ bearer: [] }]])
  t.same(told(paths['/plain'].get), ['200', undefined])
  t.same(paths['/articles/{id}'].put.responses['404'], { description: 'Not Found', content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } })
  t.same(paths['/articles/{id}'].put.responses['204'], { description: 'No Content' })
})

t.test('the document is composed once, and anew after it was invalidated', async (t) => {
  let asked = 0
  const app = createApp(() => ({ summary: `asked ${++asked}` }))
  const path = '/articles/{id}/reviews/{review}'
  t.equal((await documentOf(app)).paths[path].delete.summary, 'asked 1')
  t.equal((await documentOf(app)).paths[path].delete.summary, 'asked 1')
  app.openapi.invalidate()
  t.equal((await documentOf(app)).paths[path].delete.summary, 'asked 2')
})

t.test('the pages are served with the document, to anyone', async (t) => {
  const app = createApp()
  const page = await app.inject('/ui')
  t.equal(page.statusCode, 200)
  t.match(page.headers['content-type'], /text\/html/)
  t.notMatch(page.headers['content-security-policy'], /upgrade-insecure-requests/)
  const files = Array.from(page.body.matchAll(/(?:src|href)="\.?(?:\/ui)?([^"]+)"/g), ([, path = '']) => path)
  t.ok(files.length > 3)
  for (const path of files) t.equal((await app.inject(`/ui${path}`)).statusCode, 200, path)
  t.equal((await app.inject('/ui/json')).body, (await app.inject('/doc')).body)
  t.match((await app.inject('/doc')).headers['content-type'], /application\/json/)
})

t.test('the plugin stands alone, and the pages can be left out', async (t) => {
  const app = Fastify()
  await app.register(openapi, { ui: false })
  app.get('/mine', async () => ({}))
  t.equal((await app.inject('/ui')).statusCode, 404)
  const document = await documentOf(app)
  t.same(Object.keys(document.paths), ['/mine'])
  t.ok((await new Validator().validate(document)).valid)
})
