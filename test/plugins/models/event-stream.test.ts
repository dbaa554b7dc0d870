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
