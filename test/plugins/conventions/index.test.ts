import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import Fastify from 'fastify'
import t from 'tap'
import { failure } from '../../../lib/errors.js'
import { type Page, pageOf, pageQuery } from '../../../lib/http/page.js'
import conventions, { errorResponses } from '../../../plugins/conventions/index.js'
import health from '../../../plugins/health/index.js'

interface LogLine {
  level: number
  msg: string
  err?: { message: string, stack: string }
}

function createApp (lines: LogLine[] = [], level = 'debug'): FastifyInstance {
  const app = Fastify({
    logger: {
      level,
      stream: {
        write: (line: string) => {
          lines.push(JSON.parse(line))
        }
      }
    },
    bodyLimit: 10_000
  })
  app.register(conventions, { root: true })
  app.register(async (group) => {
    await group.register(conventions)
    group.post('/items', {
      schema: {
        body: {
          type: 'object',
          required: ['title'],
          properties: { title: { type: 'string', minLength: 2 }, count: { type: 'integer' } },
          additionalProperties: false
        },
        querystring: { type: 'object', properties: { limit: { type: 'integer' } } },
        response: { 200: { type: 'object', additionalProperties: true }, ...errorResponses(400) }
      }
    }, async ({ body, query }) => ({ body, query }))
    group.post('/any', async ({ body }) => ({ body: body ?? null }))
    group.delete('/any', async ({ body }) => ({ body: body ?? null }))
    group.get('/conflict', async () => {
      throw failure('conflict', { extras: { upgrade: null }, headers: { 'retry-after': '3' } })
    })
    group.get('/bug', async () => {
      throw new Error('relation "tenantry.users" at /srv/app/db.ts')
    })
    group.get('/upstream', async () => {
      throw Object.assign(new Error('the token of the provider is sk_live_1'), { statusCode: 401 })
    })
    group.get('/teapot', async () => {
      throw Object.assign(new Error('I am a teapot'), { statusCode: 418, expose: true })
    })

    group.get('/nothing', async () => {
      // eslint-disable-next-line no-throw-literal
      throw undefined
    })
  })
  return app
}

function post (app: FastifyInstance, url: string, payload: string, contentType = 'application/json'): Promise<LightMyRequestResponse> {
  return app.inject({ method: 'POST', url, payload, headers: { 'content-type': contentType } })
}

t.test("a catalogue error is sent with its body, extras, headers and the request's id", async (t) => {
  const response = await createApp().inject('/conflict')
  t.equal(response.statusCode, 409)
  t.equal(response.headers['retry-after'], '3')
  t.same(response.json(), {
    error: 'Conflict',
    message: 'A record with these values already exists',
    code: 'TENANTRY_CONFLICT',
    requestId: 'req-1',
    upgrade: null
  })
})

t.test('an invalid request is a 400 with details; bodies are not coerced, query strings are', async (t) => {
  const app = createApp()
  const wrong = await post(app, '/items?limit=5', '{"title":"a","count":"3","extra":1}')
  t.equal(wrong.statusCode, 400)
  t.match(wrong.json(), { error: 'Bad Request', message: 'Validation failed', code: 'TENANTRY_VALIDATION_FAILED' })
  t.same(wrong.json().details.map((detail: { path: string, keyword: string }) => `${detail.path} ${detail.keyword}`).sort(), [
    '/body/count type',
    '/body/extra additionalProperties',
    '/body/title minLength'
  ])
  t.match((await post(app, '/items?limit=x', '{"title":"abc"}')).json().details, [{ path: '/query/limit', keyword: 'type' }])
  t.same((await post(app, '/items?limit=5', '{"title":"abc"}')).json(), { body: { title: 'abc' }, query: { limit: 5 } })
})

t.test('a body that cannot be parsed is a 400 with the reason', async (t) => {
  const app = createApp()
  const deep = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  const cases: [string, RegExp][] = [
    ['', /empty/],
    ['{"a":', /not valid JSON/],
    ['{"__proto__":{"admin":true}}', /__proto__/],
    ['{"a":{"constructor":{"prototype":{}}}}', /constructor/],
    [deep(65), /deeper than 64 levels/],
    ['{"a":'.repeat(65), /deeper than 64 levels/]
  ]
  for (const [payload, message] of cases) {
    const response = await post(app, '/any', payload)
    t.equal(response.statusCode, 400, payload.slice(0, 20))
    t.match(response.json(), { code: 'TENANTRY_BAD_REQUEST', message })
  }
  t.equal((await post(app, '/any', deep(64))).statusCode, 200)
})

t.test('brackets in strings do not count as depth', async (t) => {
  const brackets = '[{'.repeat(100)
  const body = { text: brackets, quoted: `\\"${brackets}`, twice: `\\\\"${brackets}`, end: '\\', after: [[1]] }
  t.same((await post(createApp(), '/any', JSON.stringify(body))).json(), { body })
})

t.test('a DELETE with a content type and no body is served', async (t) => {
  const response = await createApp().inject({ method: 'DELETE', url: '/any', headers: { 'content-type': 'application/json' } })
  t.same(response.json(), { body: null })
})

t.test('a body over the limit is 413, another media type 415, an unknown path 404', async (t) => {
  const app = createApp()
  t.match((await post(app, '/any', JSON.stringify('x'.repeat(20_000)))).json(), {
    code: 'TENANTRY_BODY_TOO_LARGE',
    error: 'Payload Too Large'
  })
  const plain = await post(app, '/any', 'text', 'text/plain')
  t.equal(plain.statusCode, 415)
  t.equal(plain.json().code, 'TENANTRY_MEDIA_TYPE_UNSUPPORTED')
  const missing = await app.inject('/missing')
  t.equal(missing.statusCode, 404)
  t.match(missing.json(), { error: 'Not Found', message: 'Resource not found', code: 'TENANTRY_NOT_FOUND', details: [{ keyword: 'route' }] })
})

t.test('other errors are a 500 without details, and are logged with their cause', async (t) => {
  const lines: LogLine[] = []
  const app = createApp(lines)
  for (const url of ['/bug', '/upstream', '/nothing']) {
    const response = await app.inject(url)
    t.equal(response.statusCode, 500, url)
    t.match(response.json(), { error: 'Internal Server Error', message: 'An unexpected error occurred', code: 'TENANTRY_INTERNAL' })
    t.notMatch(response.body, /tenantry\.users|srv|sk_live/)
  }
  const errors = lines.filter(({ level }) => level === 50)
  t.equal(errors.length, 3)
  t.match(errors[0]?.err?.stack, /relation "tenantry\.users"/)
})

t.test('an error marked as safe for the caller keeps its status and message', async (t) => {
  const response = await createApp().inject('/teapot')
  t.equal(response.statusCode, 418)
  t.match(response.json(), { error: "I'm a Teapot", message: 'I am a teapot' })
})

t.test('an error of a handler keeps its 4xx status only with `expose`', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(conventions)
  const mistake = (more: object) => Object.assign(new Error('dueAt must be in the future'), more)
  app.get('/exposed', async () => {
    throw mistake({ statusCode: 400, expose: true })
  })
  app.get('/status', async () => {
    throw mistake({ statusCode: 400 })
  })
  app.get('/reply', async (_request, reply) => reply.code(409).send(mistake({})))
  app.get('/body', async (_request, reply) => reply.code(409).send({ taken: true }))
  t.match((await app.inject('/exposed')).json(), { code: 'TENANTRY_BAD_REQUEST', message: 'dueAt must be in the future' })
  for (const url of ['/status', '/reply']) {
    const response = await app.inject(url)
    t.equal(response.statusCode, 500, url)
    t.match(response.json(), { code: 'TENANTRY_INTERNAL', message: 'An unexpected error occurred' }, url)
  }
  const own = await app.inject('/body')
  t.equal(own.statusCode, 409)
  t.same(own.json(), { taken: true })
})

t.test("a caller's mistake is not logged at level info", async (t) => {
  const lines: LogLine[] = []
  const app = createApp(lines, 'warn')
  await app.inject('/missing')
  await post(app, '/any', '{')
  t.same(lines, [])
})

t.test('the conventions of a group do not affect the rest of the embedding app', async (t) => {
  const app = Fastify()
  app.register(async (group) => {
    await group.register(conventions)
    await group.register(conventions)
    group.get('/ours', async () => {
      throw failure('conflict')
    })
  })
  app.post('/theirs', async ({ body }) => body)
  app.get('/theirs', async () => {
    throw new Error('shown by Fastify')
  })
  t.equal((await app.inject('/ours')).json().code, 'TENANTRY_CONFLICT')
  t.equal((await post(app, '/theirs', 'text', 'text/plain')).body, 'text')
  t.equal((await app.inject('/theirs')).json().message, 'shown by Fastify')
  t.match((await app.inject('/missing')).json().message, /Route GET:\/missing not found/)
})

t.test('conventions may be registered after a plugin with endpoints', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(health, { prefix: '/first' })
  await app.register(async (child) => {
    await child.register(health, { prefix: '/second' })
  })
  await app.register(conventions, { root: true })
  t.throws(
    () => app.addSchema({ $id: 'TenantryError', type: 'string' }),
    { code: 'FST_ERR_SCH_ALREADY_PRESENT' },
    'another schema with the name is rejected'
  )
  app.get('/own', { schema: { response: errorResponses(404) } }, async () => {
    throw failure('notFound')
  })
  await app.register(health, { prefix: '/third' })
  for (const url of ['/own', '/nowhere', '/first/nowhere']) {
    t.match((await app.inject(url)).json(), { error: 'Not Found', code: /^TENANTRY_/, requestId: String }, url)
  }
  for (const place of ['first', 'second', 'third']) t.equal((await app.inject(`/${place}/health`)).statusCode, 200, place)
})

t.test('members of pagination that are missing have the defaults of the document', async (t) => {
  const open = async (pagination: object) => {
    const app = Fastify()
    t.teardown(() => app.close())
    await app.register(conventions, { pagination })
    app.get<{ Querystring: Partial<Page> }>(
      '/page',
      { schema: { querystring: { type: 'object', properties: pageQuery('Items') } } },
      async (request) => pageOf(request)
    )
    return async (query: string) => (await app.inject(`/page${query}`)).json()
  }
  const cases: readonly [object, string, Page][] = [
    [{}, '', { limit: 20, offset: 0 }],
    [{ maxLimit: 50 }, '', { limit: 20, offset: 0 }],
    [{ maxLimit: 50 }, '?limit=80&offset=4', { limit: 50, offset: 4 }],
    [{ maxLimit: 5, defaultLimit: undefined }, '?offset=4', { limit: 5, offset: 4 }],
    [{ defaultLimit: 70 }, '', { limit: 70, offset: 0 }],
    [{ defaultLimit: 70 }, '?limit=500', { limit: 100, offset: 0 }],
    [{ defaultOffset: 3 }, '?limit=1', { limit: 1, offset: 3 }]
  ]
  for (const [pagination, query, page] of cases) t.same(await (await open(pagination))(query), page, JSON.stringify([pagination, query]))
  for (const pagination of [{ defaultLimit: 200 }, { defaultLimit: 60, maxLimit: 50 }]) {
    await t.rejects(open(pagination), { message: /\/pagination\/defaultLimit: expected at most `maxLimit`, which is (100|50)/ })
  }
})

t.test('a method that the path has is a 404 if the handler or a constraint finds nothing', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(conventions, { root: true })
  app.get('/things/:id', async (_request, reply) => reply.callNotFound())
  app.get('/versioned', { constraints: { version: '1.2.0' } }, async () => ({}))
  for (const method of ['GET', 'HEAD', 'POST'] as const) {
    for (const url of ['/things/1', '/versioned']) {
      const { statusCode, headers } = await app.inject({ method, url })
      t.equal(statusCode, method === 'POST' ? 405 : 404, `${method} ${url}`)
      t.equal(headers.allow, method === 'POST' ? 'GET, HEAD' : undefined, `${method} ${url}`)
    }
  }
  const found = await app.inject({ url: '/versioned', headers: { 'accept-version': '1.2.0' } })
  t.equal(found.statusCode, 200)
  t.notOk('details' in (await app.inject('/things/1')).json(), 'details say that no route has the path')
})
