import dns from 'node:dns'
import { once } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import { connect } from 'node:net'
import t from 'tap'
import { createSharedLookup, type Lookup, shareLookups } from '../../bin/name-lookups.js'
import { remote } from '../helpers/remote.js'

type Callback = Parameters<Lookup>[2]

/** Name servers that answer when the test does. */
function names () {
  const asked: { hostname: string, callback: Callback }[] = []
  return {
    ask: ((hostname, _options, callback) => {
      asked.push({ hostname, callback })
    }) satisfies Lookup,
    /** The names that wait for an answer. */
    waiting: () => asked.map(({ hostname }) => hostname),
    answer (hostname: string, address = '127.0.0.1') {
      for (const question of asked.splice(0)) {
        if (question.hostname === hostname) question.callback(null, address, 4)
        else asked.push(question)
      }
    }
  }
}

const turn = () => new Promise(setImmediate)

t.test('a name without an answer is looked up once for all callers', async (t) => {
  const server = names()
  const lookup = createSharedLookup(server.ask, () => 0)
  const found: (string | dns.LookupAddress[])[] = []
  for (let caller = 0; caller < 3; caller++) lookup('one.test', {}, (_error, address) => found.push(address))
  lookup('one.test', { all: true }, () => {})
  lookup('other.test', {}, () => {})
  t.same(server.waiting(), ['one.test', 'one.test', 'other.test'], 'one look-up for each kind of result')
  server.answer('one.test')
  await turn()
  t.same(found, ['127.0.0.1', '127.0.0.1', '127.0.0.1'])
  lookup('one.test', {}, (error, address) => found.push(error?.code ?? address))
  t.same(server.waiting(), ['other.test', 'one.test'], 'a later caller asks again')
  server.answer('one.test', '127.0.0.2')
  await turn()
  t.equal(found.at(-1), '127.0.0.2')
})

t.test('slow names wait for each other, and other names do not', async (t) => {
  const server = names()
  let time = 0
  const lookup = createSharedLookup(server.ask, () => time)
  const slow = ['a.test', 'b.test', 'c.test']
  for (const name of slow) lookup(name, {}, () => {})
  time = 10_000
  for (const name of slow) server.answer(name)
  await turn()
  for (const name of [...slow, 'quick.test']) lookup(name, {}, () => {})
  await turn()
  t.same(server.waiting(), ['quick.test', 'a.test'])
  server.answer('a.test')
  await turn()
  t.same(server.waiting(), ['quick.test', 'b.test'])
  lookup('a.test', {}, () => {})
  t.same(server.waiting(), ['quick.test', 'b.test', 'a.test'], 'a name that was answered in time is no longer slow')
})

t.test('connections of the process share their look-ups', async (t) => {
  const service = await remote(t, () => {})
  const server = names()
  const { lookup } = dns
  t.teardown(() => {
    Object.assign(dns, { lookup })
    syncBuiltinESMExports()
  })
  Object.assign(dns, { lookup: server.ask })
  shareLookups()
  const sockets = [1, 2].map(() => connect({ host: 'service.test', port: service.port, autoSelectFamily: false }))
  t.same(server.waiting(), ['service.test'])
  server.answer('service.test')
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  for (const socket of sockets) socket.destroy()
  const failing = [dns.lookup, dns.lookup].map((look) =>
    new Promise((resolve) => look('127.0.0.1', 4, (_error, address, family) => resolve([address, family])))
  )
  server.answer('127.0.0.1')
  t.same(await Promise.all(failing), [['127.0.0.1', 4], ['127.0.0.1', 4]])
})
