/** Changes, event streams and rooms of several servers. */
import { sql } from 'kysely'
import pg from 'pg'
import { test } from 'tap'
import { postgresSection } from '../../helpers/postgres.js'
import { startRedis } from '../../helpers/redis.js'
import { listen, type TestDocument, testServer } from '../../helpers/server.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'
import { document, open, ready, tokenOf } from './app.js'

test('a watch handles commits out of order, manual SQL, since, gaps, tenants and permissions', async (t) => {
  const engine = await postgresSection(t)
  const { connect } = await open(t, {}, { engine })
  const [client, other, plain] = [
    await connect('acme', { permissions: ['tasks:read'] }),
    await connect('globex', { permissions: ['tasks:read'] }),
    await connect('acme')
  ]
  t.match(await plain.ask({ type: 'watch', table: 'tasks' }), { type: 'error', status: 403 })
  for (const table of ['tenants', 'tenantry.tenants', 'pg_class', 'plain']) {
    t.match(await client.ask({ type: 'watch', table }), { type: 'error', status: 400 })
  }
  for (
    const filter of [{ secret: 'x' }, { 'done = false or 1=1 --': 1 }, { title: '{{auth.sub}}' }, { title: { gt: 1 } }, { done: 'x' }]
  ) { t.match(await client.ask({ type: 'watch', table: 'notes', filter }), { type: 'error', status: 400 }, JSON.stringify(filter)) }
  await other.ask({ type: 'watch', table: 'tasks' })
  const connectionString = Object(engine).postgres.connectionString
  const [a, b] = [new pg.Client({ connectionString }), new pg.Client({ connectionString })]
  for (const each of [a, b]) {
    await each.connect()
    t.teardown(() => each.end())
  }
  const first = await client.ask({ type: 'watch', table: 'tasks' })
  t.match(first, { type: 'ack', position: 1 })
  await client.ask({ type: 'unwatch', watch: first['watch'] })
  await a.query('begin')
  await a.query("insert into tasks (tenant_id, number, title) values ('acme', 1, 'first written')")
  t.match(await client.ask({ type: 'watch', table: 'tasks' }), { type: 'ack', position: 1 })
  await b.query("insert into tasks (tenant_id, number, title) values ('acme', 2, 'first committed')")
  t.match(await client.change(), { id: 2, position: 2 })
  await a.query('commit')
  t.match(await client.change(), { id: 1, position: 3 })
  await other.settle()
  t.equal(other.messages.length, 0)
  t.match(await client.ask({ type: 'watch', table: 'tasks', since: 1 }), { type: 'ack', position: 3 })
  t.match([await client.change(), await client.change()], [{ position: 2 }, { position: 3 }])
  for (const since of [0, 99]) {
    const { watch } = await client.ask({ type: 'watch', table: 'tasks', since })
    t.same(await client.next(({ type }) => type === 'gap'), { type: 'gap', watch, position: 3 })
  }
  t.match(await client.ask({ type: 'watch', table: 'tasks', since: -1 }), { type: 'error', status: 400 })
})

test('server-sent events deliver changes', async (t) => {
  const { origin, ask, connect } = await open(t, {}, { engine: await postgresSection(t) })
  const headers = { authorization: `Bearer ${tokenOf('acme')}` }
  const acme = ask('acme')
  t.match(await (await connect('acme')).ask({ type: 'watch', table: 'notes' }), { type: 'ack', position: 1 })
  await acme('POST /notes', { body: { title: 'one' } })
  await acme('POST /notes', { body: { title: 'two' } })
  const response = await fetch(`${origin}/realtime/events?watch=${encodeURIComponent('notes?done=false')}`, {
    headers: { ...headers, 'last-event-id': '2' }
  })
  t.equal(response.status, 200)
  let text = ''
  for await (const chunk of response.body!) {
    text += Buffer.from(chunk).toString()
    if (text.includes('"two"')) break
  }
  t.match(text, /^event: ready\ndata: .*\n\nevent: ack\n(?:id: 3\n)?data: .*\n\nevent: change\n(?:id: 3\n)?data: .*"two"/)
  t.comment(text)
  t.equal((await fetch(`${origin}/realtime/events?watch=nothing`, { headers })).status, 400)
  t.match(await (await fetch(`${origin}/doc/realtime`)).json(), { asyncapi: '3.0.0' })
  t.match(await (await fetch(`${origin}/doc`)).json(), { openapi: String })
})

for (const kind of ['postgres', 'redis']) {
  test(`rooms of two servers are connected over ${kind}`, async (t) => {
    const engine = await postgresSection(t)
    const changes = kind === 'redis' ? { realtime: { redis: { url: (await startRedis(t)).url } } } : {}
    const { connect } = await open(t, changes, { engine })
    const second = await testServer(t, { ...document, ...changes }, { engine })
    const [one, two, foreign] = [await connect('acme'), await ready(t, await listen(second), tokenOf('acme')), await connect('globex')]
    for (const each of [one, two, foreign]) t.match(await each.ask({ type: 'join', room: 'a' }), { type: 'ack' })
    t.ok(await one.next(({ type, members }) => type === 'presence' && Array.isArray(members) && members.length === 2))
    for (let n = 0; n < 20; n++) one.send({ type: 'message', room: 'a', data: n })
    for (let n = 0; n < 20; n++) t.match(await two.next(({ type }) => type === 'message'), { data: n })
    await foreign.settle()
    t.notOk(foreign.messages.some(({ type }) => type === 'message'))
    two.socket.close()
    t.ok(await one.next(({ type, members }) => type === 'presence' && Array.isArray(members) && members.length === 1))
  })
}

test('a server that starts before the migration exchanges messages over Redis with one that starts after it', async (t) => {
  const redis = await startRedis(t)
  const engine = await postgresSection(t, { empty: true })
  const changes: TestDocument = {
    routes: [{ path: '/notes', method: 'get', queries: [{ table: 'notes', operation: 'select' }] }],
    realtime: { redis: { url: redis.url } }
  }
  const early = await testServer(t, { ...document, ...changes, migrate: 'manual' }, { engine })
  const late = await open(t, changes, { engine })
  const ask = caller(t, early, { token: tokenOf('acme') })
  await until('the first server serves', async () => (await ask('GET /notes')).status === 200)
  const [one, two] = [await ready(t, await listen(early), tokenOf('acme')), await late.connect('acme')]
  for (const each of [one, two]) t.match(await each.ask({ type: 'join', room: 'a' }), { type: 'ack' })
  one.send({ type: 'message', room: 'a', data: 'of the first' })
  t.match(await two.next(({ type }) => type === 'message'), { data: 'of the first' })
  two.send({ type: 'message', room: 'a', data: 'of the second' })
  t.match(await one.next(({ type }) => type === 'message'), { data: 'of the second' })
  const { rows } = await sql`select from tenantry.realtime_messages`.execute(late.app.db)
  t.same(rows, [], 'nothing went over PostgreSQL')
})

test('replays of more than the unread bytes of a connection arrive whole, in order, one watch after the other', async (t) => {
  const { app, connect } = await open(t, { realtime: { tables: { tasks: { trigger: true } } } }, { engine: await postgresSection(t) })
  const first = await connect('acme')
  const { position } = await first.ask({ type: 'watch', table: 'tasks' })
  first.socket.terminate()
  await sql`insert into tasks (tenant_id, number, title) select 'acme', n, repeat('x', 100000) from generate_series(1, 120) n`.execute(app.db)
  const client = await connect('acme')
  const watches = await Promise.all([1, 2].map(() => client.ask({ type: 'watch', table: 'tasks', since: position })))
  const received: unknown[][] = []
  for (let count = 0; count < 240; count++) {
    const { watch, id } = await client.change()
    received.push([watch, id])
  }
  const ids = Array.from({ length: 120 }, (_, index) => index + 1)
  t.same(received, watches.flatMap(({ watch }) => ids.map((id) => [watch, id])))
  await sql`insert into tasks (tenant_id, number, title) values ('acme', 121, 'live')`.execute(app.db)
  t.match([await client.change(), await client.change()], [{ id: 121 }, { id: 121 }])
})
