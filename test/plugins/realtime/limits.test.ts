/** Bounds of tenants and connections: a plan over two processes, a caller without a token, a stalled reader. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { get } from 'node:http'
import type { Socket } from 'node:net'
import { mock } from 'node:test'
import { sql } from 'kysely'
import { test } from 'tap'
import { platformRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createMemberStore } from '../../../plugins/realtime/member-store.js'
import { gate } from '../../helpers/gate.js'
import { startInstance } from '../../helpers/instances.js'
import { postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { type Client, connect, document, open, ready, tokenOf } from './app.js'

test('a plan limits connections, watches and rooms of two processes together', async (t) => {
  const engine = await postgresSection(t)
  const plans = { small: { price: { monthly: 1 }, limits: { websocket: { maxConnections: 3, maxRooms: 1, maxEntitiesWatched: 2 } } } }
  // Retries every few milliseconds until a slot is free.
  const realtime = { ...document.realtime, maxMessagesPerSecond: 10_000 }
  const { origin, ask } = await open(t, { plans, realtime }, { engine, tenants: [{ id: 'acme', plan: 'small' }, { id: 'globex', plan: 'small' }] })
  const there = await startInstance(t, { ...document, plans, realtime }, engine)
  const [here, far, farther] = [
    await ready(t, origin, tokenOf('acme')),
    await ready(t, there.address, tokenOf('acme')),
    await ready(t, there.address, tokenOf('acme'))
  ]
  for (const server of [origin, there.address]) {
    const refused = connect(t, server, { headers: { authorization: `Bearer ${tokenOf('acme')}` } })
    t.match(await refused.next(), { type: 'error', status: 402, upgrade: { plan: String } })
    t.equal((await refused.closed).code, 4402)
  }
  t.match(await ready(t, there.address, tokenOf('globex')), { socket: {} }, 'another tenant has its own')

  const watch = async (client: Client) => await client.ask({ type: 'watch', table: 'notes' })
  const first = await watch(here)
  t.match([first, await watch(far)], [{ type: 'ack' }, { type: 'ack' }])
  for (const client of [here, farther]) t.match(await watch(client), { type: 'error', status: 402, upgrade: { plan: String } })
  t.match(await here.ask({ type: 'unwatch', watch: first['watch'] }), { type: 'ack' })
  await until('one is free for the other process', async () => (await watch(farther))['type'] === 'ack')
  t.match(await watch(here), { type: 'error', status: 402 })

  t.match(await here.ask({ type: 'join', room: 'a' }), { type: 'ack' })
  t.match(await far.ask({ type: 'join', room: 'b' }), { type: 'error', status: 402, upgrade: { plan: String } })
  t.match(await far.ask({ type: 'join', room: 'a' }), { type: 'ack' }, 'the existing room')

  t.match((await ask('acme')('GET /billing/usage')).body, {
    usage: { websocket: { connections: { current: 3 }, rooms: { current: 1 }, entitiesWatched: { current: 2 } } }
  })
  far.socket.close()
  await far.closed
  await until('its place is free', async () => {
    const { body } = await ask('acme')('GET /billing/usage')
    return Object(body).usage.websocket.connections.current === 2
  })
  t.match(await ready(t, origin, tokenOf('acme')), { socket: {} })
})

test('a long message of a rate limit in any language ends the connection, and not the process', async (t) => {
  const message = 'Слишком много соединений. '.repeat(20)
  const rateLimit = { enabled: true, perEndpoint: { '/realtime': { max: 1, windowMs: 60_000, message } } }
  const { origin } = await open(t, { rateLimit })
  await ready(t, origin, tokenOf('acme'))
  const refused = connect(t, origin, { headers: { authorization: `Bearer ${tokenOf('acme')}` } })
  t.match(await refused.next(), { type: 'error', status: 429, message })
  const { code, reason } = await refused.closed
  t.match([code, reason], [4429, message.slice(0, 60)])
  t.ok(message.startsWith(reason) && Buffer.byteLength(reason) <= 123)
})

test('a connection without a token ends after ten seconds', async (t) => {
  // Before the server starts: a timer that was created earlier could not be cleared.
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { origin } = await open(t)
  const [silent, late] = [connect(t, origin), connect(t, origin)]
  const isServed = async ({ socket }: Client) => {
    socket.ping()
    await once(socket, 'pong')
  }
  await Promise.all([silent, late].map(({ socket }) => once(socket, 'open')))
  await Promise.all([silent, late].map(isServed))
  mock.timers.tick(9999)
  await isServed(silent)
  late.send({ type: 'auth', token: tokenOf('acme') })
  const [text] = await once(late.socket, 'message')
  t.match(JSON.parse(String(text)), { type: 'ready' })
  t.equal(silent.socket.readyState, 1)
  mock.timers.tick(1)
  const [code, reason] = await once(silent.socket, 'close')
  t.match([code, String(reason)], [4401, /did not send a token/])
  mock.timers.tick(60_000)
  await isServed(late)
  t.equal(late.socket.readyState, 1, 'one with a token stays')
})

test('an address with a thousand sockets without a token does not keep out other addresses', async (t) => {
  // A busy machine may need longer to open them than each may take to send its token.
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { origin } = await open(t)
  const anonymous = Array.from({ length: 1000 }, () => connect(t, origin))
  await Promise.all(anonymous.map(({ socket }) => once(socket, 'open')))
  t.equal((await connect(t, origin).closed).code, 1012, 'one more')
  const other = connect(t, origin, { localAddress: '127.0.0.2', headers: { authorization: `Bearer ${tokenOf('acme')}` } })
  t.match(await other.next(), { type: 'ready' })
  anonymous[0]?.send({ type: 'auth', token: tokenOf('acme') })
  await anonymous[0]?.next(({ type }) => type === 'ready')
  t.match(await ready(t, origin, tokenOf('acme')), { socket: {} }, 'a token frees a place')
})

test('a stalled reader does not affect the others', async (t) => {
  const { app, connect: join, ask } = await open(t)
  const [stalled, ...others] = [await join('acme'), await join('acme'), await join('acme')]
  for (const client of [stalled, ...others]) {
    await client.ask({ type: 'join', room: 'a' })
    await client.ask({ type: 'watch', table: 'notes' })
  }
  stalled.socket.pause()
  const data = 'x'.repeat(60_000)
  const titles: string[] = []
  let published = 0
  // The kernel buffers some MB before the process does and disconnects the reader.
  while (app.realtime.connections > others.length) {
    app.realtime.publish('acme', { room: 'a', data: { number: published++, data } })
    if (published % 20 === 0) {
      const title = `after ${published}`
      t.equal((await ask('acme')('POST /notes', { body: { title } })).status, 201)
      titles.push(title)
    } else await new Promise((resolve) => setImmediate(resolve))
  }
  t.ok(titles.length > 0)
  for (const client of others) {
    const of = (type: string) => client.messages.filter((message) => message['type'] === type)
    await until('all have arrived', () => of('message').length >= published && of('change').length >= titles.length)
    t.strictSame(
      of('message').map((message) => Object(message['data']).number),
      Array.from({ length: published }, (_, index) => index),
      'each message once, in order'
    )
    t.strictSame(of('change').map(({ record }) => Object(record).title), titles, 'each change once, in order')
  }
})

test('a connection has at most 1000 watches, also if it opens all at once', async (t) => {
  const { connect: join } = await open(t, { realtime: { ...document.realtime, maxMessagesPerSecond: 10_000 } })
  const client = await join('acme')
  const replies = await Promise.all(Array.from({ length: 1003 }, () => client.ask({ type: 'watch', table: 'notes' })))
  t.equal(replies.filter(({ type }) => type === 'ack').length, 1000)
  t.equal(replies.filter(({ type, status }) => type === 'error' && status === 429).length, 3)
})

test('watches with filters wait for connections in the turn of their tenant, not of the platform', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const { app, connect } = await open(t, {}, { engine: { provider: 'postgres', postgres: { connectionString, pool: { max: 5 } } } })
  const client = await connect('acme')
  const full = gate()
  let held = 0
  const holding = Array.from({ length: 5 }, () =>
    app.engine.transaction({ tenant: platformRef }, async () => {
      held++
      await full.opened
    }))
  await until('the platform has its share of the connections', () => held === 4)
  t.match(await client.ask({ type: 'watch', table: 'notes', filter: { done: true } }), { type: 'ack' })
  full.open()
  await Promise.all(holding)
})

test('the members of a room are read in the turn of its tenant', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const { app } = await open(t, {}, { engine: { provider: 'postgres', postgres: { connectionString, pool: { max: 5 } } } })
  const store = createMemberStore(app.db, app.engine.kyselyFor, randomUUID())
  const full = gate()
  let held = 0
  const holding = Array.from({ length: 5 }, () =>
    app.engine.transaction({ tenant: tenantRef('acme') }, async () => {
      held++
      await full.opened
    }))
  await until('the tenant has its share of the connections', () => held === 4)
  const read: string[] = []
  const list = async (tenant: string) => {
    await store.members({ tenant: tenantRef(tenant), room: 'a' }, 1)
    read.push(tenant)
  }
  const [own, other] = [list('acme'), list('globex')]
  await other
  t.same(read, ['globex'], 'another tenant does not wait')
  full.open()
  await Promise.all([own, ...holding])
  t.same(read, ['globex', 'acme'])
})

test('a client that reads none of its earlier changes is disconnected after 30 seconds', async (t) => {
  const { app, connect: join, origin } = await open(t)
  const first = await join('acme')
  const { position } = await first.ask({ type: 'watch', table: 'notes' })
  const sockets = new Set<Socket>()
  app.server.on('connection', (socket: Socket) => sockets.add(socket))
  const stalled = await join('acme')
  const url = new URL(`${origin}/realtime/events?watch=notes`)
  await sql`insert into notes (tenant_id, title) select 'acme', repeat('x', 250000) from generate_series(1, 8)`.execute(app.db)
  await until('all are sent', () => first.messages.filter(({ type }) => type === 'change').length === 8)
  // Like a network that takes nothing: the kernel would buffer some MB.
  for (const socket of sockets) socket.cork()
  app.server.on('connection', (socket: Socket) => socket.cork())
  stalled.send({ type: 'watch', table: 'notes', since: position })
  const stream = get(url, { headers: { authorization: `Bearer ${tokenOf('acme')}`, 'last-event-id': String(position) } })
  stream.on('error', () => {})
  t.teardown(() => stream.destroy())
  const unsent = () => [...sockets].map(({ writableLength }) => writableLength)
  await until('both are behind', () => unsent().length === 2 && unsent().every((bytes) => bytes > 262_144))
  t.ok(unsent().every((bytes) => bytes < 800_000), 'a part of the changes')
  const closed = Promise.all([...sockets].map((socket) => once(socket, 'close')))
  const { now } = performance
  t.intercept(performance, 'now', { value: () => now.call(performance) + 30_000 })
  await until('both are closed', () => app.realtime.connections === 1)
  for (const socket of sockets) socket.uncork()
  t.equal((await stalled.closed).code, 4408)
  await closed
  t.match(await first.ask({ type: 'ping' }), { type: 'pong' }, 'the client that reads stays')
})

test('the unread messages of all connections of a tenant are bounded, without an effect on another tenant', async (t) => {
  const { app, connect: join } = await open(t)
  const sockets: Socket[] = []
  app.server.on('connection', (socket: Socket) => sockets.push(socket))
  const clients: Client[] = []
  while (clients.length < 100) clients.push(await join('acme'))
  const other = await join('globex')
  for (const client of [...clients, other]) await client.ask({ type: 'join', room: 'a' })
  // Like clients that do not read: the kernel would buffer some MB.
  for (const socket of sockets) socket.cork()
  const data = 'x'.repeat(60_000)
  const publish = () => {
    for (const tenant of ['acme', 'globex']) app.realtime.publish(tenant, { room: 'a', data })
  }
  let sent = 0
  while (app.realtime.connections === 101 && sent < 16) {
    publish()
    sent++
    const having = () => sockets.filter(({ writableLength }) => writableLength > sent * data.length).length
    await until('every open connection has it', () => having() === app.realtime.connections)
  }
  const unsent = sockets.slice(0, 100).reduce((sum, { writableLength }) => sum + writableLength, 0)
  t.ok(unsent < 67_108_864 + 100 * 1000, `${unsent} bytes`)
  t.ok(app.realtime.connections > 2 && app.realtime.connections < 100, `${app.realtime.connections} connections`)
  const left = app.realtime.connections
  const codes: number[] = []
  for (const { socket } of clients) socket.once('close', (code) => codes.push(code))
  for (const socket of sockets) socket.uncork()
  await until('the others are closed', () => codes.length === 101 - left)
  t.ok(codes.every((code) => code === 4408))
  const messages = ({ messages: all }: Client) => all.filter(({ type }) => type === 'message').length
  const reading = [...clients.filter(({ socket }) => socket.readyState === 1), other]
  await until('all have arrived', () => reading.every((client) => messages(client) === sent))
  for (const more of [1, 2, 3]) {
    publish()
    await until('it arrives', () => reading.every((client) => messages(client) === sent + more))
  }
  t.equal(app.realtime.connections, left, 'those that read stay')
})

test('one large change for many clients that do not read is bounded, and clients that read it all get it', async (t) => {
  const { app, connect: join, origin } = await open(t)
  const sockets: Socket[] = []
  app.server.on('connection', (socket: Socket) => sockets.push(socket))
  const clients: Client[] = []
  while (clients.length < 140) clients.push(await join('acme'))
  for (const client of clients) await client.ask({ type: 'watch', table: 'notes' })
  const events: number[] = []
  const listen = async (index: number) => {
    const request = get(`${origin}/realtime/events?watch=notes`, { agent: false, headers: { authorization: `Bearer ${tokenOf('acme')}` } })
    t.teardown(() => request.destroy())
    const [response] = await once(request, 'response')
    events[index] = 0
    response.setEncoding('utf8')
    response.on('error', () => {})
    response.on('data', (text: string) => {
      events[index] = (events[index] ?? 0) + text.split('event: change').length - 1
    })
  }
  for (let index = 0; index < 140; index++) await listen(index)
  const insert = () => sql`insert into notes (tenant_id, title) select 'acme', repeat('x', 250000)`.execute(app.db)
  const changes = () => [
    ...clients.map(({ messages }) => messages.filter(({ type }) => type === 'change').length),
    ...events
  ]
  await insert()
  await until('all have the first change', () => changes().every((count) => count === 1))
  t.equal(app.realtime.connections, 280)

  // Like clients that do not read: the kernel would buffer some MB.
  for (const socket of sockets) socket.cork()
  await insert()
  await until('each client has the second change, or is closed', () => {
    const waiting = sockets.filter(({ writableLength }) => writableLength > 250_000).length
    return waiting === app.realtime.connections
  })
  const unsent = sockets.reduce((sum, { writableLength }) => sum + writableLength, 0)
  t.ok(unsent < 67_108_864 + 280 * 1000, `${unsent} bytes`)
  const left = app.realtime.connections
  t.ok(left > 250 && left < 280, `${left} connections`)
  for (const socket of sockets) socket.uncork()
  await until('the others have it', () => changes().filter((count) => count === 2).length === left)
  t.equal(app.realtime.connections, left)
})

test('a message has at most 64 fragments, and pongs between them count as messages', async (t) => {
  const { connect: join } = await open(t)
  const whole = await join('acme')
  const fragments = ['{"type":"ping","ref":1', ...Array<string>(62).fill(' '), '}']
  for (const [index, fragment] of fragments.entries()) whole.socket.send(fragment, { fin: index === 63 })
  t.match(await whole.next(), { type: 'pong', ref: 1 })
  for (let count = 0; count < 65; count++) whole.socket.send('x', { fin: false })
  t.equal((await whole.closed).code, 1008)
  const pongs = await join('acme')
  for (let count = 0; count < 200 && pongs.socket.readyState === 1; count++) pongs.socket.pong('x'.repeat(125))
  t.equal((await pongs.closed).code, 4429)
})

test("the response to the server's ping is no message of the client", async (t) => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const { connect: join } = await open(t, { realtime: { ...document.realtime, maxMessagesPerSecond: 1 } })
  let time = performance.now()
  const { restore } = t.intercept(performance, 'now', { value: () => time })
  t.teardown(restore)
  const client = await join('acme')
  for (let round = 0; round < 3; round++) {
    time += 1000
    t.match(await client.ask({ type: 'ping' }), { type: 'pong' })
    const pinged = once(client.socket, 'ping')
    mock.timers.tick(30_000)
    await pinged
  }
  time += 1000
  t.match(await client.ask({ type: 'ping' }), { type: 'pong' })
})
