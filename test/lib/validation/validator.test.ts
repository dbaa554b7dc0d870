import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import Fastify from 'fastify'
import t from 'tap'
import { Type } from 'typebox'
import { TenantryError } from '../../../lib/errors.js'
import { detailOf } from '../../../lib/validation/detail.js'
import { compileValidator, validationError, validatorCompiler } from '../../../lib/validation/validator.js'

const Body = Type.Object({
  title: Type.String({ minLength: 1, example: 'A title' }),
  count: Type.Optional(Type.Integer()),
  kind: Type.Optional(Type.Enum(['a', 'b'])),
  on: Type.Optional(Type.Boolean({ default: true }))
}, { additionalProperties: false })

function server () {
  const app = Fastify()
  app.setValidatorCompiler(validatorCompiler)
  app.setErrorHandler((error, request, reply) => {
    if (error instanceof TenantryError) return reply.code(error.statusCode).send(error.toBody(request.id))
    return reply.code(500).send({ message: String(error) })
  })
  app.post('/things/:id', {
    schema: {
      params: Type.Object({ id: Type.Integer() }),
      querystring: Type.Object({ tags: Type.Optional(Type.Array(Type.String())), deep: Type.Optional(Type.Boolean()) }, {
        additionalProperties: false
      }),
      headers: Type.Object({ 'x-count': Type.Optional(Type.Integer()) }),
      body: Body
    }
  }, async ({ params, query, body, headers }) => ({ params, query, body, count: headers['x-count'] }))
  return app
}

t.test('Fastify uses the validator: URL and header values are coerced, bodies are not', async (t) => {
  const app = server()
  t.teardown(() => app.close())
  const right = await app.inject({
    method: 'POST',
    url: '/things/5?tags=a&deep=true',
    headers: { 'x-count': '3' },
    payload: { title: 'x' }
  })
  t.equal(right.statusCode, 200)
  t.strictSame(right.json(), { params: { id: 5 }, query: { tags: ['a'], deep: true }, body: { title: 'x', on: true }, count: 3 })

  const wrong = await app.inject({ method: 'POST', url: '/things/5', payload: { title: '', count: '1', kind: 'c', tittle: 1 } })
  t.equal(wrong.statusCode, 400)
  t.match(wrong.json(), { error: 'Bad Request', message: 'Validation failed', code: 'TENANTRY_VALIDATION_FAILED' })
  t.strictSame(wrong.json().details, [
    { path: '/body/tittle', message: '"tittle" is not a known field, did you mean "title"?', keyword: 'additionalProperties' },
    { path: '/body/title', message: 'must have at least 1 character', keyword: 'minLength' },
    { path: '/body/count', message: 'must be an integer', keyword: 'type' },
    { path: '/body/kind', message: 'must be one of a, b', keyword: 'enum' }
  ])
  const query = await app.inject({ method: 'POST', url: '/things/x?deep=2', payload: { title: 'x' } })
  t.strictSame(query.json().details, [{ path: '/params/id', message: 'must be an integer', keyword: 'type' }])
  const unknown = await app.inject({ method: 'POST', url: '/things/1?dep=true', payload: { title: 'x' } })
  t.match(unknown.json().details, [{ path: '/query/dep', message: /did you mean "deep"/ }])
  const missing = await app.inject({ method: 'POST', url: '/things/1' })
  t.equal(missing.statusCode, 400)
  t.match(missing.json().details, [{ path: '/body' }])
})

t.test('paths are JSON Pointers, and a long name is truncated', async (t) => {
  const validate = compileValidator({
    type: 'object',
    properties: { 'a/b': { type: 'object', required: ['c~d'] } },
    additionalProperties: false
  }, 'body')
  const details = (value: unknown) => validationError(validate(value) ?? [], 'body').extras['details']
  t.match(details({ 'a/b': {} }), [{ path: '/body/a~1b/c~0d', message: 'is required' }])
  t.match(details({ ['x'.repeat(1000)]: 1 }), [{ path: `/body/${'x'.repeat(100)}…` }])
})

t.test("validationError works as Fastify's schemaErrorFormatter", async (t) => {
  const errors = compileValidator({ type: 'object', required: ['q'] }, 'query')({}) ?? []
  const error = validationError(errors, 'querystring')
  t.ok(error instanceof TenantryError)
  t.strictSame(error.extras['details'], [{ path: '/query/q', message: 'is required', keyword: 'required' }])
})

t.test('an invalid schema is rejected at start', async (t) => {
  t.throws(() => compileValidator({ type: 'object', propertis: {} }, 'body'), /unknown keyword/)
  t.throws(() => compileValidator({ type: 'string', format: 'emial' }, 'body'), /unknown format/)
  t.throws(() => compileValidator({ type: 'strng' }, 'body'), /strng/)
})

t.test('schemas with the same text share one validator', async (t) => {
  t.equal(compileValidator({ type: 'object' }, 'query'), compileValidator({ type: 'object' }, 'params'))
  t.not(compileValidator({ type: 'object' }, 'query'), compileValidator({ type: 'object' }, 'body'))
})

t.test('every ajv error has a message', async (t) => {
  const cases: [object, unknown, string][] = [
    [{ const: 5 }, 6, 'must be 5'],
    [
      { enum: Array.from({ length: 40 }, (_, index) => index) },
      50,
      `must be one of ${Array.from({ length: 30 }, (_, index) => index).join(', ')}, …`
    ],
    [{ type: 'array', maxItems: 1 }, [1, 2], 'must have at most 1 item'],
    [{ type: 'object', minProperties: 2 }, {}, 'must have at least 2 members'],
    [{ type: 'object', maxProperties: 1 }, { a: 1, b: 2 }, 'must have at most 1 member'],
    [{ type: 'number', exclusiveMinimum: 0 }, 0, 'must be more than 0'],
    [{ type: 'number', exclusiveMaximum: 5 }, 5, 'must be less than 5'],
    [{ type: ['string', 'null'] }, 5, 'must be a string or null'],
    [{ type: 'string', format: 'ipv4' }, 'x', 'must be of the format ipv4'],
    [{ type: 'array', uniqueItems: true }, [1, 1], 'must not contain the same item twice'],
    [{ type: 'string', pattern: '^[a-z]+$' }, 'A', 'must match the pattern ^[a-z]+$'],
    [{ type: 'string', pattern: '^[a-z]+$', expected: 'small letters' }, 'A', 'must be small letters'],
    [{ not: {} }, 1, 'is not accepted']
  ]
  for (const [schema, value, message] of cases) {
    t.match(validationError(compileValidator(schema, 'body')(value) ?? [], 'body').extras['details'], [{ message }], message)
  }
})

t.test('a large integer in a field of doubles gets the bound that it exceeds', async (t) => {
  const messageOf = (parentSchema: object, data: bigint) =>
    detailOf({ keyword: 'type', instancePath: '', schemaPath: '', params: { type: 'integer' }, parentSchema, data }, '/body').message
  const large = 10n ** 20n
  t.equal(messageOf({}, large), 'must be at most 9007199254740991')
  t.equal(messageOf({ minimum: 1, maximum: 5 }, -large), 'must be at least 1')
  t.equal(messageOf({ exclusiveMaximum: 5 }, large), 'must be less than 5')
  t.equal(messageOf({ exclusiveMinimum: 0, maximum: 5 }, -large), 'must be more than 0')
})

t.test('validators of routes can be garbage-collected: shared caches do not keep their schemas', async (t) => {
  setFlagsFromString('--expose_gc')
  const collect: unknown = runInNewContext('gc')
  if (typeof collect !== 'function') throw new Error('no garbage collector to call')
  const references: WeakRef<object>[] = []
  const rounds = 1000
  for (let index = 0; index < rounds; index++) {
    const schema = {
      type: 'object',
      properties: { [`f${index}`]: { type: 'string', pattern: `^${index}$`, enum: [`${index}`] } },
      required: [`f${index}`]
    }
    const validate = compileValidator(schema, index % 2 === 0 ? 'body' : 'query')
    if (validate({}) === null) throw new Error('the field is required')
    references.push(new WeakRef(schema), new WeakRef(validate))
    // A WeakRef keeps its target until the turn ends.
    if (index % 50 === 0) await setImmediate()
  }
  await setImmediate()
  collect()
  await setImmediate()
  collect()
  const left = references.filter((reference) => reference.deref() !== undefined).length
  t.ok(left < rounds / 50, `${left} of ${references.length} remain`)
})
