/** Attacks on `GET /realtime/events`: stalled readers, false positions, lost rights, and many streams. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { connect as connectSocket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { movableClock } from '../../helpers/clock.js'
import { freePort } from '../../helpers/free-port.js'
import { startNginx } from '../../helpers/nginx.js'
import { postgresSection } from '../../helpers/postgres.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { connect, document, id, open, ready, tokenOf } from './app.js'

const large = 'x'.repeat(60_000)

/** Sends each request on one connection at once, and reads nothing but the first bytes. */
async function stall (t: Test, app: FastifyInstance, targets: string[], token: string): Promise<{ readonly server: Socket }> {
  const connected = once(app.server, 'connection')
  const client = connectSocket(Number(new URL(app.listeningOrigin).port), '127.0.0.1')
  t.teardown(() => client.destroy())
  client.on('error', () => {})
  client.write(targets.map((target) => `GET ${target} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\n\r\n`).join(''))
  const [server]: Socket[] = await connected
  await once(client, 'readable')
  if (server === undefined) throw new Error('there is no socket')
  return { server }
}

/** Reads a stream to its end. */
async function stream (origin: string, query: string, headers: Record<string, string>) {
  const response = await fetch(`${origin}/realtime/events?${query}`, { headers })
  const reader = response.body!.getReader()
  let text = ''
  const more = async (): Promise<boolean> => {
    // Cut off, it has ended as well.
    const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }))
    text += Buffer.from(value ?? []).toString()
    return !done
  }
  return {
    response,
    async until (part: string): Promise<string> {
      while (!text.includes(part)) if (!await more()) throw new Error(`the stream ended before ${part}: ${text}`)
      return text
    },
    async end (): Promise<string> {
      while (await more());
      return text
    },
    cancel: () => reader.cancel()
  }
}

test('the connection of a stream that is not read is closed, also if the stream waits behind another one', async (t) => {
  const { app } = await open(t)
  for (const targets of [['/realtime/events?room=a'], ['/realtime/events?room=b', '/realtime/events?room=a']]) {
    const { server } = await stall(t, app, targets, tokenOf('acme'))
    await until('all streams are open', () => app.realtime.connections === targets.length)
    const closed = once(server, 'close')
    let isClosed = false
    server.on('close', () => {
      isClosed = true
    })
    for (let sent = 0; sent < 2000 && app.realtime.connections === targets.length; sent++) {
      app.realtime.publish('acme', { room: 'a', data: large })
      await new Promise((resolve) => setImmediate(resolve))
    }
    await closed
    t.ok(isClosed, `${targets.length} streams`)
    await until('no stream is left', () => app.realtime.connections === 0)
  }
})

test('a stream whose rights end frees its memory, although its client does not read', async (t) => {
  const { app } = await open(t)
  const { server } = await stall(t, app, ['/realtime/events?room=a'], tokenOf('acme'))
  await until('the stream is open', () => app.realtime.connections === 1)
  while (server.writableLength === 0) {
    app.realtime.publish('acme', { room: 'a', data: large })
    await new Promise((resolve) => setImmediate(resolve))
  }
  const closed = once(server, 'close')
  t.equal(app.realtime.connections, 1, 'it may still read')
  await app.tenants.update('acme', { status: 'suspended' })
  await closed
  t.equal(app.realtime.connections, 0)
})

test('Last-Event-ID is a position of the caller\'s own tenant, and nothing else', async (t) => {
  const { origin, ask } = await open(t, {}, { engine: await postgresSection(t) })
  const headers = bearer({ sub: 'bob', tenant_id: 'acme' })
  const foreign = await stream(origin, 'watch=notes', bearer({ sub: 'eve', tenant_id: 'globex' }))
  await foreign.until('event: ack')
  for (const title of ['one', 'two', 'three']) await ask('globex')('POST /notes', { body: { title: `${title} of globex` } })
  const text = await foreign.until('three of globex')
  const [, position = ''] = /event: change\nid: (\d+)\ndata: .*three/.exec(text) ?? []
  t.match(position, /^\d+$/)

  for (const id of ['x', '-1', '1.5', '1e3', '0x10', '9007199254740992', '9'.repeat(400), '1, 2', "1' or 1=1", '%00']) {
    const { response, end } = await stream(origin, 'watch=notes', { ...headers, 'last-event-id': id })
    t.match([response.status, await end()], [400, /Last-Event-ID/], id.slice(0, 20))
  }
  for (const id of [position, '9007199254740991', '0']) {
    const own = await stream(origin, 'watch=notes', { ...headers, 'last-event-id': id })
    await own.until('event: gap')
    await ask('acme')('POST /notes', { body: { title: `after ${id}` } })
    t.notMatch(await own.until(`after ${id}`), 'globex', `the position ${id} finds no rows of another tenant`)
    await own.cancel()
  }
})

test('a stream that nginx ends before its first change continues with the changes since it began', async (t) => {
  const { origin, ask } = await open(t)
  const port = await freePort()
  // As by default, nginx buffers responses and speaks HTTP/1.0 with the server. It ends streams that are silent for four seconds, in which
  // a busy machine must respond.
  await startNginx(t, `server { listen 127.0.0.1:${port}; location / { proxy_pass ${origin}; proxy_read_timeout 4s; } }`, port)
  const headers = bearer({ sub: 'bob', tenant_id: 'acme' })
  const cutOff = await stream(`http://127.0.0.1:${port}`, 'watch=notes&watch=notes%3Fdone%3Dtrue&room=a', headers)
  const text = await cutOff.end()
  t.equal(text.match(/event: ack/g)?.length, 2, text)
  await ask('acme')('POST /notes', { body: { title: 'meanwhile' } })
  const last = text.match(/(?<=^id: )\d+$/gm)?.at(-1) ?? ''
  const next = await stream(origin, 'watch=notes', { ...headers, 'last-event-id': last })
  await next.until('event: ack')
  await ask('acme')('POST /notes', { body: { title: 'later' } })
  t.match(await next.until('later'), /"title":"meanwhile"[^]*"title":"later"/)
  await next.cancel()
})

test('an earlier change has its position as id, unless a client that resumed from it could miss changes of another watch', async (t) => {
  const { origin, connect: join, ask } = await open(t)
  const first = await join('acme')
  const { position } = await first.ask({ type: 'watch', table: 'notes' })
  for (const title of ['one', 'two', 'three']) {
    await ask('acme')('POST /notes', { body: { title } })
    await first.change()
  }
  const headers = { ...bearer({ sub: 'bob', tenant_id: 'acme' }), 'last-event-id': String(position) }
  for (const [query, count] of [['watch=notes', 3], ['watch=notes&watch=notes', 6]] as const) {
    const { cancel, until } = await stream(origin, query, headers)
    // The position at which all watches are live.
    const earlier = (await until('\n\nid: ')).split('\n\nid: ')[0] ?? ''
    const changes = [...earlier.matchAll(/event: change\n(?:id: (\d+)\n)?data: .*"position":(\d+)}$/gm)]
    t.equal(changes.length, count, query)
    for (const [, given, own] of changes) t.equal(given, count === 3 ? own : undefined, query)
    await cancel()
  }
})

test('app.inject reads a stream', async (t) => {
  const { app, ask } = await open(t)
  const headers = bearer({ sub: 'bob', tenant_id: 'acme' })
  const response = await app.inject({ method: 'GET', url: '/realtime/events?watch=notes', headers, payloadAsStream: true })
  t.match(response.headers, { 'content-type': 'text/event-stream; charset=utf-8' })
  await ask('acme')('POST /notes', { body: { title: 'injected' } })
  let text = ''
  for await (const chunk of response.stream()) {
    text += String(chunk)
    if (text.includes('injected')) break
  }
  t.match(text, /^event: ready\n[^]*event: change\nid: \d+\ndata: .*injected/)
})

test('a row whose JSON has line breaks is one event', async (t) => {
  const { app, origin } = await open(t, {
    tables: { ...document.tables, drafts: { tenantScoped: true, columns: { id, content: { type: 'json' } } } },
    realtime: { tables: { drafts: { trigger: true } } }
  })
  const { cancel, until } = await stream(origin, 'watch=drafts', bearer({ sub: 'bob', tenant_id: 'acme' }))
  await until('event: ack')
  await sql`insert into drafts (tenant_id, content) values ('acme', ${'{"a":\r\n\n1,\r"b": [\n]}'})`.execute(app.db)
  const [, data = ''] = /event: change\nid: \d+\ndata: (.*)\n\n/.exec(await until(']}') + '\n\n') ?? []
  t.match(JSON.parse(data), { record: { content: { a: 1, b: { length: 0 } } } })
  await cancel()
})

test('an invalid watch or room of a stream is refused before the stream begins, and keeps no connection', async (t) => {
  const { app, origin } = await open(t, {
    realtime: { tables: { ...document.realtime?.tables }, rooms: { 'chat-*': { join: ['chat:read'] } } }
  })
  const headers = bearer({ sub: 'bob', tenant_id: 'acme' })
  const watch = (text: string) => `watch=${encodeURIComponent(text)}`
  for (const [query, status] of [
    [watch('secrets'), 400],
    [watch('tenantry.users'), 400],
    [watch('__proto__'), 400],
    [watch('notes?secret=x'), 400],
    [watch('notes?__proto__=x'), 400],
    [watch('notes?title=a&title=b'), 400],
    [watch('notes?title={{env.JWT_SECRET}}'), 400],
    [watch('notes?done=maybe'), 400],
    [watch('notes?title=%00'), 400],
    [watch(`notes?title=${'x'.repeat(2000)}`), 400],
    [watch('notes') + '&since=1', 400],
    [watch('tasks'), 403],
    [`${watch('notes')}&${watch('tasks')}`, 403],
    ['room=other', 403],
    ['room=chat-1', 403],
    ['room=%F0%9F%98%80', 400],
    [Array.from({ length: 51 }, () => watch('notes')).join('&'), 400]
  ] as const) {
    const { response, end } = await stream(origin, query, headers)
    t.match([response.status, response.headers.get('content-type'), await end()], [status, /json/, '"code"'], query.slice(0, 80))
    t.equal(app.realtime.connections, 0)
  }
  for (const query of ['watch=notes', 'watch=nothing']) t.equal((await stream(origin, query, {})).response.status, 401)
})

test('a stream ends with its token, its session and its tenant, and a lost permission silences it', async (t) => {
  const pass = movableClock(t)
  const { app, origin, ask } = await open(t, {}, { engine: await postgresSection(t) })
  const acme = ask('acme')
  t.match(await acme('PUT /tenant/rbac', { body: { enabled: true } }), { status: 200 })
  t.equal((await acme('POST /tenant/rbac/roles', { body: { name: 'reader', permissions: ['tasks:read'] } })).status, 201)
  const silent = await stream(origin, 'watch=tasks&room=a', bearer({ sub: 'rita', role: 'reader', tenant_id: 'acme' }))
  await silent.until('event: ack')
  t.equal((await acme('PUT /tenant/rbac/roles/reader', { body: { permissions: [] } })).status, 200)
  await until('the watch is silent', async () => {
    const { response, cancel } = await stream(origin, 'watch=tasks', bearer({ sub: 'rita', role: 'reader', tenant_id: 'acme' }))
    await cancel()
    return response.status === 403
  })
  const witness = await stream(origin, 'watch=tasks', bearer({ sub: 'bob', permissions: ['tasks:read'], tenant_id: 'acme' }))
  await witness.until('event: ack')
  t.equal((await acme('POST /tasks', { body: { number: 1, title: 'unseen' } })).status, 201)
  await witness.until('unseen')
  app.realtime.publish('acme', { room: 'a', data: 'seen' })
  t.notMatch(await silent.until('"seen"'), 'unseen')

  const short = await stream(origin, 'room=a', bearer({ sub: 'bob', tenant_id: 'acme' }, { expiresIn: 60 }))
  await short.until('event: ready')
  pass(60_000)
  await short.end()
  const token = tokenOf('acme')
  const leaves = await stream(origin, 'room=a', { authorization: `Bearer ${token}` })
  t.equal((await app.inject({ method: 'POST', url: '/auth/logout', headers: { authorization: `Bearer ${token}` } })).statusCode, 200)
  await leaves.end()
  t.equal((await stream(origin, 'room=a', { authorization: `Bearer ${token}` })).response.status, 401)
  await app.tenants.update('acme', { status: 'suspended' })
  await Promise.all([witness.end(), silent.end()])
  t.equal(app.realtime.connections, 0)
})

test('streams and sockets share the connections of the plan, and 10,000 refused streams leave nothing', async (t) => {
  const { app, origin } = await open(t, {
    plans: { small: { price: { monthly: 1 }, limits: { websocket: { maxConnections: 2, maxRooms: 1, maxEntitiesWatched: 1 } } } },
    rateLimit: { enabled: false }
  }, { tenants: [{ id: 'acme', plan: 'small' }, { id: 'globex', plan: 'small' }] })
  const headers = bearer({ sub: 'bob', tenant_id: 'acme' })
  const socket = await ready(t, origin, tokenOf('acme'))
  const first = await stream(origin, 'watch=notes', headers)
  t.equal(first.response.status, 200)
  const statuses = new Map<number, number>()
  let left = 10_000
  await Promise.all(Array.from({ length: 20 }, async () => {
    while (left-- > 0) {
      const { statusCode } = await app.inject({ url: '/realtime/events?room=a', headers })
      statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1)
    }
  }))
  t.same([...statuses], [[402, 10_000]])
  const { response, end } = await stream(origin, 'watch=notes', headers)
  t.match([response.status, JSON.parse(await end())], [402, { upgrade: { plan: String } }])
  t.equal((await connect(t, origin, { headers }).closed).code, 4402)
  const other = await stream(origin, 'room=a', bearer({ sub: 'eve', tenant_id: 'globex' }))
  t.equal(other.response.status, 200, 'another tenant has its own')
  await other.cancel()
  await first.cancel()
  await until('the place of the stream is free', () => app.realtime.connections === 1)
  const second = await stream(origin, 'watch=notes', headers)
  t.equal(second.response.status, 200, 'its watch too')
  await second.cancel()
  socket.socket.terminate()
  await until('nothing is left', () => app.realtime.connections === 0)
})

test('streams that their clients leave while they open keep no connection', async (t) => {
  const { app, origin } = await open(t)
  const headers = bearer({ sub: 'bob', tenant_id: 'acme' })
  for (let index = 0; index < 100; index++) {
    const ended = new AbortController()
    const opened = fetch(`${origin}/realtime/events?watch=notes&room=a`, { headers, signal: ended.signal })
    for (let turn = 0; turn < index % 10; turn++) await new Promise((resolve) => setImmediate(resolve))
    ended.abort()
    await opened.catch(() => {})
  }
  await until('no connection is left', () => app.realtime.connections === 0)
  await until('no member is left', async () => (await app.db.selectFrom('tenantry.realtime_members').select('room').execute()).length === 0)
})

test('only pages of allowed origins can read a stream', async (t) => {
  const { origin } = await open(t, { cors: { origins: ['https://good.example'] } })
  const token = bearer({ sub: 'bob', tenant_id: 'acme' })
  for (const [page, allowed] of [['https://good.example', 'https://good.example'], ['https://evil.example', null], ['null', null]] as const) {
    const preflight = await fetch(`${origin}/realtime/events`, {
      method: 'OPTIONS',
      headers: { origin: page, 'access-control-request-method': 'GET', 'access-control-request-headers': 'authorization' }
    })
    t.equal(preflight.headers.get('access-control-allow-origin'), allowed, `the preflight of ${page}`)
    const { response, cancel } = await stream(origin, 'room=a', { ...token, origin: page })
    t.equal(response.headers.get('access-control-allow-origin'), allowed, page)
    await cancel()
  }
})

test('pages of origins that a tenant lists can read its streams, and those of no other tenant', async (t) => {
  const page = 'https://shop.acme.test'
  const { origin, ask } = await open(t, { cors: { origins: [] } })
  t.match(await ask('acme')('POST /tenant/config', { body: { cors: { origins: [page] } } }), { status: 200 })
  await until(
    'the origin of the tenant is known',
    async () => (await ask('acme')('GET /tenant/info', { headers: { origin: page } })).headers['access-control-allow-origin'] === page
  )
  for (const [tenant, allowed] of [['acme', page], ['globex', null]] as const) {
    const { response, cancel } = await stream(origin, 'room=a', { ...bearer({ sub: 'bob', tenant_id: tenant }), origin: page })
    t.equal(response.status, 200)
    t.equal(response.headers.get('access-control-allow-origin'), allowed, tenant)
    t.equal(response.headers.get('access-control-expose-headers')?.includes('x-request-id') ?? false, allowed !== null)
    await cancel()
  }
})

test('a stream of two watches with more than 1 MB of earlier changes sends all of them', async (t) => {
  const { app, origin, connect: join } = await open(t)
  const first = await join('acme')
  const { position } = await first.ask({ type: 'watch', table: 'notes' })
  await sql`insert into notes (tenant_id, title) select 'acme', n || repeat('x', 200000) from generate_series(1, 12) n`.execute(app.db)
  for (let number = 1; number <= 12; number++) await first.change()
  const headers = { ...bearer({ sub: 'bob', tenant_id: 'acme' }), 'last-event-id': String(position) }
  // The second watch opens after many reads of news, in which the first one could fill the memory of the stream.
  const { text } = app.engine
  const { take } = app.usage
  let news = 0
  let watches = 0
  t.intercept(app.engine, 'text', {
    value: async (...parts: Parameters<typeof text>) => {
      if (parts[0].name === 'tenantry_realtime_news') news++
      return await text(...parts)
    }
  })
  t.intercept(app.usage, 'take', {
    value: async (...parts: Parameters<typeof take>) => {
      if (parts[1] === 'entities_watched' && ++watches === 2) {
        const before = news
        await until('the reader looks often', () => news > before + 10)
      }
      return await take(...parts)
    }
  })
  const second = await stream(origin, 'watch=notes&watch=notes', headers)
  for (let number = 1; number <= 12; number++) await second.until(`"title":"${number}xx`)
  await second.cancel()
})
