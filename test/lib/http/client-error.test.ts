import { once } from 'node:events'
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import Fastify from 'fastify'
import { test } from 'tap'
import { handleClientError } from '../../../lib/http/client-error.js'
import { listen } from '../../helpers/server.js'

const connections = 200

test('connections that time out together end in many rounds of the loop, each with a response', async (t) => {
  const app = Fastify({ clientErrorHandler: handleClientError, http: { connectionsCheckingInterval: 50, headersTimeout: 1 } })
  t.teardown(() => app.close())
  const port = Number(new URL(await listen(app)).port)
  const served: Socket[] = []
  let most = 0
  const watch = (before: number) => {
    const ended = served.filter(({ writableEnded }) => writableEnded).length
    most = Math.max(most, ended - before)
    if (ended < connections) setImmediate(() => watch(ended))
  }
  app.server.on('connection', (socket) => {
    if (served.push(socket) === 1) watch(0)
  })
  const responses = await Promise.all(Array.from({ length: connections }, async () => {
    const socket = connect(port, '127.0.0.1')
    let received = ''
    socket.setEncoding('utf8').on('data', (part: string) => {
      received += part
    })
    await once(socket, 'close')
    return received
  }))
  t.strictSame(new Set(responses.map((text) => text.slice(0, 12))), new Set(['HTTP/1.1 408']))
  t.ok(most > 0 && most <= 20, `${most} in a round`)
})
