/** Requests for an upgrade on connections that fail. */
import { once } from 'node:events'
import { connect as tcp } from 'node:net'
import { test } from 'tap'
import { uncaughtErrors } from '../../helpers/uncaught.js'
import { until } from '../../helpers/until.js'
import { open, tokenOf } from './app.js'

test('a reset of a connection whose upgrade waits for an earlier response does not end the process', async (t) => {
  const { app, origin } = await open(t)
  const errors = uncaughtErrors(t)
  const sockets = new Set<object>()
  app.server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  for (const protocol of ['h2c', 'websocket']) {
    const socket = tcp(Number(new URL(origin).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.write(
      `GET /realtime/events?watch=notes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${tokenOf('acme')}\r\n\r\n` +
        `GET /realtime HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`
    )
    // Both requests are in one packet: the second one waits when the first one is answered.
    const [first] = await once(socket, 'data')
    t.match(String(first), /^HTTP\/1\.1 200/)
    socket.resetAndDestroy()
    await until('the end of the connection', () => sockets.size === 0)
  }
  t.strictSame(errors, [])
})
