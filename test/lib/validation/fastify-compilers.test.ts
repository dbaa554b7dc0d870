/** Schemas that share a serializer, and schemas that must not because their references differ. */
import Fastify from 'fastify'
import { test } from 'tap'
import { buildSerializer } from '../../../lib/validation/fastify-compilers.js'

const route = { method: 'GET', url: '/', httpStatus: '200' }
const named = { type: 'object', properties: { name: { type: 'string' } } }

test('schemas with the same text are compiled once', async (t) => {
  const compile = buildSerializer({}, {})
  const serialize = compile({ ...route, schema: named })
  t.equal(compile({ ...route, url: '/other', httpStatus: '201', schema: structuredClone(named) }), serialize)
  t.equal(buildSerializer({}, {})({ ...route, schema: named }), serialize, 'also on another server')
  t.equal(serialize({ name: 'a', other: 1 }), '{"name":"a"}')
  t.not(compile({ ...route, schema: { ...named, additionalProperties: true } }), serialize)
})

test('schemas with references use the definitions of their own context', async (t) => {
  const app = Fastify({ schemaController: { compilersFactory: { buildSerializer } } })
  for (const prefix of ['number', 'string']) {
    app.register(async (context) => {
      context.addSchema({ $id: 'value', type: prefix })
      context.get(
        '/',
        { schema: { response: { 200: { type: 'object', properties: { value: { $ref: 'value#' } } } } } },
        async () => ({ value: '7' })
      )
    }, { prefix })
  }
  t.equal((await app.inject('/number')).body, '{"value":7}')
  t.equal((await app.inject('/string')).body, '{"value":"7"}')
})
