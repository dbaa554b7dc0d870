/** Clients and callers choose how often connections and messages fail, and must not fill the log. */
import { mock } from 'node:test'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import WebSocket from 'ws'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { Outgoing } from '../../../lib/realtime/bus.js'
import { postgresSection } from '../../helpers/postgres.js'
import { startRedis } from '../../helpers/redis.js'
import type { TestDocument } from '../../helpers/server.js'
import { until } from '../../helpers/until.js'
import { connect, document, keepAlive, open, ready, tokenOf } from './app.js'

const warn = 40 // the level of pino

function log () {
  const lines: { readonly level: number, readonly msg: string, readonly tenant?: string, readonly err?: { readonly stack?: string } }[] = []
  const stream = {
    write (line: string): void {
      lines.push(JSON.parse(line))
    }
  }
  return { logger: { level: 'trace', stream }, lines, alarms: () => lines.filter(({ level }) => level >= warn) }
}

test('connections and messages beyond a limit with the status 503 are not logged as failures', async (t) => {
  const { logger, alarms } = log()
  const rateLimit = { enabled: true, perEndpoint: { '/realtime': { max: 2, windowMs: 60_000, statusCode: 503 } } }
  const { origin } = await open(t, { rateLimit }, { logger })
  const first = await ready(t, origin, tokenOf('acme'))
  t.match(await first.ask({ type: 'watch', table: 'notes' }), { type: 'ack' })
  for (let watch = 0; watch < 3; watch++) t.match(await first.ask({ type: 'watch', table: 'notes' }), { type: 'error', status: 503 })
  for (let connection = 0; connection < 3; connection++) {
    const refused = connect(t, origin, { headers: { authorization: `Bearer ${tokenOf('acme')}` } })
    t.match(await refused.next(), { type: 'error', status: 503 })
    t.equal((await refused.closed).code, 4429)
  }
  t.same(alarms().map(({ msg }) => msg), [])
})

test('the first failure of a kind is logged in full, and its repetitions are counted', async (t) => {
  const { logger, alarms } = log()
  const { app, origin } = await open(t, {}, { logger })
  const clients = [await ready(t, origin, tokenOf('acme')), await ready(t, origin, tokenOf('acme'))]
  await sql`alter table notes disable trigger user`.execute(app.db)
  for (const client of clients) {
    for (let watch = 0; watch < 3; watch++) t.match(await client.ask({ type: 'watch', table: 'notes' }), { type: 'error', status: 503 })
  }
  t.match(alarms(), [{ err: { stack: /at / } }])
  t.equal(alarms().length, 1)
  await app.close()
  t.match(alarms().slice(1), [{ failures: 5 }])
})

test('messages of a route that cannot be sent have one line at warn for each route and tenant', async (t) => {
  const { logger, alarms } = log()
  const routes: NonNullable<TestDocument['routes']> = ['/say', '/tell'].map((path) => ({
    path: `${path}/:room`,
    method: 'post' as const,
    realtime: { room: 'r-{{params.room}}', data: 1 }
  }))
  const { ask } = await open(t, { routes }, { logger })
  for (const tenant of ['acme', 'globex']) {
    for (const path of ['say', 'say', 'say', 'tell']) t.equal((await ask(tenant)(`POST /${path}/${'x'.repeat(300)}`)).status, 200)
  }
  t.match(alarms(), Array.from({ length: 4 }, () => ({ msg: 'the message of a route to a room was not sent', err: { stack: /at / } })))
  t.equal(alarms().length, 4)
})

test('messages of the server that cannot be sent have one line at warn for each tenant', async (t) => {
  const { logger, lines } = log()
  const { app, connect } = await open(t, {}, { logger })
  for (const tenant of ['acme', 'globex']) await (await connect(tenant)).ask({ type: 'join', room: 'a' })
  t.teardown(() => mock.restoreAll())
  mock.method(WebSocket.prototype, 'send', () => {
    throw new Error('of the test')
  })
  for (const tenant of ['acme', 'acme', 'globex', 'acme']) app.realtime.publish(tenantRef(tenant), { room: 'a', data: 1 })
  const failed = () => lines.filter(({ msg }) => msg === 'a message of a room could not be sent')
  await until('all have failed', () => failed().length === 4)
  t.match(failed().filter(({ level }) => level >= warn), [{ tenant: 'acme', err: { stack: /at / } }, { tenant: 'globex' }])
  t.equal(failed().filter(({ level }) => level < warn).length, 2)
})

/** Losses of a tenant that sends too much, until its first messages have been sent and further ones are lost. */
async function lossesOf (t: Test, redis?: { readonly url: string }) {
  const { logger, lines } = log()
  const realtime = { ...document.realtime, ...redis !== undefined && { redis } }
  const { app } = await open(t, { realtime }, { logger, engine: await postgresSection(t) })
  await keepAlive(app, crypto.randomUUID())
  const losses = () => lines.filter(({ msg }) => msg.startsWith('messages of rooms are lost'))
  const { add } = Outgoing.prototype
  const used = new Set<Outgoing>()
  mock.method(Outgoing.prototype, 'add', function (this: Outgoing, ...event: Parameters<typeof add>) {
    used.add(this)
    return add.apply(this, event)
  })
  t.teardown(() => mock.restoreAll())
  const data = 'x'.repeat(60_000)
  await until('messages are lost again', () => {
    // Only then: a slow machine may send fewer bytes in a second than a tenant may.
    if ([...used].every(({ isEmpty }) => isEmpty)) {
      for (let count = 0; count < 100; count++) app.realtime.publish(tenantRef('acme'), { room: 'a', data })
    }
    return losses().length >= 3
  })
  return losses()
}

test('lost messages of a tenant have one line at warn', async (t) => {
  const [first, ...repeated] = await lossesOf(t)
  t.match(first, { level: warn, tenant: 'acme' })
  for (const loss of repeated) t.ok(loss.level < warn)
})

test('messages of a tenant that are lost over Redis have one line at warn', async (t) => {
  const { url } = await startRedis(t)
  const [first, ...repeated] = await lossesOf(t, { url })
  t.match(first, { level: warn, tenant: 'acme' })
  for (const loss of repeated) t.ok(loss.level < warn)
})
