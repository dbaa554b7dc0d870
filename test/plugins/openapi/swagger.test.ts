/** `app.swagger()` and the pages, with tenantry's registration of @fastify/swagger and with the app's own. */
import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { Validator } from '@seriousme/openapi-schema-validator'
import Fastify, { type FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import { parse } from 'yaml'
import { createServer } from '../../../lib/server.js'
import auth from '../../../plugins/auth/index.js'
import configRoutes from '../../../plugins/config-routes/index.js'
import conventions, { errorResponses } from '../../../plugins/conventions/index.js'
import database from '../../../plugins/database/index.js'
import health from '../../../plugins/health/index.js'
import { composeDocument } from '../../../plugins/openapi/document.js'
import type { DocumentedRoute } from '../../../plugins/openapi/documentation.js'
import openapi from '../../../plugins/openapi/index.js'
import { builtInGroups } from '../../../plugins/openapi/path-items.js'
import rateLimit from '../../../plugins/rate-limit/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import tenants from '../../../plugins/tenants/index.js'
import { postgresSection } from '../../helpers/postgres.js'
import { type TestDocument, testDocument, testEnv, testServer } from '../../helpers/server.js'
import { signToken, testSecret } from '../../helpers/tokens.js'

const notes = {
  tenantScoped: true,
  columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text', notNull: true } }
} as const
const read: NonNullable<TestDocument['routes']>[number] = {
  path: '/notes',
  method: 'get',
  queries: [{ table: 'notes', operation: 'select' }]
}

/** Every group of endpoints is on. */
const everything: TestDocument = {
  name: 'Notes',
  tables: { notes },
  rateLimit: { enabled: true },
  rbac: { enabled: true },
  analytics: { enabled: true },
  routes: [
    read,
    { path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }] },
    { path: '/notes/:id', method: 'get', queries: [{ table: 'notes', operation: 'select', id: '{{params.id}}' }] },
    { path: '/titles', method: 'get', tags: ['Lists'], queries: [{ table: 'notes', operation: 'select', select: 'title' }] }
  ]
}

async function validity (document: unknown): Promise<unknown> {
  const { valid, errors } = await new Validator().validate(JSON.parse(JSON.stringify(document)))
  return valid || errors
}

const namesOf = (tags: ReadonlyArray<{ readonly name: string }>) => tags.map(({ name }) => name)

test('app.swagger() returns the document of /doc, as an object and as YAML', async (t) => {
  const app = await testServer(t, everything)
  const document = (await app.inject('/doc')).json()
  t.equal(await validity(document), true)
  t.strictSame(app.swagger(), document)
  t.strictSame(parse(app.swagger({ yaml: true })), document)
  const yaml = await app.inject('/ui/yaml')
  t.equal(yaml.statusCode, 200)
  t.match(yaml.headers['content-type'], /yaml/)
  t.strictSame(parse(yaml.body), document)
  t.strictSame((await app.inject('/ui/json')).json(), document)
  t.match(document.info, { title: 'Notes' }, "the title is the document's name")
})

test('app.swagger() follows changes of the documentation, and starts nothing before the first call', async (t) => {
  let composed = 0
  const app = Fastify({ pluginTimeout: 0 })
  await app.register(openapi, { title: 'Own' })
  app.get('/mine', { config: { openapi: () => ({ summary: `composed ${++composed}` }) } }, async () => ({}))
  await app.ready()
  t.equal(composed, 0)
  const summary = (document: unknown) => Object(document).paths['/mine'].get.summary
  t.strictSame([summary(app.swagger()), summary(parse(app.swagger({ yaml: true }))), summary(app.swagger())], Array(3).fill('composed 1'))
  app.openapi.invalidate()
  t.strictSame(
    [summary(parse(app.swagger({ yaml: true }))), summary(app.swagger()), summary((await app.inject('/ui/json')).json())],
    Array(3).fill('composed 2')
  )
})

test('rows, pages, tenants and errors are components, and no object is written twice', async (t) => {
  const app = await testServer(t, everything)
  const { paths, components } = (await app.inject('/doc')).json()
  const schemaOf = (method: string, path: string, status: string) =>
    paths[path][method].responses[status].content['application/json'].schema
  t.strictSame(schemaOf('get', '/notes', '200'), { $ref: '#/components/schemas/NotesPage' })
  t.strictSame(schemaOf('get', '/notes/{id}', '200'), { $ref: '#/components/schemas/NotesRow' })
  t.strictSame(schemaOf('get', '/titles', '200'), { $ref: '#/components/schemas/NotesPage2' })
  t.strictSame(components.schemas.NotesPage.properties, {
    data: { type: 'array', items: { $ref: '#/components/schemas/NotesRow' } },
    pagination: { $ref: '#/components/schemas/Pagination' }
  })
  t.strictSame(Object.keys(components.schemas.NotesRow.properties), ['id', 'title', 'tenant_id'])
  t.strictSame(Object.keys(components.schemas.NotesRow2.properties), ['title'])
  t.strictSame(schemaOf('get', '/tenants', '200'), { $ref: '#/components/schemas/TenantPage' })
  t.strictSame(schemaOf('post', '/tenants', '201'), { $ref: '#/components/schemas/Tenant' })
  t.strictSame(schemaOf('get', '/notes', '400'), { $ref: '#/components/schemas/ErrorResponse' })
  t.notOk(Object.hasOwn(components.schemas, 'Error'), 'the name of a global in generated types')

  const places = new Map<string, string[]>()
  const visit = (value: unknown, place: string) => {
    if (typeof value !== 'object' || value === null) return
    if ('type' in value && value.type === 'object' && 'properties' in value) {
      const text = JSON.stringify(value)
      places.set(text, [...places.get(text) ?? [], place])
    }
    for (const [key, member] of Object.entries(value)) visit(member, `${place}/${key}`)
  }
  visit({ paths, components }, '')
  t.strictSame([...places.values()].filter(({ length }) => length > 1), [])
})

/** The groups of a server without `agent`. */
const served = builtInGroups.filter((name) => !['Models', 'Documents and search', 'Agent', 'MCP'].includes(name))

test('the groups of declared routes come first, then the built-in groups', async (t) => {
  const app = await testServer(t, everything, { tenants: ['acme'] })
  const { tags, paths } = (await app.inject('/doc')).json()
  t.strictSame(namesOf(tags), ['notes', 'Lists', ...served])
  t.strictSame(Object.keys(paths).slice(0, 3), ['/notes', '/notes/{id}', '/titles'])
  t.strictSame(paths['/notes'].get.tags, ['notes'])

  const headers = { authorization: `Bearer ${signToken({ sub: 'ada', tenant_id: 'acme', role: 'admin' })}` }
  const own = {
    routes: [{ ...read, path: '/own/notes' }, {
      path: '/own/titles',
      method: 'get',
      queries: [{ table: 'notes', operation: 'select', select: 'title, id' }]
    }]
  }
  t.equal((await app.inject({ method: 'POST', url: '/tenant/config', headers, payload: own })).statusCode, 200)
  const extended = (await app.inject({ url: '/doc', headers })).json()
  t.equal(await validity(extended), true)
  t.strictSame(namesOf(extended.tags), ['notes', 'Lists', 'own', ...served])
  t.strictSame(Object.keys(extended.paths).slice(2, 5), ['/titles', '/own/notes', '/own/titles'])
  const schemaOf = (path: string) => extended.paths[path].get.responses['200'].content['application/json'].schema
  t.strictSame([schemaOf('/own/notes'), schemaOf('/own/titles')], [{ $ref: '#/components/schemas/NotesPage' }, {
    $ref: '#/components/schemas/NotesPage3'
  }])
  t.notOk(Object.hasOwn(Object(app.swagger()).components.schemas, 'NotesPage3'), "a tenant's components are only in its own document")
})

test("the title comes from the plugin, else the document's name, else API", async (t) => {
  const title = async (document: TestDocument) => (await (await testServer(t, document)).inject('/doc')).json().info.title
  t.equal(await title({ name: 'Notes', plugins: { openapi: { title: 'The API of notes' } } }), 'The API of notes')
  t.equal(await title({}), 'API')
})

test('the endpoints accept a prefix, and can be left out', async (t) => {
  const prefixed = Fastify({ pluginTimeout: 0 })
  await prefixed.register(openapi, { prefix: '/about' })
  t.strictSame(Object.keys((await prefixed.inject('/about/doc')).json().paths), ['/about/doc', '/about/ui'])
  t.equal((await prefixed.inject('/about/ui/json')).statusCode, 200)
  t.equal((await prefixed.inject('/doc')).statusCode, 404)
  const bare = Fastify({ pluginTimeout: 0 })
  await bare.register(openapi, { routes: false })
  bare.get('/mine', async () => ({}))
  for (const url of ['/doc', '/ui']) t.equal((await bare.inject(url)).statusCode, 404, url)
  t.strictSame(Object.keys(Object(bare.swagger()).paths), ['/mine'])
})

test('an unknown option is rejected with the nearest known one', async (t) => {
  const wrong = { ui: true, titel: 'Notes' }
  await t.rejects(async () => Fastify().register(openapi, wrong), { message: /tenantry\/plugins\/openapi.*"titel", did you mean "title"/ })
})

/** An app that registers @fastify/swagger itself, with its own routes. */
async function embedder (t: Test, options: FastifyDynamicSwaggerOptions, pages = false): Promise<FastifyInstance> {
  const section = await postgresSection(t)
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(swagger, options)
  if (pages) await app.register(swaggerUi, { routePrefix: '/documentation' })
  app.addSchema({ $id: 'Order', type: 'object', properties: { id: { type: 'integer' } } })
  app.get('/api/orders/:order', {
    schema: { operationId: 'getNotes', tags: ['Orders'], response: { 200: { description: 'An order', $ref: 'Order#' } } }
  }, async () => ({ id: 1 }))
  await app.register(database, { ...section, tables: { notes }, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(rateLimit, { default: { max: 100, windowMs: 60_000 } })
  await app.register(openapi, { title: 'Not this one' })
  await app.register(tenants)
  await app.register(health)
  await app.register(async (api) => {
    await api.register(configRoutes, { routes: [read] })
  }, { prefix: '/api' })
  app.get('/api/plain', async () => ({}))
  return app
}

test("an app with its own @fastify/swagger has this package's routes in its document, and its own in /doc", async (t) => {
  const openapi = {
    openapi: '3.1.0',
    info: { title: 'Shop', version: '7' },
    servers: [{ url: 'https://shop.example/{base}', variables: { base: { default: 'api' } } }],
    tags: [{ name: 'Orders', description: 'What customers bought.' }]
  }
  const app = await embedder(t, { openapi }, true)
  await app.ready()
  const swagger = Object(app.swagger())
  t.equal(await validity(swagger), true)
  t.same(parse(app.swagger({ yaml: true })), swagger)
  t.match(swagger.info, openapi.info)
  t.strictSame(Object.keys(swagger.paths).sort(), [
    '/doc',
    '/health',
    '/notes',
    '/orders/{order}',
    '/plain',
    '/tenant/info',
    '/tenants',
    '/tenants/{id}'
  ])
  t.match(swagger.paths['/notes'].get, {
    operationId: 'getNotes2',
    tags: ['notes'],
    responses: { 200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/NotesPage' } } } } }
  })
  t.match(
    swagger.paths['/orders/{order}'].get,
    { operationId: 'getNotes', parameters: [{ in: 'path', name: 'order' }] },
    'written by @fastify/swagger'
  )
  t.strictSame((await app.inject('/documentation/json')).json(), swagger)
  t.equal((await app.inject('/ui')).statusCode, 404, 'its own pages show the document')

  const document = (await app.inject('/doc')).json()
  t.equal(await validity(document), true)
  t.strictSame(Object.keys(document.paths).sort(), Object.keys(swagger.paths).sort())
  t.strictSame(document.components, swagger.components)
  t.strictSame(document.tags, [{ name: 'Orders', description: 'What customers bought.' }, { name: 'notes' }, { name: 'Tenants' }, {
    name: 'System'
  }])
  app.openapi.invalidate()
  t.strictSame((await app.inject('/doc')).json(), document)
})

test('the document of an app that writes OpenAPI 3.0 stays valid', async (t) => {
  const app = await embedder(t, { openapi: { info: { title: 'Shop', version: '7' } } })
  await app.ready()
  t.match(app.swagger(), { openapi: '3.0.3' })
  t.equal(await validity(app.swagger()), true)
  t.equal((await app.inject('/ui')).statusCode, 200)
  t.equal((await app.inject('/ui/yaml')).statusCode, 200)

  const routes: DocumentedRoute[] = []
  const server = createServer(testDocument(everything, await postgresSection(t)), { env: testEnv, logger: false })
  t.teardown(() => server.close())
  server.addHook('onRoute', ({ method, url, config, schema }) => {
    if (config?.access !== undefined && method !== 'HEAD') routes.push({ methods: [method].flat(), url, config, schema })
  })
  await server.ready()
  t.ok(routes.length > 100)
  const { text } = composeDocument({
    shell: { openapi: '3.0.3', info: { title: 'Everything', version: '1' } },
    routes,
    schemas: {},
    replaced: new Set(),
    tenancy: true,
    idempotency: false
  })
  t.equal(await validity(JSON.parse(text)), true)
  t.notMatch(text, /"type":\[|"const":|"type":"null"|"examples":/)
})

test('boolean schemas, tuples and nullable references are valid in OpenAPI 3.0', async (t) => {
  const properties = {
    any: true,
    none: false,
    list: { type: 'array', items: true },
    empty: { type: 'array', items: false },
    either: { anyOf: [true, { not: true }] },
    pair: { type: 'array', prefixItems: [{ type: 'string' }, true], items: false },
    older: { type: 'array', items: [{ type: 'string' }, true], additionalItems: false },
    map: { type: 'object', additionalProperties: true },
    order: { $ref: 'Order#', nullable: true, title: 'x' }
  }
  const { text } = composeDocument({
    shell: { openapi: '3.0.3', info: { title: 'Shop', version: '1' } },
    routes: [{ methods: ['GET'], url: '/', config: { access: 'public' }, schema: { response: { 200: { type: 'object', properties } } } }],
    schemas: { Order: { $id: 'Order', type: 'object', properties: { id: { type: 'integer' } } } },
    replaced: new Set(),
    tenancy: false,
    idempotency: false
  })
  const document = JSON.parse(text)
  t.equal(await validity(document), true)
  t.strictSame(document.paths['/'].get.responses['200'].content['application/json'].schema.properties, {
    any: {},
    none: { not: {} },
    list: { type: 'array', items: {} },
    empty: { type: 'array', items: { not: {} } },
    either: { anyOf: [{}, { not: {} }] },
    pair: { type: 'array', items: {} },
    older: { type: 'array', items: {} },
    map: { type: 'object', additionalProperties: true },
    order: { anyOf: [{ $ref: '#/components/schemas/Order' }, { type: 'object', nullable: true, enum: [null] }] }
  })
})

test('an app with a Swagger 2 document fails at start and names OpenAPI', async (t) => {
  const app = await embedder(t, { swagger: { info: { title: 'Shop', version: '7' } } })
  await app.ready()
  t.throws(() => app.swagger(), { message: /register it with the option `openapi`/ })
})

test('a route with a swaggerTransform is left to @fastify/swagger', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  await app.register(openapi, { ui: false })
  await app.register(async (group) => {
    await group.register(conventions)
    group.get('/own/:id', {
      config: { access: 'public', swaggerTransform: ({ schema, url }) => ({ schema: { ...schema, summary: 'transformed' }, url }) },
      schema: { response: { 200: { type: 'object', properties: {} }, ...errorResponses(404) } }
    }, async () => ({}))
  })
  const document = (await app.inject('/doc')).json()
  t.equal(await validity(document), true)
  t.match(document.paths['/own/{id}'].get, { summary: 'transformed', parameters: [{ in: 'path', name: 'id' }] })
})
