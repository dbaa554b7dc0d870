/** Own routes validate by schemas of `addSchema`, with the rules of this package. */
import Fastify, { type FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import conventions from '../../../plugins/conventions/index.js'
import { testServer } from '../../helpers/server.js'

const page = { $id: 'page', type: 'object', properties: { limit: { $ref: 'count#' }, ratio: { type: 'number' } }, required: ['limit'] }
const count = { $id: 'count', type: 'integer', minimum: 1 }
const note = {
  $id: 'note',
  type: 'object',
  properties: { title: { type: 'string' }, count: { $ref: 'count#' }, replies: { type: 'array', items: { $ref: '#' } } },
  required: ['title'],
  additionalProperties: false
}

function share (context: FastifyInstance): void {
  for (const schema of [page, count, note]) context.addSchema(schema)
}

function addRoute (context: FastifyInstance): void {
  context.post('/own/:count', {
    schema: {
      params: { type: 'object', properties: { count: { $ref: 'count#' } } },
      querystring: { $ref: 'page#' },
      body: { $ref: 'note#' }
    }
  }, async ({ params, query, body }) => ({ params, query, body }))
}

async function checkRoute (t: Test, app: FastifyInstance): Promise<void> {
  const send = async (url: string, payload: object) => {
    const response = await app.inject({ method: 'POST', url, payload })
    return { status: response.statusCode, body: response.json() }
  }
  const body = { title: 'a', count: 2, replies: [{ title: 'b' }] }
  t.same(await send('/own/3?limit=5&ratio=0.5', body), {
    status: 200,
    body: { params: { count: 3 }, query: { limit: 5, ratio: 0.5 }, body }
  })
  for (
    const [url, payload, path] of [
      ['/own/3?limit=5', { title: 7 }, '/body/title'],
      ['/own/3?limit=5', { title: 'a', count: '2' }, '/body/count'],
      ['/own/3?limit=5', { title: 'a', replies: [{ title: 'b', more: 1 }] }, '/body/replies/0/more'],
      ['/own/3?limit=x', body, '/query/limit'],
      ['/own/3?limit=0x10', body, '/query/limit'],
      ['/own/3?limit=5&ratio=Infinity', body, '/query/ratio'],
      ['/own/0x10?limit=5', body, '/params/count']
    ] as const
  ) t.match(await send(url, payload), { status: 400, body: { code: 'TENANTRY_VALIDATION_FAILED', details: [{ path }] } }, url)
}

const places: ReadonlyArray<readonly [place: string, add: (app: FastifyInstance) => void]> = [
  ['the root', (app) => {
    share(app)
    addRoute(app)
  }],
  ['a parent', (app) => {
    share(app)
    app.register(async (child) => addRoute(child))
  }],
  ['a parent below the root', (app) => {
    app.register(async (parent) => {
      share(parent)
      parent.register(async (child) => addRoute(child))
    })
  }],
  ['its own context', (app) => {
    app.register(async (child) => {
      share(child)
      addRoute(child)
    })
  }]
]

for (const [place, add] of places) {
  test(`a route validates by schemas of ${place}`, async (t) => {
    const app = Fastify()
    t.teardown(() => app.close())
    app.register(conventions, { root: true })
    add(app)
    await checkRoute(t, app)
  })
}

test('a route of a server of createServer validates by schemas of the app', async (t) => {
  const app = await testServer(t, {}, {
    prepare (app) {
      share(app)
      addRoute(app)
    }
  })
  await checkRoute(t, app)
})

test('contexts with different schemas of one id do not share them', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  app.register(conventions, { root: true })
  for (const type of ['number', 'string']) {
    app.register(async (context) => {
      context.addSchema({ $id: 'value', type })
      context.post(`/${type}`, { schema: { body: { $ref: 'value#' } } }, async ({ body }) => typeof body)
    })
  }
  const send = async (url: string, payload: string) =>
    (await app.inject({ method: 'POST', url, payload, headers: { 'content-type': 'application/json' } })).statusCode
  t.same([await send('/number', '7'), await send('/number', '"a"')], [200, 400])
  t.same([await send('/string', '"a"'), await send('/string', '7')], [200, 400])
})

test('a context below keeps its own validator', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  app.register(conventions, { root: true })
  app.register(async (context) => {
    context.setValidatorCompiler(() => (value) => ({ value }))
    context.register(async (child) => {
      child.post('/own', { schema: { body: { type: 'integer' } } }, async ({ body }) => body)
    })
  })
  t.equal((await app.inject({ method: 'POST', url: '/own', payload: { any: true } })).statusCode, 200)
})

test('a number behind a reference within a part of a shared schema is not converted from other texts', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  app.register(conventions, { root: true })
  app.addSchema({
    $id: 'all',
    definitions: {
      page: { type: 'object', properties: { limit: { $ref: '#/definitions/limit' } } },
      limit: { type: 'integer' }
    }
  })
  app.get('/own', { schema: { querystring: { $ref: 'all#/definitions/page' } } }, async ({ query }) => query)
  t.match(await app.inject('/own?limit=16'), { statusCode: 200, body: '{"limit":16}' })
  t.match(await app.inject('/own?limit=0x10'), { statusCode: 400, body: /"\/query\/limit"/ })
})
