/** Random requests on connections that are lost at any moment: no error ends the process. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'tap'
import { seededRandom } from '../helpers/random.js'
import { listen } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { uncaughtErrors } from '../helpers/uncaught.js'
import { until } from '../helpers/until.js'
import { openBuiltIn, type Operation, placed } from './built-in.js'

const connections = 2000
const atOnce = 10
const maxTurns = 60 // of the event loop, before a connection is lost

const form = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nhello\r\n--x--\r\n'
const bodies = [
  '{}',
  '{"id":1}',
  '{"message":"hello","stream":true}',
  '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}',
  '[',
  form,
  ' '.repeat(20_000),
  'x'.repeat(200_000)
]
const types = [
  'application/json',
  'application/json',
  'application/offset+octet-stream',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'text/plain'
]
const extras = [
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  'Connection: Upgrade\r\nUpgrade: h2c',
  'Expect: 100-continue',
  'Accept: text/event-stream, application/json',
  'Content-Encoding: gzip',
  'Tus-Resumable: 1.0.0\r\nUpload-Length: 1000\r\nUpload-Offset: 0',
  'Idempotency-Key: a',
  'Range: bytes=0-1',
  'X-Tenant-ID: acme'
]
/** They keep their connections, have long responses or read bodies themselves. */
const long = [
  'GET /realtime/events?watch=notes',
  'GET /realtime',
  'GET /doc',
  'GET /ui/static/index.html',
  'POST /agent/chat',
  'POST /files/upload',
  'POST /files/resumable',
  'POST /mcp',
  'POST /notes'
]

test('lost connections do not end the process', async (t) => {
  const errors = uncaughtErrors(t)
  const { app, operations } = await openBuiltIn(t)
  const port = Number(new URL(await listen(app)).port)
  const random = seededRandom(1)
  const requests = randomRequests(random, operations)
  let started = 0
  const run = async (): Promise<void> => {
    while (started++ < connections && errors.length === 0) {
      const sent = Array.from({ length: 1 + Math.floor(random() * 3) }, requests)
      await send(port, sent.join(''), random)
      if (errors.length > 0) t.comment(sent.map((request) => request.slice(0, 500)).join('\n'))
    }
  }
  await Promise.all(Array.from({ length: atOnce }, run))
  await until('the end of all connections', () => app.realtime.connections === 0 && app.responses.unsentBytes === 0)
  t.strictSame(errors, [])
  t.equal((await app.inject('/health')).statusCode, 200)
})

/** Sends the bytes and loses the connection some turns later, or after the first bytes of a response. */
async function send (port: number, bytes: string, random: () => number): Promise<void> {
  const socket: Socket = connect(port, '127.0.0.1').on('error', () => {})
  const closed = new Promise((resolve) => socket.once('close', resolve))
  await once(socket, 'connect')
  if (random() < 0.7) socket.resume()
  socket.write(bytes, 'latin1')
  if (random() < 0.3) await Promise.race([closed, new Promise((resolve) => socket.once('data', resolve)), turns(random() * maxTurns)])
  else await turns(random() * maxTurns)
  if (random() < 0.6) socket.resetAndDestroy()
  else socket.destroy()
  await closed
}

async function turns (count: number): Promise<void> {
  for (let index = 0; index < count; index++) await turn()
}

function randomRequests (random: () => number, operations: readonly Operation[]): () => string {
  const oneOf = <Value>(values: readonly Value[], or: Value): Value => values[Math.floor(random() * values.length)] ?? or
  const targets = operations.map(({ target }) => placed(target))
  const tokens = [
    signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }),
    signToken({ sub: 'eve', role: 'user', tenant_id: 'globex' }),
    signToken({ sub: 'root', role: 'admin' })
  ]
  return () => {
    const target = oneOf(random() < 0.5 ? long : targets, 'GET /')
    const lines = [`${target} HTTP/1.1`, 'Host: a']
    if (random() < 0.7) lines.push(`Authorization: Bearer ${oneOf(tokens, '')}`)
    if (random() < 0.5) lines.push(oneOf(extras, ''))
    if (/^(GET|HEAD|DELETE)/.test(target)) return `${lines.join('\r\n')}\r\n\r\n`
    const body = oneOf(bodies, '')
    lines.push(`Content-Type: ${body === form ? 'multipart/form-data; boundary=x' : oneOf(types, '')}`)
    const isComplete = random() < 0.7
    if (random() < 0.3) {
      const chunks = `${body.length.toString(16)}\r\n${body}\r\n${isComplete ? '0\r\n\r\n' : ''}`
      return `${lines.join('\r\n')}\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`
    }
    return `${lines.join('\r\n')}\r\nContent-Length: ${body.length + (isComplete ? 0 : 1000)}\r\n\r\n${body}`
  }
}
