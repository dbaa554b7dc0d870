/** `/doc` contains the schemas that an app shares with `addSchema`. */
import { Validator } from '@seriousme/openapi-schema-validator'
import Fastify from 'fastify'
import { test } from 'tap'
import { Type } from 'typebox'
import openapi from '../../../plugins/openapi/index.js'

test('a shared schema that refers to itself, of a route before the plugin, is a component', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(async (context) => {
    context.addSchema({
      $id: 'tree',
      type: 'object',
      properties: {
        kind: { type: 'string', const: 'tree', nullable: true },
        name: { $ref: '#/definitions/name' },
        children: { type: 'array', items: { $ref: '#' } }
      },
      definitions: { name: { type: 'string' } }
    })
    context.post('/trees', { schema: { body: { $ref: 'tree#' } } }, async ({ body }) => body)
  })
  await app.register(openapi, { ui: false })
  const document = (await app.inject('/doc')).json()
  t.ok((await new Validator().validate(document)).valid)
  t.match(document.paths['/trees'].post.requestBody.content['application/json'].schema, { $ref: '#/components/schemas/tree' })
  t.match(document.components.schemas.tree.properties, {
    kind: { type: ['string', 'null'], enum: ['tree', null] },
    name: { $ref: '#/components/schemas/tree/definitions/name' },
    children: { items: { $ref: '#/components/schemas/tree' } }
  })
})

test('the parameters behind a reference to a shared schema are documented', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(openapi, { ui: false })
  app.addSchema({ $id: 'count', type: 'integer', minimum: 1 })
  app.addSchema({ $id: 'byId', type: 'object', properties: { id: { type: 'string', format: 'uuid' } }, required: ['id'] })
  app.addSchema({ $id: 'traced', $ref: 'all#/definitions/trace' })
  app.addSchema({
    $id: 'all',
    definitions: {
      page: {
        type: 'object',
        properties: {
          limit: { $ref: 'count#' },
          sort: { description: 'The order.', enum: ['asc', 'desc'] },
          filter: { $ref: '#/definitions/filter' }
        },
        required: ['limit']
      },
      filter: { type: 'object', description: 'The rows.', properties: { title: { type: 'string' } } },
      trace: { type: 'object', properties: { 'x-trace': { type: 'string' } } }
    }
  })
  const schema = {
    params: { $ref: 'byId#' },
    querystring: { $ref: 'all#/definitions/page' },
    headers: { type: 'object', $ref: 'traced#', required: ['x-trace'] }
  }
  app.get('/notes/:id', { schema }, async () => ({}))
  const document = (await app.inject('/doc')).json()
  t.ok((await new Validator().validate(document)).valid)
  t.strictSame(document.paths['/notes/{id}'].get.parameters, [
    { in: 'path', name: 'id', required: true, schema: { type: 'string', format: 'uuid' } },
    { in: 'query', name: 'limit', required: true, schema: { $ref: '#/components/schemas/count' } },
    { in: 'query', name: 'sort', description: 'The order.', required: false, schema: { enum: ['asc', 'desc'] } },
    {
      in: 'query',
      name: 'filter',
      description: 'The rows.',
      required: false,
      style: 'deepObject',
      explode: true,
      schema: { $ref: '#/components/schemas/all/definitions/filter' }
    },
    { in: 'header', name: 'x-trace', required: true, schema: { type: 'string' } }
  ])
  const { count, all } = document.components.schemas
  t.equal(count.minimum, 1)
  t.strictSame(all.definitions.filter.properties, { title: { type: 'string' } })
})

test('references within a schema of a route lead to a component, also to parts with an `$id`', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(openapi, { ui: false })
  app.addSchema({ $id: 'lib', type: 'object', properties: { a: { $id: 'inner', type: 'string' }, b: { $ref: 'inner#' } } })
  const node = Type.Cyclic({ Node: Type.Object({ id: Type.String(), nodes: Type.Array(Type.Ref('Node')) }) }, 'Node')
  const other = Type.Cyclic({ Node: Type.Object({ node: Type.Optional(Type.Ref('Node')) }) }, 'Node')
  const words = {
    type: 'object',
    properties: { word: { $ref: '#/definitions/word' } },
    definitions: { word: { type: 'string', maxLength: 9 } }
  }
  app.post('/nodes', { schema: { body: node, response: { 200: node } } }, async ({ body }) => body)
  app.get('/others', { schema: { response: { 200: other } } }, async () => ({}))
  app.get('/words', { schema: { querystring: words, response: { 200: { ...words, title: 'The words' } } } }, async () => ({}))
  app.get('/lib', { schema: { response: { 200: { $ref: 'lib#' } } } }, async () => ({}))
  const { paths, components, ...rest } = (await app.inject('/doc')).json()
  t.ok((await new Validator().validate({ ...rest, paths, components })).valid)
  const { schemas } = components
  const bodyOf = ({ content }: { content: Record<string, { schema: unknown }> }) => content['application/json']?.schema
  const { post } = paths['/nodes']
  t.match([bodyOf(post.requestBody), bodyOf(post.responses[200])], Array(2).fill({ $ref: '#/components/schemas/Node/$defs/Node' }))
  t.match(schemas.Node.$defs.Node.properties.nodes, { items: { $ref: '#/components/schemas/Node/$defs/Node' } })
  t.match(bodyOf(paths['/others'].get.responses[200]), { $ref: '#/components/schemas/Node2/$defs/Node' })
  t.match(schemas.Node2.$defs.Node.properties.node, { $ref: '#/components/schemas/Node2/$defs/Node' })
  t.match(paths['/words'].get.parameters, [{ name: 'word', schema: { $ref: '#/components/schemas/Schema/definitions/word' } }])
  t.match(bodyOf(paths['/words'].get.responses[200]), { properties: { word: { $ref: '#/components/schemas/The_words/definitions/word' } } })
  t.match(schemas.Schema.definitions, words.definitions)
  t.match(schemas.lib.properties.b, { $ref: '#/components/schemas/lib/properties/a' })
})
