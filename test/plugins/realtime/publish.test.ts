/** Messages that routes and workflows send to rooms. */
import { sql } from 'kysely'
import { test } from 'tap'
import { checkConfig, ConfigError } from '../../../lib/configuration/index.js'
import { gate } from '../../helpers/gate.js'
import { allowLongCalls } from '../../helpers/long-calls.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { remote } from '../../helpers/remote.js'
import type { TestDocument } from '../../helpers/server.js'
import { replaceTenant } from '../../helpers/succession.js'
import { document, open } from './app.js'

const routes: NonNullable<TestDocument['routes']> = [
  ...document.routes ?? [],
  {
    path: '/posts/:chat',
    method: 'post',
    queries: [{ table: 'notes', operation: 'insert', alias: 'post', data: { title: '{{body.title}}' } }],
    realtime: {
      room: 'chat-{{params.chat}}',
      event: 'post-{{body.title}}',
      data: { id: '{{results.post.id}}', by: '{{auth.sub}}', fixed: 1 }
    }
  },
  {
    path: '/loose',
    method: 'post',
    queries: [{ table: 'notes', operation: 'insert', data: { title: 'loose' } }],
    realtime: { room: '{{body.room}}', data: '{{body.data}}' }
  },
  { path: '/bell', method: 'post', realtime: { room: 'chat-1', data: 'ding' } },
  {
    path: '/runs',
    method: 'post',
    workflow: {
      steps: [
        { id: 'before', type: 'realtime', room: 'chat-1', event: 'started', data: null },
        { id: 'row', type: 'database', table: 'tasks', operation: 'insert', data: { number: '{{body.number}}', title: 'made' } },
        { id: 'tell', type: 'realtime', room: 'chat-{{input.chat}}', event: 'done', data: { number: '{{steps.row.result.number}}' } }
      ]
    }
  },
  {
    path: '/later',
    method: 'post',
    workflow: { async: true, steps: [{ id: 'tell', type: 'realtime', room: 'chat-1', data: '{{input.text}}' }] }
  }
]

const isMessage = ({ type }: Record<string, unknown>) => type === 'message'

test('a route sends its message to the room of its tenant', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { connect, ask } = await open(t, { routes }, { engine })
    const [member, stranger] = [await connect('acme'), await connect('globex')]
    for (const each of [member, stranger]) t.match(await each.ask({ type: 'join', room: 'chat-1' }), { type: 'ack' })
    const acme = ask('acme')
    const made = await acme('POST /posts/1', { body: { title: 'one' } })
    t.equal(made.status, 201)
    t.same(await member.next(isMessage), {
      type: 'message',
      room: 'chat-1',
      event: 'post-one',
      data: { id: made.body['id'], by: 'ada', fixed: 1 },
      from: null
    })

    t.equal((await acme('POST /posts/2', { body: { title: 'elsewhere' } })).status, 201)
    t.equal((await acme('POST /posts/1', { body: { title: 12 } })).status, 400, 'a failed request')
    t.equal((await acme('POST /loose', { body: { room: 'no name', data: 1 } })).status, 201, 'an invalid room name')
    t.equal((await acme('POST /loose', { body: { room: 'chat-1', data: 'x'.repeat(65_536) } })).status, 201, 'a message that is too large')
    for (let times = 0; times < 2; times++) t.equal((await acme('POST /bell', { headers: { 'idempotency-key': 'once' } })).status, 200)
    t.equal((await acme('POST /loose', { body: { room: 'chat-1', data: { any: ['json', null] } } })).status, 201)
    t.match(
      [await member.next(isMessage), await member.next(isMessage)],
      [{ data: 'ding' }, { data: { any: ['json', null] } }],
      'the others sent nothing'
    )
    await stranger.settle()
    t.notOk(stranger.messages.some(isMessage), "another tenant's room with the same name")

    const { body: doc } = await acme('GET /doc')
    t.match(JSON.stringify(doc), /Sends a message to the members of the room `chat-\{\{params\.chat\}\}`\./)
  }))

test('a message is sent only after the commit', async (t) => {
  const { app, connect, ask } = await open(t, { routes }, { engine: await postgresSection(t) })
  await sql`create function refuse () returns trigger language plpgsql as $$begin if new.title = 'refused' then raise exception 'not today'; end if; return null; end$$`
    .execute(app.db)
  await sql`create constraint trigger late after insert on notes deferrable initially deferred for each row execute function refuse()`
    .execute(app.db)
  const member = await connect('acme')
  await member.ask({ type: 'join', room: 'chat-1' })
  const acme = ask('acme')
  t.equal((await acme('POST /posts/1', { body: { title: 'refused' } })).status, 400, 'the commit fails')
  t.equal((await acme('POST /posts/1', { body: { title: 'kept' } })).status, 201)
  t.match(await member.next(isMessage), { event: 'post-kept' })
})

test('workflow steps send messages', async (t) => {
  const { connect, ask } = await open(t, { routes }, { engine: await postgresSection(t) })
  const [member, stranger] = [await connect('acme'), await connect('globex')]
  for (const each of [member, stranger]) await each.ask({ type: 'join', room: 'chat-1' })
  const acme = ask('acme')
  t.match(await acme('POST /runs', { body: { number: 1, chat: '1' } }), { status: 200, body: { status: 'completed', result: null } })
  t.match([await member.next(isMessage), await member.next(isMessage)], [{ event: 'started', data: null }, {
    event: 'done',
    data: { number: 1 },
    from: null
  }])
  t.equal((await acme('POST /runs', { body: { number: 1, chat: '1' } })).status, 409, 'the row already exists')
  t.match(await acme('POST /runs', { body: { number: 2, chat: 'a b' } }), { status: 400 }, 'an invalid room name')
  t.equal((await acme('POST /later', { body: { text: 'from a job' } })).status, 202)
  t.match([await member.next(isMessage), await member.next(isMessage), await member.next(isMessage)], [{ event: 'started' }, {
    event: 'started'
  }, { data: 'from a job' }])
  await stranger.settle()
  t.notOk(stranger.messages.some(isMessage))
})

test('messages that could never be sent are faults of the document', (t) => {
  const faultsOf = (route: object, more: object = {}) => {
    try {
      checkConfig({ routes: [{ path: '/a', method: 'post', ...route }], ...more } as never, { env: {} })
      return ''
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      return error.message
    }
  }
  const realtime = { room: 'a', data: 1 }
  t.equal(faultsOf({ realtime }), '')
  t.match(faultsOf({ method: 'get', response: {}, realtime }), /cannot send a message/)
  t.match(faultsOf({ realtime: { room: 'a b', data: 1 } }), /not a valid room name/)
  t.match(faultsOf({ realtime: { room: 'a', data: '{{secret:KEY}}' } }), /secret cannot be used/)
  t.match(faultsOf({ realtime: { room: '{{params.x}}', data: 1 } }), /params/)
  t.match(faultsOf({ realtime: { room: 'a' } }), /data/)
  t.match(faultsOf({ realtime }, { realtime: { enabled: false } }), /disables realtime/)
  t.match(faultsOf({ realtime }, { plugins: { realtime: false } }), /disables realtime/)
  const step = { id: 'tell', type: 'realtime', room: 'a', data: 1 }
  t.equal(faultsOf({ workflow: { steps: [step] } }), '')
  t.match(faultsOf({ realtime, workflow: { steps: [step] } }), /step of the type `realtime`/)
  t.match(faultsOf({ workflow: { steps: [{ ...step, room: 'a b' }] } }), /not a valid room name/)
  t.match(faultsOf({ workflow: { steps: [{ ...step, params: {} }] } }), /params/)
  t.match(faultsOf({ workflow: { steps: [step] } }, { realtime: { enabled: false } }), /realtime/)
  t.end()
})

test('the message of a route with slow calls is not sent to a later tenant with the id', async (t) => {
  const [called, door] = [gate(), gate()]
  const service = await remote(t, async (_request, response) => {
    called.open()
    await door.opened
    response.setHeader('content-type', 'application/json').end('{}')
  })
  const { app, connect, ask } = await open(t, {
    egress: { allow: ['127.0.0.1'] },
    customIntegrations: [{ name: 'slow', baseUrl: service.origin, actions: { call: { method: 'POST', path: '/' } } }],
    routes: [
      ...routes,
      { path: '/slow', method: 'post', integrations: [{ type: 'slow', action: 'call' }], realtime: { room: 'chat-1', data: 'late' } }
    ]
  }, { engine: { provider: 'embedded' } })
  allowLongCalls(t, app)
  const response = ask('acme')('POST /slow', { body: {} })
  await called.opened
  await replaceTenant(app, 'acme')
  // A token of the second of the deletion counts as older.
  const member = await connect('acme', { iat: Math.floor(Date.now() / 1000) + 1 })
  t.match(await member.ask({ type: 'join', room: 'chat-1' }), { type: 'ack' })
  door.open()
  t.equal((await response).status, 200)
  await member.settle()
  t.notOk(member.messages.some(isMessage))
})
