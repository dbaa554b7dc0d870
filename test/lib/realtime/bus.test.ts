/** Events of rooms that wait for other processes: tenants share the room fairly. */
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { Outgoing, type RoomEvent } from '../../../lib/realtime/bus.js'

const message = (bytes: number, letter = 'x'): RoomEvent => ({ kind: 'message', room: 'a', text: letter.repeat(bytes) })
const presence: RoomEvent = { kind: 'presence', room: 'a' }
const [acme, globex] = [tenantRef('acme'), tenantRef('globex')]

test('a tenant that sends too much loses its own messages only, and no change of presence', async (t) => {
  const losing: string[] = []
  let now = 0
  const outgoing = new Outgoing((tenant) => losing.push(tenant), () => now)
  for (let count = 0; count < 100; count++) outgoing.add(acme, message(65_536))
  outgoing.add(acme, presence)
  outgoing.add(globex, message(65_536))
  t.same(losing, ['acme'], 'reported once')
  const taken = new Map([[acme, [] as RoomEvent[]], [globex, [] as RoomEvent[]]])
  while (!outgoing.isEmpty) { for (const [tenant, events] of outgoing.take()) taken.get(tenant)?.push(...events) }
  t.same(taken.get(globex), [message(65_536)])
  t.same(taken.get(acme)?.map(({ kind }) => kind), [...Array.from({ length: 64 }, () => 'message'), 'presence'], '4 MB')
  now = 250
  outgoing.add(acme, message(65_536))
  t.notOk(outgoing.isEmpty, 'then it can send again')
})

test('some tenants that send too much leave room for the others', async (t) => {
  const losing: string[] = []
  const outgoing = new Outgoing((tenant) => losing.push(tenant))
  for (let tenant = 0; tenant < 50; tenant++) { for (let count = 0; count < 100; count++) outgoing.add(tenantRef(`t${tenant}`), message(65_536)) }
  const { length } = losing
  t.equal(length, 50)
  outgoing.add(acme, message(100))
  t.equal(losing.length, length)
})

test('each batch has a part of each tenant, in order', async (t) => {
  const outgoing = new Outgoing(() => {})
  for (const letter of ['a', 'b', 'c']) outgoing.add(acme, message(40_000, letter))
  outgoing.add(globex, message(1, 'd'))
  const lettersOf = (batch: ReadonlyMap<string, readonly RoomEvent[]>) =>
    Array.from(batch, ([tenant, events]) => [tenant, events.map((event) => event.kind === 'message' ? event.text[0] : '').join('')])
  t.same(lettersOf(outgoing.take()), [['acme', 'ab'], ['globex', 'd']])
  t.same(lettersOf(outgoing.take()), [['acme', 'c']])
  t.ok(outgoing.isEmpty)
})

test('changes of presence that wait are one for each room', async (t) => {
  const outgoing = new Outgoing(() => {})
  const other: RoomEvent = { kind: 'presence', room: 'b' }
  for (let count = 0; count < 1000; count++) for (const event of [presence, other]) outgoing.add(acme, event)
  outgoing.add(globex, presence)
  t.same([...outgoing.take()], [[acme, [presence, other]], [globex, [presence]]])
  outgoing.add(acme, presence)
  t.same([...outgoing.take()], [[acme, [presence]]], 'a change after the batch')
})

test('after 4 MB at once a tenant sends 256 KB a second, without an effect on another tenant', async (t) => {
  let now = 0
  const outgoing = new Outgoing(() => {}, () => now)
  const sendAll = () => {
    let bytes = 0
    while (outgoing.add(acme, message(1024))) {
      bytes += 1024
      outgoing.take()
    }
    return bytes
  }
  t.equal(sendAll(), 4_194_304)
  for (let second = 1; second <= 3; second++) {
    now = second * 1000
    t.equal(sendAll(), 262_144)
    t.ok(outgoing.add(globex, message(65_536)))
    t.ok(outgoing.add(acme, presence), 'changes of presence are always sent')
    outgoing.take()
  }
  t.notOk(outgoing.add(acme, message(1024)))
  now += 60_000
  t.equal(sendAll(), 4_194_304)
})

test('the bytes of a message count, and not its characters', async (t) => {
  const outgoing = new Outgoing(() => {}, () => 0)
  t.notOk(outgoing.add(acme, message(1_400_000, '\u20ac')))
})
