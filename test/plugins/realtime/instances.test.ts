/** Two processes behind nginx, one of which is killed. */
import type { Test } from 'tap'
import { test } from 'tap'
import WebSocket from 'ws'
import { freePort } from '../../helpers/free-port.js'
import { startInstances } from '../../helpers/instances.js'
import { startNginx } from '../../helpers/nginx.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import type { Message } from './app.js'
import { Client, connect, document, ready, tokenOf } from './app.js'

const proxy = (port: number, servers: readonly string[]) => `
  upstream tenantry { ${servers.map((address) => `server ${new URL(address).host} max_fails=0;`).join(' ')} }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://tenantry;
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $http_connection;
      proxy_next_upstream error timeout;
      proxy_buffering off;
    }
  }`

/** A client that reconnects with its last position, and its received changes. */
class Follower {
  readonly seen = new Map<number, string>()
  reconnects = -1
  isReady = false
  #last: number | undefined
  #isEnded = false
  #socket: WebSocket | null = null
  readonly faults: string[] = []

  constructor (t: Test, origin: string) {
    t.teardown(() => {
      this.#isEnded = true
      this.#socket?.terminate()
    })
    this.#connect(origin)
  }

  #connect (origin: string): void {
    if (this.#isEnded) return
    this.reconnects++
    const socket = new WebSocket(`${origin.replace('http', 'ws')}/realtime`, ['tenantry', `bearer.${tokenOf('acme')}`])
    this.#socket = socket
    let latest = -1
    socket.on('error', () => {})
    socket.on('message', (data) => {
      const message: Message = JSON.parse(String(data))
      if (message['type'] === 'ready') {
        socket.send(JSON.stringify({ type: 'watch', table: 'notes', ref: 1, ...this.#last !== undefined && { since: this.#last } }))
      }
      if (message['type'] === 'gap' || message['type'] === 'error') this.faults.push(JSON.stringify(message))
      if (message['type'] === 'ack') {
        this.isReady = true
        // The starting position if there were no changes.
        this.#last ??= Number(message['position'])
      }
      if (message['type'] !== 'change') return
      const position = Number(message['position'])
      if (position <= latest) this.faults.push(`${position} after ${latest}`)
      latest = position
      this.#last = Math.max(this.#last ?? 0, position)
      this.seen.set(position, String(message['id']))
    })
    socket.on('close', () => {
      this.isReady = false
      setTimeout(() => this.#connect(origin), 20)
    })
  }
}

test('two processes behind nginx', async (t) => {
  const database = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString: database.connectionString } } as const
  const [first, second] = await startInstances(t, document, engine)
  if (first === undefined || second === undefined) throw new Error('there are no instances')
  const port = await freePort()
  await startNginx(t, proxy(port, [first.address, second.address]), port)
  const origin = `http://127.0.0.1:${port}`
  const platform = { authorization: `Bearer ${signToken({ role: 'admin', sub: 'root' })}`, 'content-type': 'application/json' }
  await fetch(`${second.address}/tenants`, {
    method: 'POST',
    headers: platform,
    body: JSON.stringify({ id: 'acme', name: 'acme', plan: 'large' })
  })
  const headers = {
    authorization: `Bearer ${signToken({ role: 'admin', sub: 'ada', tenant_id: 'acme' })}`,
    'content-type': 'application/json'
  }
  const write = async (title: string) => {
    const response = await fetch(`${origin}/notes`, { method: 'POST', headers, body: JSON.stringify({ title }) }).catch(() => null)
    return response?.status === 201
  }

  await t.test('sockets of both processes receive writes on either, and messages cross', async (t) => {
    const clients = await Promise.all([1, 2, 3, 4].map(() => ready(t, origin, tokenOf('acme'))))
    for (const client of clients) {
      t.match(await client.ask({ type: 'watch', table: 'notes' }), { type: 'ack' })
      t.match(await client.ask({ type: 'join', room: 'a' }), { type: 'ack' })
    }
    const instances = await database.admin('select distinct instance_id from tenantry.realtime_members')
    t.equal(instances.length, 2, 'nginx distributed them')
    t.ok(await write('one') && await write('two'))
    for (const client of clients) {
      t.match([await client.change(), await client.change()], [{ record: { title: 'one' } }, { record: { title: 'two' } }])
    }
    clients[0]?.send({ type: 'message', room: 'a', data: 'hello' })
    for (const client of clients.slice(1)) t.match(await client.next(({ type }) => type === 'message'), { data: 'hello' })
  })

  await t.test("a kill -9 under load loses no change, and the process's members leave", async (t) => {
    const followers = Array.from({ length: 12 }, () => new Follower(t, origin))
    await until('all follow', () => followers.every(({ isReady }) => isReady))
    const begin = await database.admin('select id from notes')
    const stays = await ready(t, second.address, tokenOf('acme'))
    const dies = new Client(new WebSocket(`${first.address.replace('http', 'ws')}/realtime`, ['tenantry', `bearer.${tokenOf('acme')}`]))
    const { connectionId } = await dies.next(({ type }) => type === 'ready')
    for (const client of [stays, dies]) t.match(await client.ask({ type: 'join', room: 'b' }), { type: 'ack' })
    t.ok(await stays.next(({ type, members }) => type === 'presence' && Array.isArray(members) && members.length === 2))

    const load = { isOn: true }
    let written = 0
    const writers = Array.from({ length: 6 }, async () => {
      while (load.isOn) if (await write('load')) written++
    })
    const seenBy = (count: number) => () => followers.every(({ seen }) => seen.size >= count)
    await until('all have seen some', seenBy(100))
    await first.stop('SIGKILL')
    const before = written
    await until('writes continue', () => written > before + 200)
    load.isOn = false
    await Promise.all(writers)

    const own = new Set(begin.map(({ id }) => String(id)))
    const rows = (await database.admin('select id from notes')).map(({ id }) => String(id)).filter((id) => !own.has(id)).sort()
    await until('all have seen all', () => followers.every(({ seen }) => seen.size >= rows.length))
    t.ok(rows.length >= written && rows.length > 300)
    for (const { seen } of followers) t.same([...seen.values()].sort(), rows, '0 changes lost, each once by position')
    t.same(followers.flatMap(({ faults }) => faults), [], 'no gap, no error, in order on each connection')
    t.ok(followers.some(({ reconnects }) => reconnects > 0), 'some were on the killed process')

    // 30 seconds of silence, skipped at once.
    const aged = await database.admin(
      "update tenantry.realtime_instances set seen_at = seen_at - interval '30 seconds' where id in (select instance_id from tenantry.realtime_members where id = $1) returning id",
      [connectionId]
    )
    t.equal(aged.length, 1)
    const left = await stays.next(({ type, room, members }) =>
      type === 'presence' && room === 'b' && Array.isArray(members) && members.length === 1
    )
    t.notMatch(JSON.stringify(left), String(connectionId))
  })

  await t.test('at the stop all clients get 1012 and spread reconnect delays', async (t) => {
    const clients = await Promise.all(Array.from({ length: 40 }, async () => {
      const client = connect(t, second.address, { headers: { authorization: `Bearer ${tokenOf('acme')}` } })
      await client.next()
      return client
    }))
    const [code, ...closed] = await Promise.all([second.stop('SIGTERM'), ...clients.map((client) => client.closed)])
    t.equal(code, 0)
    t.same(new Set(closed.map((each) => each.code)), new Set([1012]))
    const times = closed.map(({ reason }) => Number(JSON.parse(reason).retryAfterMs))
    t.ok(times.every((time) => Number.isInteger(time) && time >= 0 && time < 5000))
    t.ok(new Set(times).size > 30 && Math.max(...times) - Math.min(...times) > 1000, 'they differ')
  })
})
