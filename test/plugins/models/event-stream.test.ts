/** The events of a call, in the form in which they are sent. */
import { once } from 'node:events'
import { createConnection } from 'node:net'
import Fastify from 'fastify'
import t from 'tap'
import { sendEvents } from '../../../plugins/models/event-stream.js'

t.test('comments keep an idle stream open, and the last event ends it', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  let finish = () => {}
  const quiet = new Promise<void>((resolve) => {
    finish = resolve
  })
  async function * events (): AsyncGenerator<object> {
    await quiet
    yield { type: 'done' }
  }
  app.get('/', (_request, reply) => sendEvents(reply, events(), { heartbeatMs: 10 }))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const socket = createConnection(Object(app.server.address()).port, '127.0.0.1').setEncoding('utf8')
  let text = ''
  socket.on('data', (piece: string) => {
    text += piece
    if (text.split('\n:\n\n').length > 2) finish()
  })
  socket.write('GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n')
  await once(socket, 'end')
  t.match(text, /:\n\n[^d]*:\n\n/, 'comments come before the first event')
  const last = text.lastIndexOf('data: {"type":"done"}\n\n')
  t.ok(last > 0)
  t.notMatch(text.slice(last), /:\n\n.*:\n\n/s, 'nothing comes after the last event')
})

t.test('events whose first was read end when the caller has already left', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  let hasEnded = false
  async function * events (): AsyncGenerator<object, void, undefined> {
    try {
      yield { type: 'start' }
      yield { type: 'done' }
    } finally {
      hasEnded = true
    }
  }
  const served = new Promise<void>((resolve) => {
    app.get('/', async (_request, reply) => {
      const all = events()
      const { value } = await all.next()
      reply.raw.destroy()
      sendEvents(reply, all, { first: Object(value) })
      resolve()
      return reply
    })
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  createConnection(Object(app.server.address()).port, '127.0.0.1').on('error', () => {}).write('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
  await served
  await new Promise(setImmediate)
  t.ok(hasEnded)
})

t.test('an event that was read before is sent first, in the form for the reader', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  async function * events (): AsyncGenerator<{ n: number }, void, undefined> {
    yield { n: 2 }
  }
  app.get('/', (_request, reply) => sendEvents(reply, events(), { first: { n: 1 }, shown: ({ n }) => ({ shown: n }) }))
  t.equal((await app.inject('/')).body, 'data: {"shown":1}\n\ndata: {"shown":2}\n\n')
})
