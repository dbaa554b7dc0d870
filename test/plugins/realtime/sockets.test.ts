/** Requests for an upgrade on connections that fail or that callers share. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect as tcp } from 'node:net'
import { type Test, test } from 'tap'
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

/**
 * The statuses and `connection` headers of the responses, as soon as there are so many. `writes`: the bytes of the requests, each after a
 * response to the bytes before.
 */
async function responsesTo (t: Test, port: number, writes: readonly string[], count: number): Promise<string[]> {
  const socket = tcp(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  let text = ''
  socket.setEncoding('latin1').on('data', (part: string) => {
    text += part
  })
  const responses = /HTTP\/1\.1 (\d{3})[^]*?\r\nconnection: ([a-z-]+)/gi
  const found = () => [...text.matchAll(responses)].map(([, status, option]) => `${status} ${option}`)
  for (const [index, bytes] of writes.entries()) {
    await until('the response before', () => found().length >= index)
    socket.write(bytes)
  }
  await until('the responses', () => found().length === count)
  return found()
}

const note = JSON.stringify({ title: 'by Java' })
const upgradeWith = (headers: string, body: string) =>
  `POST /notes HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Type: application/json\r\n${headers}\r\n${body}`
const token = `Authorization: Bearer ${tokenOf('acme')}\r\n`
const invalid = 'Authorization: Bearer nonsense\r\n'

test('the body of a refused request for an upgrade is not the start of the next request', async (t) => {
  const { app, origin } = await open(t)
  const port = Number(new URL(origin).port)
  const next = 'GET /health HTTP/1.1\r\nHost: a\r\n\r\n'
  const refused = upgradeWith(`${invalid}Content-Length: ${note.length}\r\n`, note)
  // A version of Node that has this function loses the bytes that arrive together with the refused request.
  const writes = 'shouldUpgradeCallback' in app.server ? [refused, next] : [refused + next]
  t.strictSame(await responsesTo(t, port, writes, 2), ['401 keep-alive', '200 keep-alive'])
})

test('a request for an upgrade whose body Node has parsed gets its response, and its connection ends', async (t) => {
  const { app } = await open(t)
  // Node 26 emits the event so for the servers of further addresses.
  const further = createServer((request, response) => {
    response.detachSocket(request.socket)
    app.server.emit('upgrade', request, request.socket, Buffer.alloc(0))
  })
  further.listen(0, '127.0.0.1')
  await once(further, 'listening')
  t.teardown(() => further.close())
  const address = further.address()
  const port = typeof address === 'object' ? address?.port ?? 0 : 0
  const length = `Content-Length: ${note.length}\r\n`
  t.strictSame(await responsesTo(t, port, [upgradeWith(token + length, note)], 1), ['201 close'])
  t.strictSame(await responsesTo(t, port, [upgradeWith(invalid + length, note)], 1), ['401 close'])
  const chunked = 'Transfer-Encoding: chunked\r\n'
  const chunks = `${note.length.toString(16)}\r\n${note}\r\n0\r\n\r\n`
  t.strictSame(await responsesTo(t, port, [upgradeWith(token + chunked, chunks)], 1), ['201 close'])
})

test('a refused websocket handshake says that the connection ends', async (t) => {
  const { origin } = await open(t)
  const handshake = 'POST /realtime HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
  t.strictSame(await responsesTo(t, Number(new URL(origin).port), [handshake], 1), ['405 close'])
})
