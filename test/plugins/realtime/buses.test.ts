/** The contract of a bus, tested on PostgreSQL, on Redis, and on a Redis that does not respond. */
import type { FastifyInstance } from 'fastify'
import { sql, ValueNode } from 'kysely'
import type { Test } from 'tap'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { RoomBus, RoomEvent, RoomListener } from '../../../lib/realtime/bus.js'
import { openRedis } from '../../../lib/redis/redis.js'
import { createPostgresBus } from '../../../plugins/realtime/postgres-bus.js'
import { createRedisBus } from '../../../plugins/realtime/redis-bus.js'
import { postgresSection } from '../../helpers/postgres.js'
import { startRedis } from '../../helpers/redis.js'
import { until } from '../../helpers/until.js'
import { openProxy } from '../../lib/database/proxy.js'
import { keepAlive, open } from './app.js'

interface Heard {
  readonly bus: RoomBus
  readonly heard: [tenant: string, event: RoomEvent][]
  /** How often events may have been missed. */
  readonly missed: () => number
}

type Make = (app: FastifyInstance) => Promise<Heard>

const message = (room: string, text: string): RoomEvent => ({ kind: 'message', room, text })
const textsOf = ({ heard }: Heard, room: string) =>
  heard.flatMap(([, event]) => event.kind === 'message' && event.room === room ? [event.text] : [])

/** `wrap`: changes the bus that is used while Redis is away. */
async function made (
  t: Test,
  app: FastifyInstance,
  url: string | null,
  wrap: (fallback: RoomBus) => RoomBus = (fallback) => fallback
): Promise<Heard> {
  const heard: Heard['heard'] = []
  let missed = 0
  const listener = (tenant: string, event: RoomEvent) => {
    heard.push([tenant, event])
  }
  const parts = { db: app.db, instance: crypto.randomUUID(), log: app.log }
  const fallback = (listener: RoomListener) => wrap(createPostgresBus({ ...parts, events: app.events, listener }))
  const bus = url === null ? fallback(listener) : await createRedisBus({ ...parts, url, listener, fallback, missed: () => missed++ })
  t.teardown(() => bus.close())
  await bus.open()
  await keepAlive(app, parts.instance)
  await bus.hear()
  return { bus, heard, missed: () => missed }
}

/** The suite that each bus passes. */
async function conforms (t: Test, app: FastifyInstance, make: Make): Promise<void> {
  const [first, second, third] = [await make(app), await make(app), await make(app)]

  await t.test('events of a process arrive once and in order at each other process, and not at itself', async (t) => {
    const sent = Array.from({ length: 1000 }, (_, index) => String(index))
    for (const [index, text] of sent.entries()) {
      first.bus.send(tenantRef('acme'), message('a', text))
      // Several batches.
      if (index % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 12))
    }
    await until('all have arrived', () => textsOf(second, 'a').length >= 1000 && textsOf(third, 'a').length >= 1000)
    second.bus.send(tenantRef('acme'), message('a', 'end'))
    await until('the end has arrived', () => textsOf(third, 'a').includes('end') && textsOf(first, 'a').includes('end'))
    t.same(textsOf(second, 'a'), sent)
    t.same(textsOf(third, 'a').filter((text) => text !== 'end'), sent)
    t.same(textsOf(first, 'a'), ['end'])
  })

  await t.test('tenants and rooms are separate, and presence is transferred', async (t) => {
    first.bus.send(tenantRef('acme'), message('b', 'of acme'))
    first.bus.send(tenantRef('globex'), message('b', 'of globex'))
    first.bus.send(tenantRef('globex'), { kind: 'presence', room: 'b' })
    await until('all have arrived', () => second.heard.filter(([, { room }]) => room === 'b').length === 3)
    t.same(
      second.heard.flatMap(([tenant, event]) =>
        event.room === 'b' ? [[tenant, event.kind, event.kind === 'message' ? event.text : '']] : []
      ).sort(),
      [
        ['acme', 'message', 'of acme'],
        ['globex', 'message', 'of globex'],
        ['globex', 'presence', '']
      ]
    )
  })

  await t.test('large and unusual texts arrive unchanged', async (t) => {
    const texts = ['x'.repeat(1_000_000), '"\\\u0001{{body}}', '😀 \u2028 é', "'; drop table notes; --"]
    for (const text of texts) first.bus.send(tenantRef('acme'), message('c', text))
    await until('all have arrived', () => textsOf(third, 'c').length === texts.length)
    t.ok(textsOf(third, 'c').every((text, index) => text === texts[index]))
  })

  await t.test('sent messages leave before the bus has closed', async (t) => {
    const last = await make(app)
    last.bus.send(tenantRef('acme'), message('d', 'last words'))
    await last.bus.close()
    await until('it has arrived', () => textsOf(first, 'd').length === 1 && textsOf(second, 'd').length === 1)
    t.same(textsOf(first, 'd'), ['last words'])
  })

  await t.test('a new listener of a bus gets no earlier messages', async (t) => {
    const late = await make(app)
    first.bus.send(tenantRef('acme'), message('e', 'now'))
    await until('it has arrived', () => textsOf(late, 'e').length === 1)
    t.same(late.heard.length, 1)
  })
}

test('the bus works over PostgreSQL', async (t) => {
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  await conforms(t, app, (app) => made(t, app, null))
})

test('the bus over PostgreSQL forgets processes that ended long ago', async (t) => {
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  let asked = 0
  const db = app.db.withPlugin({
    transformQuery ({ node }) {
      if (node.kind === 'RawNode' && String(node.sqlFragments).includes('unnest')) {
        for (const one of node.parameters) if (ValueNode.is(one) && Array.isArray(one.value)) asked = one.value.length
      }
      return node
    },
    transformResult: async ({ result }) => result
  })
  const heard: string[] = []
  const bus = createPostgresBus({
    db,
    events: app.events,
    instance: crypto.randomUUID(),
    log: app.log,
    listener: (_tenant, { room }) => heard.push(room)
  })
  t.teardown(() => bus.close())
  await bus.open()
  await bus.hear()
  await sql`insert into tenantry.realtime_messages (tenant_id, instance_id, number, messages)
    select 'acme', gen_random_uuid(), 1, ${JSON.stringify([{ kind: 'presence', room: 'a' }])} from generate_series(1, 1100)`.execute(app.db)
  await until('all have arrived', () => heard.length === 1100)
  await sql`delete from tenantry.realtime_messages`.execute(app.db)
  asked = 0
  await until('the next read', () => asked > 0)
  t.equal(asked, 1000)
  t.equal(heard.length, 1100)
})

test('the bus works over Redis', async (t) => {
  const redis = await startRedis(t)
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  await conforms(t, app, (app) => made(t, app, redis.url))
  t.ok(Array.isArray(await redis.command('pubsub', 'channels', 'tenantry:realtime:*')))

  const other = await open(t, {}, { engine: await postgresSection(t) })
  const [here, there] = [await made(t, app, redis.url), await made(t, other.app, redis.url)]
  const local = await made(t, app, redis.url)
  here.bus.send(tenantRef('acme'), message('shared', 'of one database'))
  await until('it has arrived', () => textsOf(local, 'shared').length === 1)
  t.same(there.heard, [], 'another database on the same Redis')

  const before = local.missed()
  await redis.command('client', 'kill', 'type', 'pubsub')
  await until('rooms are read again, since events may be missing', () => local.missed() > before)
  here.bus.send(tenantRef('acme'), message('shared', 'after'))
  await until('it has arrived', () => textsOf(local, 'shared').includes('after'))
})

test('buses on one Redis and copies of one database are separate by the number of the Redis database', async (t) => {
  const { url } = await startRedis(t)
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  const [production, peer] = [await made(t, app, url), await made(t, app, `${url}/0`)]
  const [staging, sender] = [await made(t, app, `${url}/1`), await made(t, app, `${url}/1`)]
  production.bus.send(tenantRef('acme'), message('a', 'of production'))
  await until('it has arrived', () => textsOf(peer, 'a').length === 1)
  sender.bus.send(tenantRef('acme'), message('a', 'of staging'))
  await until('it has arrived', () => textsOf(staging, 'a').includes('of staging'))
  t.same(textsOf(staging, 'a'), ['of staging'])
  production.bus.send(tenantRef('acme'), message('a', 'end'))
  await until('the end has arrived', () => textsOf(peer, 'a').includes('end'))
  t.same(textsOf(peer, 'a'), ['of production', 'end'])
})

test('a subscription that was lost without a sign is made again', async (t) => {
  const redis = await startRedis(t)
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  const proxy = await openProxy(t, redis.url)
  const [first, second] = [await made(t, app, redis.url), await made(t, app, proxy.connectionString)]
  const say = (text: string) => until(`${text} arrives`, () => {
    first.bus.send(tenantRef('acme'), message('a', text))
    return textsOf(second, 'a').includes(text)
  })
  await say('before')
  const before = second.missed()
  proxy.silence()
  await say('after')
  t.ok(second.missed() > before, 'rooms are read again')
})

test('the bus works over a Redis that freezes and continues', async (t) => {
  const redis = await startRedis(t)
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  const [first, second] = [await made(t, app, redis.url), await made(t, app, redis.url)]
  const texts: string[] = []
  const say = async (count: number) => {
    const total = texts.length + count
    while (texts.length < total) {
      texts.push(String(texts.length))
      first.bus.send(tenantRef('acme'), message('a', texts.at(-1) ?? ''))
    }
    await until('all have arrived', () => textsOf(second, 'a').length >= texts.length)
  }
  await say(10)
  redis.pause()
  await say(10)
  await say(10)
  redis.resume()
  await until('Redis is used again', async () => {
    first.bus.send(tenantRef('acme'), message('probe', 'x'))
    return Number(
      await redis.command(
        'pubsub',
        'numsub',
        ...(await redis.command('pubsub', 'channels', 'tenantry:realtime:*').then((names) => Array.isArray(names) ? names.map(String) : []))
      ).then((counts) => Array.isArray(counts) ? counts[1] : 0)
    ) >= 2
  })
  await say(10)
  t.same(textsOf(second, 'a'), texts, 'each once and in order, including those that Redis had kept')
})

test('events that go over PostgreSQL, since Redis refused them, arrive also after later ones of Redis', async (t) => {
  const redis = await startRedis(t)
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  const held: (() => void)[] = []
  const first = await made(t, app, redis.url, (fallback) => ({
    ...fallback,
    send (tenant, event) {
      held.push(() => fallback.send(tenant, event))
      return true
    }
  }))
  const second = await made(t, app, redis.url)
  const send = (event: RoomEvent) => first.bus.send(tenantRef('acme'), event)
  await redis.command('acl', 'setuser', 'default', '-publish')
  send(message('a', 'refused'))
  send({ kind: 'presence', room: 'a' })
  await until('Redis has refused them', () => held.length === 2)
  await redis.command('acl', 'setuser', 'default', '+publish')
  send(message('a', 'accepted'))
  await until('it has arrived', () => textsOf(second, 'a').includes('accepted'))
  await redis.command('acl', 'setuser', 'default', '-publish')
  send(message('a', 'end'))
  await until('Redis has refused the end', () => held.length === 4)
  for (const release of held) release()
  await until('the end has arrived', () => textsOf(second, 'a').includes('end'))
  t.same(textsOf(second, 'a'), ['accepted', 'refused', 'end'])
  t.equal(second.heard.filter(([, { kind }]) => kind === 'presence').length, 1)
})

test('events arrive while Redis returns and a receiver has not subscribed again', async (t) => {
  const redis = await startRedis(t)
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  const [first, second] = [await made(t, app, redis.url), await made(t, app, redis.url)]
  const send = (text: string) => first.bus.send(tenantRef('acme'), message('a', text))
  await redis.command('acl', 'setuser', 'default', '-publish')
  send('refused')
  await until('it has arrived over PostgreSQL', () => textsOf(second, 'a').length === 1)
  await redis.command('acl', 'setuser', 'default', '+publish')
  // The receiver connects again after half a second.
  await redis.command('client', 'kill', 'type', 'pubsub')
  send('accepted')
  await until('it has arrived', () => textsOf(second, 'a').length === 2)
  send('end')
  await until('the end has arrived', () => textsOf(second, 'a').includes('end'))
  t.same(textsOf(second, 'a'), ['refused', 'accepted', 'end'], 'each once')
})

test('events arrive after a return of Redis that no publication noticed', async (t) => {
  const redis = await startRedis(t)
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  const [first, second] = [await made(t, app, redis.url), await made(t, app, redis.url)]
  // The connection of both buses.
  const connection = await openRedis(redis.url, app.log)
  t.teardown(() => connection.close())
  const returned = new Promise<void>((resolve) => {
    connection.onReturn(async () => resolve())
  })
  await redis.command('client', 'kill', 'type', 'normal')
  await returned
  // The receiver connects again after half a second.
  await redis.command('client', 'kill', 'type', 'pubsub')
  first.bus.send(tenantRef('acme'), message('a', 'after'))
  await until('it has arrived', () => textsOf(second, 'a').includes('after'))
})
