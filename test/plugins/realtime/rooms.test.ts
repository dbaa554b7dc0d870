/** Large rooms: their messages are sent in turns with those of other tenants. */
import { randomUUID } from 'node:crypto'
import { mock } from 'node:test'
import type { Test } from 'tap'
import { test } from 'tap'
import { type Owner, tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { RoomBus, RoomEvent } from '../../../lib/realtime/bus.js'
import { plansOf } from '../../../plugins/plans/plans-of.js'
import { createMemberStore, type MemberStore } from '../../../plugins/realtime/member-store.js'
import { createRooms } from '../../../plugins/realtime/rooms.js'
import type { Client } from '../../../plugins/realtime/types.js'
import { until } from '../../helpers/until.js'
import { open } from './app.js'

/** Rooms whose members are kept in memory. `log` has each sent message, by its receiver. */
async function made (t: Test, own: Partial<MemberStore> = {}) {
  const { app } = await open(t)
  const log: { tenant: Owner, id: string, data: unknown }[] = []
  const store: MemberStore = {
    join: async () => ({ kind: 'joined' }),
    leave: async () => {},
    remove: async () => {},
    members: async () => [],
    beat: async () => false,
    restore: async () => {},
    removeDead: async () => [],
    retire: async () => [],
    ...own
  }
  const events: RoomEvent[] = []
  const bus: RoomBus = {
    open: async () => {},
    hear: async () => {},
    rest: () => {},
    send: (_tenant, event) => {
      events.push(event)
      return true
    },
    close: async () => {}
  }
  const rooms = createRooms({ store, bus, plans: plansOf(app), isLimited: () => false, maxMessageBytes: 65_536, log: app.log })
  t.teardown(() => rooms.close())
  const enter = async (tenant: Owner, count: number) =>
    await Promise.all(Array.from({ length: count }, async (_, index) => {
      const client: Client = {
        id: `${tenant} ${index}`,
        outlet: {
          send (text, type) {
            if (type === 'message') log.push({ tenant, id: client.id, data: JSON.parse(text).data })
          },
          isBehind: false,
          drained: async () => {},
          close: () => {},
          bytes: 0
        },
        identity: { claims: { sub: 'bob' }, tenant, createdAt: new Date(0), verify: () => ({ sub: 'bob' }), count: async () => {} },
        isClosed: false,
        watches: new Map(),
        opening: 0,
        lastWatch: 0,
        rooms: new Set()
      }
      await rooms.join(client, 'a', null)
      return client
    }))
  return { app, rooms, log, events, enter }
}

test('a flood of messages in a large room is sent in turns: a message of another tenant does not wait for all of it', async (t) => {
  const { rooms, log, enter } = await made(t)
  const [acme, globex] = [tenantRef('acme'), tenantRef('globex')]
  const [first] = await enter(acme, 500)
  await enter(globex, 2)
  const sent = Promise.all(Array.from({ length: 200 }, (_, data) => rooms.publish(acme, { room: 'a', data }, data % 2 === 0 ? first ?? null : null)))
  const total = 200 * 500 - 100
  t.ok(log.length < total, 'the publisher does not send all at once')
  await rooms.publish(globex, { room: 'a', data: 'other' }, null)
  t.equal(log.filter(({ tenant }) => tenant === globex).length, 2)
  t.ok(log.length < total, `${log.length} of ${total} messages were sent before`)
  await sent
  t.equal(log.filter(({ tenant }) => tenant === acme).length, total)
  const received = new Map<string, unknown[]>()
  for (const { tenant, id, data } of log) if (tenant === acme) received.set(id, [...received.get(id) ?? [], data])
  const all = Array.from({ length: 200 }, (_, data) => data)
  t.same(received.get('acme 0'), all.filter((data) => data % 2 === 1), 'no message returns to its sender')
  t.ok(all.slice(1).every((index) => received.get(`acme ${index}`)?.join() === all.join()), 'each member gets each message, in order')
})

test('the texts that wait for the members of a room are bounded', async (t) => {
  const { rooms, log, enter } = await made(t)
  const acme = tenantRef('acme')
  await enter(acme, 50)
  const data = 'x'.repeat(60_000)
  for (let count = 0; count < 300; count++) rooms.hear(acme, { kind: 'message', room: 'a', text: JSON.stringify({ data }) })
  await rooms.publish(acme, { room: 'a', data: 'end' }, (await enter(acme, 1))[0] ?? null)
  const one = log.filter(({ id }) => id === 'acme 7')
  t.equal(one.at(-1)?.data, 'end', 'a message of a client, which waits for it, is not lost')
  t.ok(one.length < 100, `${one.length} of 300 large messages`)
  await until('the room is idle', () => log.length >= one.length * 50)
})

test('messages of other processes that cannot be sent have one line at warn for each tenant', async (t) => {
  const levels: string[] = []
  const { rooms, enter, app } = await made(t)
  for (const level of ['warn', 'debug'] as const) {
    mock.method(app.log, level, ({ tenant }: { tenant: string }, text: string) => {
      if (text === 'a message or the members of a room could not be sent') levels.push(`${tenant} ${level}`)
    })
  }
  t.teardown(() => mock.restoreAll())
  for (const tenant of [tenantRef('acme'), tenantRef('globex')]) {
    for (const { outlet } of await enter(tenant, 1)) {
      outlet.send = () => {
        throw new Error('of the test')
      }
    }
    for (let count = 0; count < 3; count++) rooms.hear(tenant, { kind: 'message', room: 'a', text: '{}' })
  }
  await until('all have failed', () => levels.length === 6)
  t.same(levels, ['acme warn', 'acme debug', 'acme debug', 'globex warn', 'globex debug', 'globex debug'])
})

/** Returns a function that lets the time pass. */
function fakeTimers (t: Test): (ms: number) => Promise<void> {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  return async (ms) => {
    mock.timers.tick(ms)
    await new Promise(setImmediate)
  }
}

test('the members of a room are read again after a pause if the database fails', async (t) => {
  let reads = 0
  const { enter } = await made(t, {
    async members () {
      reads++
      throw new Error('the database is away')
    }
  })
  const passes = fakeTimers(t)
  await enter(tenantRef('acme'), 1)
  const after = (ms: number) => passes(ms).then(() => reads)
  t.equal(await after(100), 1)
  t.equal(await after(100), 1, 'not at once')
  t.equal(await after(1000), 2)
})

test('a member that could not leave a room in the database is removed with a later heartbeat', async (t) => {
  const rows = new Set<string>()
  let isAway = false
  const available = () => {
    if (isAway) throw new Error('the database is away')
  }
  const { rooms, events, enter } = await made(t, {
    async join ({ id }) {
      if (isAway && id === 'acme 0') throw new Error('the database is away')
      rows.add(id)
      return { kind: 'joined' }
    },
    async leave (_tenant, _rooms, id) {
      available()
      rows.delete(id)
    },
    async remove (members) {
      available()
      for (const { id } of members) rows.delete(id)
    },
    async beat () {
      available()
      return false
    }
  })
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => mock.timers.reset())
  const beats = async () => {
    mock.timers.tick(4000)
    await new Promise(setImmediate)
  }
  const [first, second] = await enter(tenantRef('acme'), 2)
  if (first === undefined || second === undefined) return t.fail('no members')
  isAway = true
  for (const client of [first, second]) await t.rejects(rooms.leave(client, ['a']), /away/)
  await beats()
  t.equal(rows.size, 2)
  await t.rejects(rooms.join(first, 'a', null), /away/, 'a member that cannot join again')
  await rooms.join(second, 'a', null)
  events.length = 0
  isAway = false
  await beats()
  t.same([...rows], [second.id], 'a member that joined again stays')
  t.match(events, [{ kind: 'presence', room: 'a' }], 'other processes read the members again')
})

test('a removal of members removes no others', async (t) => {
  const { app } = await open(t)
  const store = createMemberStore(app.db, app.engine.kyselyFor, randomUUID())
  await store.beat()
  const [acme, globex] = [tenantRef('acme'), tenantRef('globex')]
  const [id, other] = [randomUUID(), randomUUID()]
  const places = [{ tenant: acme, room: 'a' }, { tenant: acme, room: 'b' }, { tenant: globex, room: 'a' }]
  for (const place of places) {
    for (const member of [id, other]) t.match(await store.join({ ...place, id: member, state: null }, 10, () => null), { kind: 'joined' })
  }
  await store.remove([{ tenant: acme, room: 'a', id }, { tenant: globex, room: 'a', id: other }])
  const left = await Promise.all(places.map(async (place) => (await store.members(place, 10)).map((member) => member.id)))
  t.same(left, [[other], [id, other], [id]])
})

test('a member whose join got no response is removed with a later heartbeat', async (t) => {
  const removed: string[] = []
  const { enter } = await made(t, {
    join: async () => ({ kind: 'unsure', error: new Error('no response') }),
    async remove (members) {
      removed.push(...members.map(({ id }) => id))
    }
  })
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => mock.timers.reset())
  await t.rejects(enter(tenantRef('acme'), 1), /no response/)
  mock.timers.tick(4000)
  await new Promise(setImmediate)
  t.same(removed, ['acme 0'])
})

test('the members of a room are read again after events may have been missed', async (t) => {
  let reads = 0
  const { rooms, enter } = await made(t, {
    async members () {
      reads++
      return []
    }
  })
  const passes = fakeTimers(t)
  await enter(tenantRef('acme'), 1)
  const after = (ms: number) => passes(ms).then(() => reads)
  t.same([await after(100), await after(100)], [1, 1])
  rooms.refresh()
  t.equal(await after(100), 2)
})
