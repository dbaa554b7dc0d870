/** Connections: who may open one, and which events close one with which code. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect as tcp } from 'node:net'
import { sql } from 'kysely'
import { test } from 'tap'
import { turns } from '../../../lib/concurrency/event-loop-yielder.js'
import { movableClock } from '../../helpers/clock.js'
import { secretText } from '../../helpers/log-scan.js'
import { holdInPause } from '../../helpers/pauses.js'
import { postgresSection } from '../../helpers/postgres.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { connect, open, ready, tokenOf } from './app.js'

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

test('a token is sent by header, by subprotocol or in the first message', async (t) => {
  const { app, origin, ask } = await open(t)
  const token = tokenOf('acme')
  t.match(await connect(t, origin, bearer(token)).next(), { type: 'ready', connectionId: String })
  const browser = connect(t, origin, {}, ['tenantry', `bearer.${token}`])
  t.match(await browser.next(), { type: 'ready' })
  t.equal(browser.socket.protocol, 'tenantry', 'the token is not sent back')
  const late = connect(t, origin)
  late.socket.once('open', () => {
    late.send({ type: 'auth', token })
    late.send({ type: 'ping', ref: 'behind' })
  })
  t.match(await late.next(), { type: 'ready' })
  t.match(await late.next(), { type: 'pong', ref: 'behind' })
  const made = await ask('acme')('POST /tenant/api-keys', { body: { name: 'realtime', scopes: ['tasks:read'] } })
  const key = secretText(String(made.body['key']), 'an API key')
  t.match(await connect(t, origin, { headers: { 'x-api-key': key } }).next(), { type: 'ready' })
  t.match(await connect(t, origin, {}, ['tenantry', `bearer.${key}`]).next(), { type: 'ready' })
  t.equal(app.realtime.connections, 5)
})

test('rejections are close codes', async (t) => {
  const { app, origin } = await open(t, { cors: { origins: ['https://app.example.com'] } })
  const codeOf = async (options: object, protocols: string[] = []) => (await connect(t, origin, options, protocols).closed).code
  const token = tokenOf('acme')
  t.equal(await codeOf(bearer('nonsense')), 4401)
  t.equal(await codeOf(bearer(signToken({ tenant_id: 'acme' }, { expiresIn: -10 }))), 4401)
  t.equal(await codeOf({}, ['tenantry', 'bearer.no.such.token']), 4401)
  t.equal(await codeOf({ headers: { 'x-api-key': 'tnt_unknown' } }), 4401)
  t.equal(await codeOf(bearer(token), ['tenantry', `bearer.${token}`]), 4401, 'two of them')
  t.equal(await codeOf({ headers: { authorization: `Bearer ${token}`, 'x-tenant-id': 'globex' } }), 4403)
  t.equal(await codeOf(bearer(signToken({ sub: 'eve' }))), 4403, 'without a tenant')
  t.equal(await codeOf(bearer(signToken({ sub: 'root', role: 'admin' }))), 4403, 'a platform administrator without X-Tenant-ID')
  t.match(
    await connect(t, origin, { headers: { authorization: `Bearer ${signToken({ sub: 'root', role: 'admin' })}`, 'x-tenant-id': 'acme' } })
      .next(),
    { type: 'ready' }
  )
  t.equal(await codeOf({ ...bearer(token), origin: 'https://evil.example.com' }), 4403)
  t.match(await connect(t, origin, { ...bearer(token), origin: 'https://app.example.com' }).next(), { type: 'ready' })
  const talks = connect(t, origin)
  talks.socket.once('open', () => talks.send({ type: 'ping' }))
  t.equal((await talks.closed).code, 4401, 'a message before the token')
  t.equal((await fetch(`${origin}/realtime`)).status, 426)
  t.equal((await fetch(`${origin}/realtime?token=${token}`)).status, 400, 'a token in the URL')
  await app.tenants.update('globex', { status: 'suspended' })
  t.equal(await codeOf(bearer(tokenOf('globex'))), 4403)
})

test('the size and number of messages are bounded', async (t) => {
  const { origin, connect: join } = await open(t)
  const large = await join('acme')
  large.socket.send('x'.repeat(65_537))
  t.equal((await large.closed).code, 1009)
  const burst = await join('acme')
  for (let index = 0; index < 10_000 && burst.socket.readyState === 1; index++) burst.send({ type: 'ping' })
  t.equal((await burst.closed).code, 4429)
  const wrong = await join('acme')
  for (
    const [text, message] of [['{', /not JSON/], ['[]', /not an object/], ['{"type":"drop"}', /type of the message is unknown/], [
      '{"type":"join","room":"a b"}',
      /room/
    ], ['{"type":"ping","more":1}', /more/]] as const
  ) {
    wrong.socket.send(text)
    t.match(await wrong.next(), { type: 'error', status: 400, message })
  }
  wrong.socket.send(Buffer.from([1, 2, 3]))
  t.match(await wrong.next(), { type: 'error', status: 400, message: /binary/ })
  await wrong.settle()
  t.ok(origin)
})

test('a message whose type cannot become text is refused, before and after the token', async (t) => {
  const { origin, connect: join } = await open(t)
  const text = '{"type":{"toString":1,"valueOf":1},"ref":7}'
  const anonymous = connect(t, origin)
  anonymous.socket.once('open', () => anonymous.socket.send(text))
  t.equal((await anonymous.closed).code, 4401)
  const member = await join('acme')
  member.socket.send(text)
  t.match(await member.next(), { type: 'error', status: 400, ref: 7, message: /type of the message is unknown/ })
})

test('a client whose messages about rooms wait for the database is not read further, and loses none', async (t) => {
  const { app, connect: join } = await open(t, {}, { engine: await postgresSection(t) })
  const [client, other] = [await join('acme'), await join('globex')]
  let release = () => {}
  let lock: Promise<unknown> = Promise.resolve()
  await new Promise<void>((resolve) => {
    lock = app.db.transaction().execute(async (transaction) => {
      await sql`select from tenantry.tenants where id = 'acme' for update`.execute(transaction)
      resolve()
      await new Promise<void>((resolve) => {
        release = resolve
      })
    })
  })
  client.send({ type: 'join', room: 'a', ref: 'join' })
  for (let ref = 0; ref < 40; ref++) client.send({ type: 'message', room: 'a', data: 'x'.repeat(60_000), ref })
  client.send({ type: 'ping', ref: 'ping' })
  for (let count = 0; count < 5; count++) await other.settle()
  t.same(client.messages, [])
  release()
  await lock
  await client.next(({ ref }) => ref === 'ping')
  for (let ref = 0; ref < 40; ref++) t.match(await client.next((message) => message['ref'] === ref), { type: 'ack' })
})

test('messages of a tenant with long work wait for its turns, in order, and those of other tenants do not', async (t) => {
  const { connect: join } = await open(t)
  const [one, two, other] = [await join('acme'), await join('acme'), await join('globex')]
  for (const client of [one, two]) t.match(await client.ask({ type: 'join', room: 'a' }), { type: 'ack' })
  const pause = holdInPause(t, 'acme')
  for (const client of [one, two]) {
    for (let number = 0; number < 40; number++) client.send({ type: 'message', room: 'a', data: number, ref: number })
  }
  await until('both wait', () => turns.yielder('tenant acme').waiting === 2)
  await other.settle()
  const received = ({ messages }: typeof one, type: string) => messages.filter((message) => message['type'] === type)
  t.same([one, two].flatMap((client) => [...received(client, 'ack'), ...received(client, 'message')]), [])
  pause.end()
  await until('all have arrived', () => [one, two].every((client) => received(client, 'ack').length + received(client, 'message').length === 80))
  const all = Array.from({ length: 40 }, (_, number) => number)
  for (const client of [one, two]) {
    t.same(received(client, 'ack').map(({ ref }) => ref), all)
    t.same(received(client, 'message').map(({ data }) => data), all)
  }
})

test('the state of a member keeps every digit of its numbers', async (t) => {
  const { connect } = await open(t, {}, { engine: await postgresSection(t) })
  const client = await connect('acme')
  const texts: string[] = []
  client.socket.on('message', (data) => texts.push(String(data)))
  const state = '{"id":12345678901234567890,"share":0.12345678901234567890123}'
  client.socket.send(`{"type":"join","room":"a","state":${state}}`)
  await client.next(({ type }) => type === 'presence')
  t.match(texts, [/"ack"/, `"state":${state}`])
})

test('a request target in absolute form opens a websocket', async (t) => {
  const { origin } = await open(t)
  const socket = tcp(Number(new URL(origin).port), '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.write(
    `GET http://x/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${
      randomBytes(16).toString('base64')
    }\r\n\r\n`
  )
  const [response] = await once(socket, 'data')
  t.match(String(response), /^HTTP\/1\.1 101 /)
})

test("malformed frames close the connection with the protocol's codes", async (t) => {
  const { origin } = await open(t)
  const codeAfter = async (frame: Buffer): Promise<number> => {
    const socket = tcp(Number(new URL(origin).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.write(
      `GET /realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${
        randomBytes(16).toString('base64')
      }\r\nAuthorization: Bearer ${tokenOf('acme')}\r\n\r\n`
    )
    let received = Buffer.alloc(0)
    let isSent = false
    for await (const chunk of socket) {
      received = Buffer.concat([received, chunk])
      if (!isSent && received.includes('ready')) {
        isSent = true
        socket.write(frame)
      }
    }
    const close = received.lastIndexOf(Buffer.from([0x88]))
    return received.readUInt16BE(close + 2)
  }
  t.equal(await codeAfter(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0xc3, 0x28])), 1007, 'no UTF-8')
  t.equal(await codeAfter(Buffer.from([0x81, 0x02, 0x7b, 0x7d])), 1002, 'no mask')
  t.equal(await codeAfter(Buffer.from([0xf1, 0x80, 0, 0, 0, 0])), 1002, 'reserved bits')
  t.equal(await codeAfter(Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0])), 1009, 'a length of 65,537')
  t.equal(await codeAfter(Buffer.from([0x80, 0x81, 0, 0, 0, 0, 0x7b])), 1002, 'a continuation without a start')
})

test('a refused upgrade ends its connection, and does not delay the stop of the server', async (t) => {
  const { app, origin } = await open(t)
  const upgrade = async () => {
    const socket = tcp({ port: Number(new URL(origin).port), host: '127.0.0.1', allowHalfOpen: true })
    t.teardown(() => socket.destroy())
    socket.write(
      'GET /realtime HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n' +
        `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n\r\n`
    )
    const [response]: Buffer[] = await once(socket, 'data')
    return { socket, status: String(response).split(' ', 2)[1] }
  }
  const first = await upgrade()
  t.equal(first.status, '400')
  await once(first.socket, 'end')
  const closed = once(app.server, 'close')
  let last: Awaited<ReturnType<typeof upgrade>> | undefined
  app.stopping.signal.addEventListener('abort', () => app.stopping.until(upgrade().then((refused) => {
    last = refused
  })))
  await Promise.all([app.close(), closed])
  t.match(last, { status: /400|503/ })
})

test('an upgrade to another protocol is handled as a plain request', async (t) => {
  const { origin } = await open(t)
  const responseTo = (method: string, path: string, upgrade: string, body?: string) =>
    new Promise<{ status: number | undefined, text: string }>((resolve, reject) => {
      const sent = request(`${origin}${path}`, {
        method,
        headers: {
          connection: 'Upgrade, HTTP2-Settings',
          upgrade,
          'http2-settings': 'AAMAAABkAAQAAP__',
          authorization: `Bearer ${signToken({ role: 'admin', sub: 'ada', tenant_id: 'acme' })}`,
          ...body !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
        }
      }, (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        }).on('end', () => resolve({ status: response.statusCode, text }))
      })
      sent.on('error', reject)
      sent.end(body)
    })
  t.match(await responseTo('GET', '/health', 'h2c'), { status: 200, text: /"status":"ok"/ })
  t.match(await responseTo('POST', '/notes', 'h2c', JSON.stringify({ title: 'by Java' })), { status: 201, text: /by Java/ })
  t.match(await responseTo('GET', '/health', 'websocket'), { status: 200 })
  t.match(await responseTo('GET', '/unknown', 'websocket'), { status: 404 })
})

test('a connection ends with its token, its tenant, or the server', async (t) => {
  const pass = movableClock(t)
  const { app, origin, connect: join, ask } = await open(t, {}, { engine: await postgresSection(t) })
  const short = connect(t, origin, bearer(signToken({ sub: 'bob', tenant_id: 'acme' }, { expiresIn: 60 })))
  await short.next()
  const renewed = connect(t, origin, bearer(signToken({ sub: 'bob', tenant_id: 'acme' }, { expiresIn: 60 })))
  await renewed.next()
  t.match(await renewed.ask({ type: 'auth', token: tokenOf('acme') }), { type: 'ack' })
  t.match(await renewed.ask({ type: 'auth', token: tokenOf('globex') }), { type: 'error', status: 403 })
  pass(60_000)
  t.equal((await short.closed).code, 4401)
  await renewed.settle()

  const made = await ask('acme')('POST /tenant/api-keys', { body: { name: 'realtime', scopes: [] } })
  const keyed = connect(t, origin, { headers: { 'x-api-key': secretText(String(made.body['key']), 'an API key') } })
  await keyed.next()
  await ask('acme')(`DELETE /tenant/api-keys/${String(made.body['id'])}`)
  t.equal((await keyed.closed).code, 4401, 'a revoked key')

  const [suspended, deleted, stopped] = [await join('globex'), await join('acme'), await join('other')]
  await app.tenants.update('globex', { status: 'suspended' })
  t.equal((await suspended.closed).code, 4403)
  await app.tenants.delete('acme')
  t.equal((await deleted.closed).code, 4403)
  await app.close()
  const { code, reason } = await stopped.closed
  t.equal(code, 1012)
  const { retryAfterMs } = JSON.parse(reason)
  t.ok(Number.isInteger(retryAfterMs) && retryAfterMs >= 0 && retryAfterMs < 5000)
})

test('a plan limits connections, watches and rooms', async (t) => {
  const { origin, connect: join, ask } = await open(t, {
    plans: { small: { price: { monthly: 1 }, limits: { websocket: { maxConnections: 2, maxRooms: 1, maxEntitiesWatched: 1 } } } }
  }, { tenants: [{ id: 'acme', plan: 'small' }] })
  const [first, second] = [await join('acme'), await join('acme')]
  const third = connect(t, origin, bearer(tokenOf('acme')))
  t.match(await third.next(), { type: 'error', status: 402, upgrade: { plan: String } })
  t.equal((await third.closed).code, 4402)
  const watched = await first.ask({ type: 'watch', table: 'notes' })
  t.match(watched, { type: 'ack' })
  t.match(await second.ask({ type: 'watch', table: 'notes' }), { type: 'error', status: 402 })
  t.match(await first.ask({ type: 'join', room: 'a' }), { type: 'ack' })
  t.match(await second.ask({ type: 'join', room: 'a' }), { type: 'ack' }, 'one room, however many members it has')
  t.match(await second.ask({ type: 'join', room: 'b' }), { type: 'error', status: 402, upgrade: { plan: String } })
  t.match((await ask('acme')('GET /billing/usage')).body, {
    usage: { websocket: { connections: { current: 2 }, rooms: { current: 1 }, entitiesWatched: { current: 1 } } }
  })
  t.match(await first.ask({ type: 'unwatch', watch: watched['watch'] }), { type: 'ack' })
  t.match(await first.ask({ type: 'unwatch', watch: watched['watch'] }), { type: 'error', status: 404 })
  t.match(await second.ask({ type: 'watch', table: 'notes' }), { type: 'ack', watch: '1' }, 'each connection counts its own watches')
  first.socket.close()
  await first.closed
  t.match(await ready(t, origin, tokenOf('acme')), { socket: {} })
})

test('a reader that stops reading is disconnected', async (t) => {
  const { app, connect: join } = await open(t)
  const reader = await join('acme')
  await reader.ask({ type: 'join', room: 'a' })
  reader.socket.pause()
  const data = 'x'.repeat(60_000)
  // The kernel buffers some MB before the process does.
  while (app.realtime.connections > 0) {
    app.realtime.publish('acme', { room: 'a', data })
    await new Promise((resolve) => setImmediate(resolve))
  }
  reader.socket.resume()
  t.equal((await reader.closed).code, 4408)
  t.equal((await sql<{ count: number }>`select count(*)::int as count from tenantry.realtime_members`.execute(app.db)).rows[0]?.count, 0)
})

test('fragmented messages and pings from a Python client are accepted', async (t) => {
  const { origin } = await open(t)
  const { spawn } = await import('node:child_process')
  const script = `
import asyncio, json, sys, websockets
async def main():
    connect = getattr(websockets, 'connect')
    async with connect(sys.argv[1], subprotocols=['tenantry', 'bearer.' + sys.argv[2]]) as socket:
        print(json.loads(await socket.recv())['type'])
        await socket.send(['{"type":"pi', 'ng","ref"', ':7}'])
        print(json.loads(await socket.recv()))
        await (await socket.ping())
        print('pong')
asyncio.run(main())
`
  const child = spawn('/usr/bin/python3', ['-c', script, `${origin.replace('http', 'ws')}/realtime`, tokenOf('acme')], {
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += String(chunk)
  })
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += String(chunk)
  })
  await once(child, 'close')
  if (errors.includes("No module named 'websockets'")) {
    return t.plan(0, 'python3-websockets is missing: run "apt-get install python3-websockets"')
  }
  t.match(output, /^ready\n\{'type': 'pong', 'ref': 7\}\npong\n$/)
  t.equal(errors, '')
})

test('requests for an upgrade behind unanswered requests delay neither their connection nor the stop of the server', async (t) => {
  const { app, origin } = await open(t)
  const get = (more: string) => `GET /realtime HTTP/1.1\r\nHost: a\r\n${more}\r\n`
  const upgrade = (protocol: string) => get(`Connection: Upgrade\r\nUpgrade: ${protocol}\r\n`)
  const websocket = 'websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
  const pipelines = [
    { sent: [get(''), upgrade('h2c'), get(''), upgrade('h2c'), upgrade('h2c')], statuses: [426, 426, 426, 426, 426] },
    { sent: [get(''), get(''), upgrade(websocket)], statuses: [426, 426, 101] }
  ]
  for (const { sent, statuses } of pipelines) {
    const socket = tcp(Number(new URL(origin).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    let text = ''
    socket.setEncoding('latin1').on('data', (part: string) => {
      text += part
    })
    const received = () => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status))
    socket.write(sent.join(''))
    await until('all responses', () => received().length === sent.length)
    t.strictSame(received(), statuses)
  }
  await app.close()
  t.equal(app.realtime.connections, 0)
})
