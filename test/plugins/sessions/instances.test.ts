/** A logout applies on every server of the database, whatever their clocks, and an acknowledged one is not lost. */
import { test } from 'tap'
import { fakeClock } from '../../helpers/clock.js'
import { startInstance } from '../../helpers/instances.js'
import { secretToken } from '../../helpers/log-scan.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { postgresSection } from '../auth/app.js'
import { open } from './app.js'

test('servers with different clocks agree on the order', async (t) => {
  const engine = await postgresSection(t)
  const clock = fakeClock()
  const behind = await open(t, engine, { tenants: ['acme'], ...clock })
  const ahead = await open(t, engine, { now: () => clock.now() + 4000 })
  const both = async (token: string, expected: number, label: string) => {
    for (const [name, { status }] of [['behind', behind], ['ahead', ahead]] as const) {
      await until(`${label}, on the server that is ${name}`, async () => await status(token) === expected)
    }
  }
  const [early, late] = [await behind.enter(), await ahead.enter()]
  for (const token of [early, late]) await both(token, 200, 'a session')
  t.equal((await behind.ask('POST /auth/logout-all', early)).status, 200)
  await both(late, 401, 'an earlier one, whose time is later')
  const next = await behind.enter()
  await both(next, 200, 'a later one, whose time is earlier')
  t.equal((await ahead.ask('POST /auth/logout-all', next)).status, 200)
  const last = await behind.enter()
  t.equal((await behind.ask('POST /auth/logout-all', last)).status, 200)
  await both(last, 401, 'the end of the server that is behind comes last')
  await both(await behind.enter(), 200, 'and a session after it')
  for (const token of [early, late, next]) await both(token, 401, 'sessions that ended before')
})

test('sessions begin after a logout everywhere by a server whose clock was ten minutes ahead', async (t) => {
  const engine = await postgresSection(t)
  const clock = fakeClock()
  const right = await open(t, engine, { tenants: ['acme'], ...clock })
  const ahead = await open(t, engine, { now: () => clock.now() + 600_000 })
  const early = await ahead.enter()
  t.equal((await ahead.ask('POST /auth/logout-all', early)).status, 200)
  const next = await right.enter()
  t.same([await right.status(next), await ahead.status(next), await ahead.status(early)], [200, 200, 401])
  const { partialToken } = await right.app.sessions.openPartial({ sub: 'ada', tenant_id: 'acme' })
  const partial = right.app.auth.verifyPartial(secretToken(partialToken))
  t.equal(await right.app.sessions.isClosed(partial), false)

  t.equal((await right.ask('POST /auth/logout-all', next)).status, 200)
  const last = await right.enter()
  t.same([await right.status(next), await right.status(last)], [401, 200])
  t.equal(await right.app.sessions.isClosed(partial), true)
  t.equal(await right.status(right.mint({ session_seq: Number.MAX_SAFE_INTEGER })), 401, 'an impossible sequence')
})

test('a logout applies in another process, and survives a kill of its own', async (t) => {
  const engine = await postgresSection(t)
  const killed = await startInstance(t, {}, engine)
  const { status } = await open(t, engine)
  const end = async (path: string, token: string) =>
    (await fetch(killed.address + path, { method: 'POST', headers: { authorization: `Bearer ${token}` } })).status
  const tokenOf = (sub: string, id: string) => signToken({ sub, tenant_id: 'acme', jti: id })
  const [one, two, other] = [tokenOf('ada', '1'), tokenOf('ada', '2'), tokenOf('bob', '3')]
  t.same(await Promise.all([one, two, other].map(status)), [200, 200, 200])

  t.equal(await end('/auth/logout', one), 200)
  await until('a logout', async () => await status(one) === 401)
  t.equal(await status(two), 200)
  t.equal(await end('/auth/logout-all', two), 200)
  await killed.stop('SIGKILL')
  await until('a logout everywhere applies although its server was killed', async () => await status(two) === 401)
  t.equal(await status(other), 200)
  // Nothing of it is only in memory.
  const fresh = await open(t, engine)
  t.same(await Promise.all([one, two, other].map(fresh.status)), [401, 401, 200])
})
