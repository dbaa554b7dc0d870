/** `/doc` contains the schemas that an app shares with `addSchema`. */
import { Validator } from '@seriousme/openapi-schema-validator'
import Fastify from 'fastify'
import { test } from 'tap'
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
