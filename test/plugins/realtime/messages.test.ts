/** The documented and typed messages, and the server's log of its connections. */
import { Ajv } from 'ajv'
import { default as formats } from 'ajv-formats'
import { test } from 'tap'
import { isRecord } from '../../../lib/json/plain-value.js'
import type { ClientMessage, ServerMessage } from '../../../plugins/realtime/index.js'
import { postgresSection } from '../../helpers/postgres.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'
import { type Message, open } from './app.js'

/** Compiles only if the message types declare each member. */
function positionOf (message: ServerMessage): number | undefined {
  if (message.type === 'change' || message.type === 'gap') return message.position
  // @ts-expect-error a pong has no position
  if (message.type === 'pong') return message.position
  return undefined
}

// @ts-expect-error a watch names a table
const wrong: ClientMessage = { type: 'watch' }

test('all messages match the AsyncAPI document', async (t) => {
  const { app, origin, connect, ask } = await open(t, {}, { engine: await postgresSection(t) })
  const document: unknown = await (await fetch(`${origin}/doc/realtime`)).json()
  const components = isRecord(document) && isRecord(document['components']) ? document['components'] : {}
  const messages = isRecord(components['messages']) ? components['messages'] : {}
  const ajv = new Ajv({ strict: false })
  formats.default(ajv)
  const validate = (side: 'client' | 'server', message: Message): void => {
    const entry = messages[`${side}.${String(message['type'])}`]
    const check = ajv.compile(isRecord(entry) && isRecord(entry['payload']) ? entry['payload'] : false)
    t.ok(check(message), `${side} ${String(message['type'])}: ${ajv.errorsText(check.errors)}`)
  }
  t.match(document, { asyncapi: '3.0.0', channels: { realtime: { address: '/realtime' } } })
  const [one, two] = [await connect('acme'), await connect('acme')]
  const seen = new Map<string, Message>()
  one.socket.on('message', (data) => {
    const message: Message = JSON.parse(String(data))
    seen.set(String(message['type']), message)
  })
  const acme = ask('acme')
  const sent: ClientMessage[] = [
    { type: 'ping' },
    { type: 'watch', table: 'notes', filter: { done: false } },
    { type: 'watch', table: 'notes', since: 99 },
    { type: 'watch', table: 'unknown' },
    { type: 'join', room: 'a', state: { name: 'Ada' } },
    { type: 'message', room: 'a', event: 'hi', data: [1] },
    { type: 'leave', room: 'b' },
    { type: 'unwatch', watch: '2' },
    { type: 'auth', token: signToken({ sub: 'bob', tenant_id: 'acme' }) }
  ]
  for (const message of sent) {
    validate('client', { ...message })
    await one.ask({ ...message })
  }
  await two.ask({ type: 'join', room: 'a' })
  two.send({ type: 'message', room: 'a', data: null })
  await acme('POST /notes', { body: { title: 'one' } })
  await one.change()
  await one.next(({ type }) => type === 'message')
  for (const type of ['ack', 'change', 'error', 'gap', 'message', 'pong', 'presence']) validate('server', seen.get(type) ?? { type })
  t.equal(positionOf({ type: 'gap', watch: '1', position: 7 }), 7)
  t.type(wrong, 'object')

  const root = caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) })
  t.match((await root('GET /system/info')).body, { realtime: { connections: 2, watches: 1, rooms: 1, bus: 'postgres' } })
  const { text } = await root('GET /metrics')
  t.match(text, /^tenantry_realtime_connections 2$/m)
  t.match(text, /^tenantry_realtime_watches 1$/m)
  t.match(text, /^tenantry_realtime_rooms 1$/m)
  t.match((await acme('GET /billing/usage')).body, {
    usage: { websocket: { connections: { current: 2 }, rooms: { current: 1 }, entitiesWatched: { current: 1 } } }
  })
  for (const client of [one, two]) client.socket.close()
  await until('all is over', () => app.realtime.connections === 0)
  t.same(app.realtime.status(), { connections: 0, watches: 0, rooms: 0, bus: 'postgres' })
})
