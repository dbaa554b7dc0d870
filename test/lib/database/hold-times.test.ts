import { test } from 'tap'
import { HoldTimes } from '../../../lib/database/hold-times.js'
import { FairGate, type Party } from '../../../lib/fair-gate.js'

/** Connections of which each is held for as long as the test says. */
function connectionsOf (max: number) {
  const clock = { now: 0 }
  const times = new HoldTimes(max, () => clock.now)
  const gate = new FairGate(max, 60_000, true, (party) => times.mayHoldMore(party))
  const held: { readonly name: string, readonly party: Party, readonly since: number }[] = []
  const granted: string[] = []
  const connections = {
    granted,
    clock,
    gate,
    ask (key: string | null | undefined, name = String(key)) {
      gate.enter(key, (party) => {
        granted.push(name)
        held.push({ name, party, since: clock.now })
      }, () => granted.push(`${name} refused`))
    },
    end (name: string) {
      const [one] = held.splice(held.findIndex((one) => one.name === name), 1)
      times.ended(one!.party, one!.since)
      gate.leave(one!.party)
    },
    /** One statement of so many milliseconds, and nothing beside it. */
    run (key: string | null | undefined, ms: number) {
      connections.ask(key, `${key} once`)
      clock.now += ms
      connections.end(`${key} once`)
    },
    /** How many of eight connections that the tenant asks for it gets at once. */
    most (key: string) {
      const before = granted.length
      for (let index = 0; index < 8; index++) connections.ask(key)
      const count = granted.length - before
      gate.close()
      for (let index = 0; index < count; index++) connections.end(key)
      return count
    }
  }
  return connections
}

test('slow statements of a tenant wait for each other while a faster tenant uses the database', async (t) => {
  const { granted, gate, ask, end, run } = connectionsOf(10)
  t.teardown(() => gate.close())
  for (let index = 0; index < 5; index++) run('slow', 50)
  run('fast', 2)
  granted.length = 0
  for (const name of ['slow 1', 'slow 2', 'slow 3']) ask('slow', name)
  for (const name of ['fast 1', 'fast 2', 'fast 3']) ask('fast', name)
  t.strictSame(granted, ['slow 1', 'fast 1', 'fast 2', 'fast 3'], 'the faster tenant goes first')
  t.equal(gate.waiting, 2)
  end('slow 1')
  t.strictSame(granted.slice(4), ['slow 2'], 'one at a time')
  gate.close()
  t.strictSame(granted.slice(5), ['slow 3 refused'], 'one that waits too long is refused')
})

test('a slow tenant has all of its share when no other tenant is faster', async (t) => {
  const alone = connectionsOf(10)
  for (let index = 0; index < 5; index++) alone.run('slow', 50)
  alone.run(undefined, 1)
  t.equal(alone.most('slow'), 8, 'the server itself does not count')

  const far = connectionsOf(10)
  for (const tenant of ['slow', 'other']) far.run(tenant, 50)
  t.equal(far.most('slow'), 8, 'where every statement takes that long, as through a slow network')

  const before = connectionsOf(10)
  before.run('slow', 50)
  before.run('fast', 2)
  before.clock.now += 251
  t.equal(before.most('slow'), 8, 'the other tenant does nothing any more')
})

test('a slow tenant has a tenth of the connections', async (t) => {
  for (const [max, most] of [[10, 1], [20, 2], [40, 4]] as const) {
    const connections = connectionsOf(max)
    connections.run('slow', 50)
    connections.run(null, 2)
    t.equal(connections.most('slow'), most, `${most} of ${max}`)
  }
})

test('short statements between the slow ones do not hide them', async (t) => {
  const { run, most } = connectionsOf(10)
  for (let index = 0; index < 5; index++) {
    run('slow', 50)
    for (let short = 0; short < 10; short++) run('slow', 1)
  }
  run('fast', 1)
  t.equal(most('slow'), 1)
})

test('a tenant whose statements are fast again has its share again', async (t) => {
  const { run, most } = connectionsOf(10)
  run('tenant', 50)
  for (let index = 0; index < 200; index++) run('tenant', 2)
  run('fast', 0.5)
  t.equal(most('tenant'), 8)
})
