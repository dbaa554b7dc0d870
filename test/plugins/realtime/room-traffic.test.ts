/** Messages of rooms that leave the process: their bytes per second, and the writes of a process alone. */
import { sql } from 'kysely'
import { test } from 'tap'
import { startInstance } from '../../helpers/instances.js'
import { postgresSection } from '../../helpers/postgres.js'
import { document, open, ready, tokenOf } from './app.js'

test('a client is refused messages beyond the bytes of its tenant, and another tenant is not', async (t) => {
  const realtime = { ...document.realtime, maxMessagesPerSecond: 10_000 }
  const { connect } = await open(t, { realtime }, { engine: await postgresSection(t) })
  const [sender, member, other] = [await connect('acme'), await connect('acme'), await connect('globex')]
  for (const client of [sender, member, other]) await client.ask({ type: 'join', room: 'a' })
  const send = (client: typeof sender, bytes: number) => client.ask({ type: 'message', room: 'a', data: 'x'.repeat(bytes) })
  // All at once: on a busy machine a message and its response may take so long that the next one is allowed again.
  const responses = await Promise.all(Array.from({ length: 200 }, () => send(sender, 60_000)))
  const sent = responses.filter(({ type }) => type === 'ack').length
  t.match(responses.find(({ type }) => type !== 'ack'), { type: 'error', status: 429, code: 'TENANTRY_RATE_LIMITED', retryAfter: 1, message: /256 KB of room messages per second/ })
  t.ok(sent >= 69, '4 MB at once')
  t.match(await send(other, 60_000), { type: 'ack' })
  t.match(await sender.ask({ type: 'ping' }), { type: 'pong' }, 'the connection stays')
  await member.settle()
  t.equal(member.messages.filter(({ type }) => type === 'message').length, sent, 'no member gets a refused message')
})

test('a process writes messages of rooms to the database only while another one is alive', async (t) => {
  const engine = await postgresSection(t)
  const { app, connect } = await open(t, {}, { engine })
  const [sender, member] = [await connect('acme'), await connect('acme')]
  for (const client of [sender, member]) await client.ask({ type: 'join', room: 'a' })
  const send = (data: string) => sender.ask({ type: 'message', room: 'a', data })
  await send('alone')
  t.match(await member.next(({ type }) => type === 'message'), { data: 'alone' })

  const there = await startInstance(t, document, engine)
  const far = await ready(t, there.address, tokenOf('acme'))
  await far.ask({ type: 'join', room: 'a' })
  await send('together')
  t.match(await far.next(({ type }) => type === 'message'), { data: 'together' })
  const { rows } = await sql<{ messages: string }>`select messages from tenantry.realtime_messages`.execute(app.db)
  t.notOk(rows.some(({ messages }) => messages.includes('alone')))
  t.ok(rows.some(({ messages }) => messages.includes('together')))
})
