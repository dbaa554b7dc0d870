/** Types of handlers from their schemas. `tsc` reports an `@ts-expect-error` whose line has no error. */
import Fastify from 'fastify'
import t from 'tap'
import { Type } from 'typebox'
import { errorResponses } from '../../../lib/http/error-schemas.js'
import type { SchemaTypes } from '../../../lib/http/schema-types.js'
import { Success, Time } from '../../../lib/http/schemas.js'
import conventions from '../../../plugins/conventions/index.js'

const Note = Type.Object({ id: Type.Integer(), tags: Type.Array(Type.String()), savedAt: Time() })
const response = { 200: Success, 201: Note, ...errorResponses(400, 'planLimit') }

async function open () {
  const app = Fastify().withTypeProvider<SchemaTypes>()
  await app.register(conventions)
  t.teardown(() => app.close())
  return app
}

t.test('a handler has the types of its request', async (t) => {
  const app = await open()
  const schema = { params: Type.Object({ id: Type.Integer() }), body: Type.Object({ tags: Type.Array(Type.String()) }), response }
  app.post('/notes/:id', { schema }, async ({ params: { id }, body }, reply) => {
    // @ts-expect-error: the body has no member `tag`
    body.tag?.length()
    const tags: readonly string[] = body.tags
    return await reply.code(201).send({ id, tags, savedAt: new Date(0) })
  })
  const { statusCode, body } = await app.inject({ method: 'POST', url: '/notes/7', payload: { tags: ['new'] } })
  t.equal(statusCode, 201)
  t.equal(body, '{"id":7,"tags":["new"],"savedAt":"1970-01-01T00:00:00.000Z"}')
})

t.test('a body that differs from its schema does not compile, and is a failure of the server', async (t) => {
  const app = await open()
  // @ts-expect-error: a wrong name of a member
  app.get('/returned', { schema: { response } }, async () => ({ succes: true }))
  // @ts-expect-error: a text instead of a time
  app.get('/nested', { schema: { response } }, async () => ({ id: 1, tags: [], savedAt: 'now' }))
  app.get('/sent', { schema: { response } }, async (_request, reply) => {
    // @ts-expect-error: the body of another status
    return await reply.code(201).send({ success: true })
  })
  app.get('/refused', { schema: { response } }, async (_request, reply) => {
    // @ts-expect-error: an error without its code
    return await reply.code(400).send({ error: 'Bad Request', message: 'No', requestId: '1' })
  })
  app.get('/undeclared', { schema: { response } }, async (_request, reply) => {
    // @ts-expect-error: a status without a schema
    return await reply.code(202).send({ success: true })
  })
  for (const url of ['/returned', '/nested', '/sent', '/refused']) t.equal((await app.inject(url)).statusCode, 500, url)
  t.equal((await app.inject('/undeclared')).statusCode, 202)
})
