/** Connections, watches and joins count as requests of the tenant's plan, on both transports and over two processes. */
import { sql } from 'kysely'
import { test } from 'tap'
import { startInstance } from '../../helpers/instances.js'
import { postgresSection } from '../../helpers/postgres.js'
import { startRedis } from '../../helpers/redis.js'
import { until } from '../../helpers/until.js'
import { type Client, connect, document, open, ready, tokenOf } from './app.js'

const limit = 20 // requests a minute

test('a plan of twenty requests a minute opens twenty connections, watches and rooms in total', async (t) => {
  const engine = await postgresSection(t)
  const { url } = await startRedis(t)
  const metered = {
    plans: {
      metered: {
        price: { monthly: 1 },
        limits: { api: { requestsPerMinute: limit }, websocket: { maxConnections: -1, maxRooms: -1, maxEntitiesWatched: -1 } }
      }
    },
    rateLimit: { enabled: true, redis: { url } }
  }
  const tenants = ['acme', 'globex'].map((id) => ({ id, plan: 'metered' }))
  const { app, origin } = await open(t, metered, { engine, tenants })
  const { address } = await startInstance(t, { ...document, ...metered }, engine)
  const origins = [origin, address]
  const headers = { authorization: `Bearer ${tokenOf('acme')}` }
  const stream = async (of: string) => {
    const leaving = new AbortController()
    const { status, headers: answered } = await fetch(`${of}/realtime/events?watch=notes&room=a`, { headers, signal: leaving.signal })
    return { status, retryAfter: answered.get('retry-after'), leave: () => leaving.abort() }
  }

  const sockets = await Promise.all(origins.map((of) => ready(t, of, tokenOf('acme'))))
  const [here] = sockets
  if (here === undefined) throw new Error('there is no socket')
  const streams = await Promise.all(origins.map(stream))
  t.strictSame(streams.map(({ status }) => status), [200, 200])
  t.match(await here.ask({ type: 'join', room: 'a', state: 1 }), { type: 'ack' })
  t.match(await here.ask({ type: 'auth', token: tokenOf('acme') }), { type: 'ack' })
  // Two sockets, two streams with a watch and a room each, a join and a new token.
  const left = limit - 10
  const asked = await Promise.all(
    sockets.flatMap((client) => Array.from({ length: left }, () => client.ask({ type: 'watch', table: 'notes' })))
  )
  t.equal(asked.filter(({ type }) => type === 'ack').length, left)
  const refused = { type: 'error', status: 429, code: 'TENANTRY_RATE_LIMITED', retryAfter: Number }
  for (const response of asked) if (response['type'] !== 'ack') t.match(response, refused)

  for (const of of origins) {
    const socket = connect(t, of, { headers })
    t.match(await socket.next(), refused)
    t.match(await socket.closed, { code: 4429, reason: 'Rate limit exceeded' })
    t.match(await stream(of), { status: 429, retryAfter: /^\d+$/ })
    t.equal((await fetch(`${of}/notes`, { method: 'POST', headers })).status, 429)
    t.match(await ready(t, of, tokenOf('globex')), { socket: {} }, 'another tenant has its own requests')
  }
  const beyond = async (client: Client) => [
    await client.ask({ type: 'join', room: 'b' }),
    await client.ask({ type: 'watch', table: 'unknown' }),
    await client.ask({ type: 'auth', token: tokenOf('acme') })
  ]
  for (const response of (await Promise.all(sockets.map(beyond))).flat()) t.match(response, refused)
  t.match(
    [
      await here.ask({ type: 'join', room: 'a', state: 2 }),
      await here.ask({ type: 'message', room: 'a', data: 1 }),
      await here.ask({ type: 'leave', room: 'a' })
    ],
    [{ type: 'ack' }, { type: 'ack' }, { type: 'ack' }],
    'messages to a room are limited for each connection'
  )

  for (const { leave } of streams) leave()
  await until('the same count is the usage', async () => (await app.usage.summary('acme')).api_calls === limit)
})

test('messages of both transports count as bandwidth of their tenant', async (t) => {
  const { app, origin } = await open(t)
  const headers = { authorization: `Bearer ${tokenOf('acme')}` }
  const write = () => sql`insert into notes (tenant_id, title) values ('acme', ${'é'.repeat(10_000)})`.execute(app.db)
  const recorded = async (bytes: number) => (await app.usage.summary('acme')).bandwidth_bytes === bytes

  const client = connect(t, origin, { headers })
  let bytes = 0
  client.socket.on('message', (data) => {
    bytes += Buffer.byteLength(String(data))
  })
  await client.next(({ type }) => type === 'ready')
  const watch = JSON.stringify({ type: 'watch', table: 'notes' })
  client.socket.send(watch)
  bytes += watch.length
  await client.next(({ type }) => type === 'ack')
  await write()
  await client.change()
  t.ok(bytes > 20_000)
  await until('the bytes of the socket are recorded', () => recorded(bytes))
  client.socket.close()
  await client.closed

  const { body } = await fetch(`${origin}/realtime/events?watch=notes`, { headers })
  if (body === null) throw new Error('there is no stream')
  let text = ''
  for await (const chunk of body) {
    if (text === '') await write()
    text += Buffer.from(chunk).toString('latin1')
    if (text.endsWith('\n\n') && text.includes('event: change')) break
  }
  await until('the bytes of the stream are recorded', () => recorded(bytes + text.length))
})
