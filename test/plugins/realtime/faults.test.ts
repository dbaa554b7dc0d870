/** Connections while PostgreSQL, Redis or the clock fail. */
import { sql } from 'kysely'
import { test } from 'tap'
import { createChangeStore, sweepChanges } from '../../../plugins/realtime/store.js'
import { postgresSection, postgresServer } from '../../helpers/postgres.js'
import { startRedis } from '../../helpers/redis.js'
import { listen, testServer } from '../../helpers/server.js'
import { until } from '../../helpers/until.js'
import { document, open, ready, tokenOf } from './app.js'

const isMessage = ({ type }: Record<string, unknown>) => type === 'message'
const membersOf = (count: number) => ({ type, members }: Record<string, unknown>) =>
  type === 'presence' && Array.isArray(members) && members.length === count

test('a restart of PostgreSQL keeps connections, and their changes, rooms and presence resume', async (t) => {
  const server = await postgresServer(t, { settings: { synchronous_commit: 'on' } })
  const engine = { provider: 'postgres', postgres: { connectionString: server.connectionString } } as const
  const { connect, ask } = await open(t, {}, { engine })
  const second = await testServer(t, document, { engine })
  const [one, two] = [await connect('acme'), await ready(t, await listen(second), tokenOf('acme'))]
  const { watch, position: begin } = await one.ask({ type: 'watch', table: 'notes' })
  for (const each of [one, two]) t.match(await each.ask({ type: 'join', room: 'a' }), { type: 'ack' })
  await one.next(membersOf(2))
  const acme = ask('acme')
  t.equal((await acme('POST /notes', { body: { title: 'before' } })).status, 201)
  t.match(await one.change(), { watch, position: Number(begin) + 1, record: { title: 'before' } })
  await server.stop('immediate')
  t.match(await one.ask({ type: 'watch', table: 'tasks' }), { type: 'error' }, 'an error during the outage')
  await server.start()
  await until('a write succeeds', async () => (await acme('POST /notes', { body: { title: 'after' } })).status === 201)
  t.match(await one.change(), { watch, position: Number(begin) + 2, record: { title: 'after' } }, 'the same watch, without a gap')
  // A message during the outage may be lost: later ones arrive.
  let said = 0
  await until('messages arrive again', () => {
    one.send({ type: 'message', room: 'a', data: said++ })
    return two.messages.some(isMessage)
  })
  two.send({ type: 'leave', room: 'a' })
  t.ok(await one.next(membersOf(1)))
})

test('while Redis is frozen, messages go over PostgreSQL, and each arrives once', async (t) => {
  const redis = await startRedis(t)
  const engine = await postgresSection(t)
  const changes = { realtime: { ...document.realtime, redis: { url: redis.url } } }
  const { connect } = await open(t, changes, { engine })
  const second = await testServer(t, { ...document, ...changes }, { engine })
  const [one, two] = [await connect('acme'), await ready(t, await listen(second), tokenOf('acme'))]
  for (const each of [one, two]) await each.ask({ type: 'join', room: 'a' })
  const say = (text: string) => one.send({ type: 'message', room: 'a', data: text })
  say('before')
  t.match(await two.next(isMessage), { data: 'before' })
  redis.pause()
  say('frozen 1')
  t.match(await two.next(isMessage), { data: 'frozen 1' })
  say('frozen 2')
  t.match(await two.next(isMessage), { data: 'frozen 2' })
  t.match(await one.ask({ type: 'watch', table: 'notes' }), { type: 'ack' }, 'changes need no Redis')
  redis.resume()
  // It first processes the commands that it had kept.
  t.equal(await redis.command('ping'), 'PONG')
  say('after')
  t.match(await two.next(isMessage), { data: 'after' }, 'nothing twice')
  await two.settle()
  t.notOk(two.messages.some(isMessage))
})

test('a server clock set back by an hour ends and delays nothing', async (t) => {
  const { connect, ask } = await open(t, {}, { engine: await postgresSection(t) })
  const [one, two] = [await connect('acme'), await connect('acme')]
  await one.ask({ type: 'watch', table: 'notes' })
  for (const each of [one, two]) await each.ask({ type: 'join', room: 'a' })
  await one.next(membersOf(2))
  const acme = ask('acme')
  const { now } = Date
  const { restore } = t.intercept(Date, 'now', { value: () => now() - 3_600_000 })
  try {
    for (let count = 0; count < 40; count++) t.match(await one.ask({ type: 'ping' }), { type: 'pong' })
    t.equal((await acme('POST /notes', { body: { title: 'earlier' } })).status, 201)
    t.match(await one.change(), { record: { title: 'earlier' } })
    one.send({ type: 'message', room: 'a', data: 1 })
    t.match(await two.next(isMessage), { data: 1 })
  } finally {
    restore()
  }
  t.match(await one.ask({ type: 'ping' }), { type: 'pong' })
})

test("after PostgreSQL's clock is set back, members are present again after a heartbeat", async (t) => {
  const { app, connect } = await open(t, {}, { engine: await postgresSection(t) })
  const one = await connect('acme')
  await one.ask({ type: 'join', room: 'a' })
  await one.next(membersOf(1))
  // As if the last heartbeat was written by a clock an hour ahead.
  await sql`update tenantry.realtime_instances set seen_at = seen_at + interval '1 hour'`.execute(app.db)
  await until(
    'a beat corrects it',
    async () => (await sql`select from tenantry.realtime_instances where seen_at <= clock_timestamp()`.execute(app.db)).rows.length === 1
  )
  const two = await connect('acme')
  await two.ask({ type: 'join', room: 'a' })
  t.ok(await two.next(membersOf(2)))
})

test('changes beyond the retention are a gap', async (t) => {
  const { app, connect, ask } = await open(t, {}, { engine: await postgresSection(t) })
  const acme = ask('acme')
  const client = await connect('acme')
  t.match(await client.ask({ type: 'watch', table: 'notes' }), { type: 'ack', position: 1 })
  await acme('POST /notes', { body: { title: 'two' } })
  t.match(await client.change(), { position: 2 })
  client.socket.close()
  await client.closed
  // The third change has no position yet when the sweep begins.
  await acme('POST /notes', { body: { title: 'three' } })
  await sweepChanges(createChangeStore(app.engine), new Date(Date.now() + 60_000))
  t.equal((await sql`select from tenantry.realtime_changes`.execute(app.db)).rows.length, 0)
  await acme('POST /notes', { body: { title: 'four' } })
  const back = await connect('acme')
  const { watch } = await back.ask({ type: 'watch', table: 'notes', since: 2 })
  t.same(await back.next(({ type }) => type === 'gap'), { type: 'gap', watch, position: 4 })
  const exact = await back.ask({ type: 'watch', table: 'notes', since: 3 })
  t.match(await back.change(), { watch: exact['watch'], position: 4, record: { title: 'four' } }, 'a client that already has all removed changes')
})
