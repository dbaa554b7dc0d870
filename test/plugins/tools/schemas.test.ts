/** The schemas of tools that are routes of the app itself. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import Fastify, { type FastifyInstance, type FastifySchema } from 'fastify'
import { type Test, test } from 'tap'
import { Type } from 'typebox'
import auth from '../../../plugins/auth/index.js'
import tools, { type Tool } from '../../../plugins/tools/index.js'
import { testSecret } from '../../helpers/tokens.js'

const note = {
  $id: 'note',
  type: 'object',
  properties: { title: { type: 'string' }, author: { $ref: 'person#' }, replies: { type: 'array', items: { $ref: '#' } } },
  required: ['title'],
  additionalProperties: false
}
const person = {
  $id: 'person',
  type: 'object',
  properties: { name: { $ref: '#/definitions/name' } },
  definitions: { name: { type: 'string' } }
}
const page = { $id: 'page', type: 'object', properties: { limit: { type: 'integer' }, after: { type: 'string' } }, required: ['limit'] }

/** The tool of a route, in an app that shares the schemas. */
async function toolOf (t: Test, schema: FastifySchema): Promise<Tool> {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  app.register(auth, { jwt: { secret: testSecret } })
  app.register(tools)
  app.register(async (context) => {
    addShared(context)
    const tool = { name: 'own', description: 'Returns its body.', readOnly: true, destructive: false }
    context.post('/own/:id', { config: { access: 'open', tool }, schema, validatorCompiler: () => () => true }, async ({ body }) => body)
    context.get('/tools', { config: { access: 'open' } }, async (request) => await context.tools.list(request))
  })
  const [own] = (await app.inject('/tools')).json<Tool[]>()
  if (own === undefined) throw new Error('there is no tool')
  return own
}

function addShared (context: FastifyInstance): void {
  for (const schema of [note, person, page]) context.addSchema(schema)
}

/** Throws for a reference that leads nowhere. */
function checkOf (schema: object): (value: unknown) => boolean {
  const validate = new Ajv2020({ strict: true, strictRequired: false }).compile(schema)
  return (value) => validate(value)
}

test('references to shared schemas lead to definitions of the tool', async (t) => {
  const { inputSchema, outputSchema = {} } = await toolOf(t, {
    params: { type: 'object', properties: { id: { $ref: 'person#/definitions/name' } } },
    querystring: { $ref: 'page#' },
    body: { $ref: 'note#' },
    response: { 200: { $ref: 'note#' } }
  })
  t.match(inputSchema, {
    properties: {
      id: { $ref: '#/$defs/person/definitions/name' },
      limit: { type: 'integer' },
      after: { type: 'string' },
      body: { type: 'object' }
    },
    required: ['id', 'limit', 'body']
  })
  const accepts = checkOf(inputSchema)
  const input = (body: unknown) => ({ id: 'a', limit: 1, body })
  t.ok(accepts(input({ title: 'a', author: { name: 'b' }, replies: [{ title: 'c', replies: [{ title: 'd' }] }] })))
  t.notOk(accepts(input({ title: 'a', author: { name: 7 } })))
  t.notOk(accepts(input({ title: 'a', replies: [{ title: 'b', replies: [{ other: 'c' }] }] })), 'the recursion is kept')
  t.equal(outputSchema['type'], 'object', 'older versions of MCP accept only objects')
  t.ok(checkOf(outputSchema)({ title: 'a', replies: [{ title: 'b' }] }))
  t.notOk(checkOf(outputSchema)({ title: 'a', replies: [{ title: 7 }] }))
  t.notMatch(JSON.stringify([inputSchema, outputSchema]), /"(note|person|page)#|\$id/)
})

test('a body is required if a schema that it refers to requires a member', async (t) => {
  const bodies: object[] = [
    { allOf: [{ $ref: 'note#' }] },
    { anyOf: [{ type: 'object', properties: { text: { type: 'string' } } }, { $ref: 'note#' }] },
    { $ref: 'note#', minProperties: 1 },
    { allOf: [{ type: 'object' }, { allOf: [{ $ref: '#/definitions/titled' }] }], definitions: { titled: { $ref: 'note#' } } }
  ]
  for (const body of bodies) t.strictSame((await toolOf(t, { body })).inputSchema['required'], ['id', 'body'], JSON.stringify(body))
  for (const body of [{ allOf: [{ $ref: 'person#' }] }, { allOf: [{ $ref: '#' }] }]) {
    t.strictSame((await toolOf(t, { body })).inputSchema['required'], ['id'], JSON.stringify(body))
  }
})

test('references within a schema of the route still lead to it', async (t) => {
  const definitions = { word: { type: 'string' } }
  const { inputSchema, outputSchema = {} } = await toolOf(t, {
    querystring: { type: 'object', properties: { word: { $ref: '#/definitions/word' } }, definitions },
    body: { type: 'object', properties: { words: { type: 'array', items: { $ref: '#/definitions/word' } } }, definitions },
    response: { 200: { type: 'object', properties: { word: { $ref: '#/definitions/word' } }, definitions } }
  })
  const accepts = checkOf(inputSchema)
  t.ok(accepts({ id: 'a', word: 'b', body: { words: ['c'] } }))
  t.notOk(accepts({ id: 'a', body: { words: [7] } }))
  t.notOk(accepts({ id: 'a', word: 7 }))
  t.notOk(checkOf(outputSchema)({ word: 7 }))
})

test('parts that a schema names by `$id` are found, with recursive types of TypeBox', async (t) => {
  const node = Type.Cyclic({ Node: Type.Object({ id: Type.String(), nodes: Type.Array(Type.Ref('Node')) }) }, 'Node')
  const good = { id: 'a', nodes: [{ id: 'b', nodes: [] }] }
  const bad = { id: 'a', nodes: [{ id: 'b', nodes: [{ id: 7, nodes: [] }] }] }
  for (const isInner of [false, true]) {
    const schema = isInner ? Type.Object({ tree: node }) : node
    const valueOf = (tree: unknown) => isInner ? { tree } : tree
    const { inputSchema, outputSchema = {} } = await toolOf(t, { body: schema, response: { 200: schema } })
    const accepts = checkOf(inputSchema)
    t.ok(accepts({ id: 'a', body: valueOf(good) }))
    t.notOk(accepts({ id: 'a', body: valueOf(bad) }), 'the recursion is kept')
    t.notOk(accepts({ id: 'a' }))
    t.equal(outputSchema['type'], 'object', 'older versions of MCP accept only objects')
    t.ok(checkOf(outputSchema)(valueOf(good)))
    t.notOk(checkOf(outputSchema)(valueOf(bad)))
  }
})

test('parts with an `$id` or an `$anchor`, and references within them, are found', async (t) => {
  const { inputSchema } = await toolOf(t, {
    querystring: { type: 'object', properties: { from: { $id: 'day', type: 'string' }, to: { $ref: 'day#' } } },
    body: {
      $id: 'order',
      type: 'object',
      properties: {
        'first & last': {
          $id: 'lines',
          type: 'array',
          items: { $ref: '#/definitions/count' },
          definitions: { count: { type: 'integer' } }
        },
        more: { $ref: 'lines' },
        name: { $anchor: 'name', type: 'string' },
        alias: { $ref: '#name' },
        note: { $ref: 'note#' },
        parent: { $ref: 'order' },
        // The name of a member.
        $id: { enum: [{ $id: 'lines' }] }
      }
    }
  })
  const accepts = checkOf(inputSchema)
  const input = (body: object, to: unknown = 'a') => ({ id: 'a', from: 'a', to, body })
  t.ok(accepts(input({ 'first & last': [1], more: [2], name: 'a', alias: 'b', note: { title: 'c' }, parent: { more: [3] } })))
  t.notOk(accepts(input({}, 7)))
  for (const body of [{ 'first & last': ['a'] }, { more: ['a'] }, { alias: 7 }, { note: {} }, { parent: { more: ['a'] } }, { $id: 7 }]) {
    t.notOk(accepts(input(body)), JSON.stringify(body))
  }
})

test('`nullable` is a type of JSON Schema 2020-12', async (t) => {
  const nullable = { type: 'string', nullable: true }
  const { inputSchema, outputSchema = {} } = await toolOf(t, {
    body: {
      type: 'object',
      properties: {
        title: nullable,
        kind: { ...nullable, enum: ['a', 'b'] },
        only: { ...nullable, const: 'a' },
        author: { $ref: 'person#', nullable: true },
        // The name of a member.
        nullable: { type: 'boolean' }
      }
    },
    response: { 200: { type: 'array', items: nullable } }
  })
  t.match(inputSchema, {
    properties: {
      body: {
        properties: {
          title: { type: ['string', 'null'] },
          kind: { type: ['string', 'null'], enum: ['a', 'b', null] },
          only: { type: ['string', 'null'], enum: ['a', null] },
          nullable: { type: 'boolean' }
        }
      }
    }
  })
  t.same(outputSchema, { type: 'array', items: { type: ['string', 'null'] } })
  const accepts = checkOf(inputSchema)
  t.ok(accepts({ id: 'a', body: { title: null, kind: null, only: null, author: null } }))
  t.notOk(accepts({ id: 'a', body: { only: 'b' } }))
})

test('a tool uses the shared schemas of its own context', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tools)
  for (const type of ['number', 'string']) {
    app.register(async (context) => {
      context.addSchema({ $id: 'value', type })
      const tool = { name: type, description: 'Returns a value.', readOnly: true, destructive: false }
      context.get(`/${type}`, { config: { access: 'open', tool }, schema: { response: { 200: { $ref: 'value#' } } } }, async () => 7)
    })
  }
  app.get('/tools', { config: { access: 'open' } }, async (request) => await app.tools.list(request))
  const shown = (await app.inject('/tools')).json<Tool[]>().map(({ outputSchema }) => outputSchema?.['type'])
  t.same(shown, ['number', 'string'])
})

test('a route before the plugin has its shared schemas', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(async (context) => {
    addShared(context)
    const tool = { name: 'early', description: 'Returns a note.', readOnly: true, destructive: false }
    const schema = { response: { 200: { $ref: 'note#' } } }
    context.get('/early', { config: { access: 'open', tool }, schema }, async () => ({ title: 'a' }))
  })
  await app.register(tools)
  app.get('/tools', { config: { access: 'open' } }, async (request) => await app.tools.list(request))
  const [early] = (await app.inject('/tools')).json<Tool[]>()
  t.match(early, { outputSchema: { type: 'object', properties: { title: { type: 'string' } } } })
})
