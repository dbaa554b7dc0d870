/** Events that end or silence a connection, and resumed streams. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { test } from 'tap'
import { failure } from '../../../lib/errors.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { gate } from '../../helpers/gate.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { connect, document, open, ready, tokenOf } from './app.js'

test('a logout closes a connection, and a lost permission silences it', async (t) => {
  const { app, origin, connect: join, ask } = await open(t, {
    realtime: { tables: { ...document.realtime?.tables }, rooms: { 'chat-*': { join: ['chat:read'] }, lobby: {} } }
  }, { engine: await postgresSection(t) })
  const acme = ask('acme')
  t.match(await acme('PUT /tenant/rbac', { body: { enabled: true } }), { status: 200 })
  t.equal((await acme('POST /tenant/rbac/roles', { body: { name: 'reader', permissions: ['tasks:read', 'chat:read'] } })).status, 201)
  const reader = await join('acme', { role: 'reader' })
  const { watch } = await reader.ask({ type: 'watch', table: 'tasks' })
  t.ok(watch)
  for (const room of ['chat-1', 'lobby']) t.match(await reader.ask({ type: 'join', room }), { type: 'ack' })
  t.match(await reader.ask({ type: 'join', room: 'other' }), { type: 'error', status: 403 })
  t.equal((await acme('POST /tasks', { body: { number: 1, title: 'seen' } })).status, 201)
  t.match(await reader.change(), { watch, id: 1 })

  t.equal((await acme('PUT /tenant/rbac/roles/reader', { body: { permissions: [] } })).status, 200)
  const other = await join('acme', { permissions: ['tasks:read', 'chat:read'] })
  t.match(await other.ask({ type: 'watch', table: 'tasks' }), { type: 'ack' })
  t.match(await other.ask({ type: 'join', room: 'chat-1' }), { type: 'ack' })
  t.ok(
    await other.next(({ type, members }) => type === 'presence' && Array.isArray(members) && members.length === 1),
    'it has left the room'
  )
  t.equal((await acme('POST /tasks', { body: { number: 2, title: 'unseen' } })).status, 201)
  t.match(await other.change(), { id: 2 })
  app.realtime.publish('acme', { room: 'chat-1', data: 'unheard' })
  app.realtime.publish('acme', { room: 'lobby', data: 'heard' })
  t.match(await reader.next(({ type }) => type === 'message'), { room: 'lobby', data: 'heard' })
  await reader.settle()
  t.notOk(reader.messages.some(({ type }) => type === 'change'), 'the watch is silent')

  const token = tokenOf('acme')
  const leaves = await ready(t, origin, token)
  t.equal((await app.inject({ method: 'POST', url: '/auth/logout', headers: { authorization: `Bearer ${token}` } })).statusCode, 200)
  t.equal((await leaves.closed).code, 4401)
  t.equal((await connect(t, origin, { headers: { authorization: `Bearer ${token}` } }).closed).code, 4401, 'it cannot reconnect')
})

test('a renewed token without the permissions silences watches and leaves rooms, also those that are being opened', async (t) => {
  const { connect: join, ask } = await open(t, {
    realtime: { tables: { ...document.realtime?.tables }, rooms: { 'chat-*': { join: ['chat:read'] } } }
  }, { engine: await postgresSection(t) })
  const permissions = ['tasks:read', 'chat:read']
  const claims = { permissions }
  const [first, opening, other] = [await join('acme', claims), await join('acme', claims), await join('acme', claims)]
  t.match(await first.ask({ type: 'watch', table: 'tasks' }), { type: 'ack' })
  t.match(await first.ask({ type: 'join', room: 'chat-1' }), { type: 'ack' })
  t.match(await first.ask({ type: 'auth', token: tokenOf('acme', { permissions: [] }) }), { type: 'ack' })
  const later = [opening.ask({ type: 'watch', table: 'tasks' }), opening.ask({ type: 'join', room: 'chat-1' })]
  t.match(await opening.ask({ type: 'auth', token: tokenOf('acme', { permissions: [] }) }), { type: 'ack' })
  await Promise.all(later)

  t.match(await other.ask({ type: 'watch', table: 'tasks' }), { type: 'ack' })
  t.match(await other.ask({ type: 'join', room: 'chat-1' }), { type: 'ack' })
  t.ok(await other.next(({ type, members }) => type === 'presence' && Array.isArray(members) && members.length === 1), 'they left the room')
  t.equal((await ask('acme')('POST /tasks', { body: { number: 1, title: 'unseen' } })).status, 201)
  t.match(await other.change(), { id: 1 })
  for (const client of [first, opening]) {
    await client.settle()
    t.notOk(client.messages.some(({ type }) => type === 'change'), 'its watch is silent')
  }
  t.match(await first.ask({ type: 'auth', token: tokenOf('acme', { permissions }) }), { type: 'ack' })
  t.equal((await ask('acme')('POST /tasks', { body: { number: 2, title: 'seen' } })).status, 201)
  t.match(await first.change(), { id: 2 }, 'a token with the permissions ends the silence')
})

test('10,000 messages in a burst are all answered if the document allows so many', async (t) => {
  const { connect: join } = await open(t, { realtime: { ...document.realtime, maxMessagesPerSecond: 10_000 } }, {
    engine: await postgresSection(t)
  })
  const client = await join('acme')
  const last = client.next(({ ref }) => ref === 9999)
  for (let ref = 0; ref < 10_000; ref++) client.send({ type: 'ping', ref })
  await last
  t.same(client.messages.map(({ ref }) => ref), Array.from({ length: 9999 }, (_, index) => index), 'in order')
})

test('an event stream resumes where it ended', async (t) => {
  const { origin, ask } = await open(t, {}, { engine: await postgresSection(t) })
  const acme = ask('acme')
  const headers = { authorization: `Bearer ${signToken({ sub: 'bob', tenant_id: 'acme' })}` }
  const stream = async (more: Record<string, string> = {}) => {
    const ended = new AbortController()
    t.teardown(() => ended.abort())
    const response = await fetch(`${origin}/realtime/events?watch=notes`, { headers: { ...headers, ...more }, signal: ended.signal })
    t.match(response.headers.get('content-type'), /^text\/event-stream/)
    const reader = response.body?.getReader()
    let text = ''
    return {
      ended,
      async until (part: string) {
        while (!text.includes(part)) {
          const chunk = await reader?.read()
          if (chunk === undefined || chunk.done) throw new Error(`the stream ended before ${part}: ${text}`)
          text += Buffer.from(chunk.value).toString()
        }
        return text
      }
    }
  }
  const first = await stream()
  await first.until('event: ack')
  await acme('POST /notes', { body: { title: 'one' } })
  const live = await first.until('"one"')
  const id = /event: change\nid: (\d+)\n/.exec(live)?.[1]
  t.equal(id, '2', "after the ack's position")
  first.ended.abort()
  for (const title of ['two', 'three']) await acme('POST /notes', { body: { title } })
  const second = await stream({ 'last-event-id': String(id) })
  await second.until('"three"')
  await acme('POST /notes', { body: { title: 'four' } })
  const text = await second.until('"four"')
  t.same(
    [...text.matchAll(/"title":"(\w+)"/g)].map(([, title]) => title),
    ['two', 'three', 'four'],
    'missed events first, then new ones, each once'
  )
})

test('a table that cannot be watched fails the start, with its place', async (t) => {
  const wrong = { realtime: { tables: { note: {}, notes: { excludeFields: ['secrte'] } } } }
  await t.rejects(open(t, wrong, { engine: await postgresSection(t) }), {
    name: 'ConfigError',
    message: /\/realtime\/tables\/note: there is no table "note" .*\n.*\/realtime\/tables\/notes\/excludeFields\/0: .*did you mean "secret"\?/s
  })
})

test('a connection and a stream that open during a suspension of their tenant are refused', async (t) => {
  const { app, origin, connect: join } = await open(t)
  const [opening, ready] = [gate(), gate()]
  const { take } = app.usage
  let waiting = 0
  t.intercept(app.usage, 'take', {
    value: async (...parts: Parameters<typeof take>) => {
      if (++waiting === 3) opening.open()
      await ready.opened
      return await take(...parts)
    }
  })
  const headers = (tenant: string) => ({ headers: { authorization: `Bearer ${tokenOf(tenant)}` } })
  const late = connect(t, origin, headers('acme'))
  const stream = fetch(`${origin}/realtime/events?room=a`, headers('acme'))
  const other = join('globex')
  await opening.opened
  await app.tenants.update('acme', { status: 'suspended' })
  ready.open()
  t.equal((await late.closed).code, 4403)
  const { status, body } = await stream
  await body?.cancel()
  t.equal(status, 403)
  t.notOk(late.messages.some(({ type }) => type === 'ready'))
  t.match(await (await other).ask({ type: 'ping' }), { type: 'pong' }, 'another tenant')
  await until('only the other connection is left', () => app.realtime.connections === 1)
  await app.tenants.update('acme', { status: 'active' })
  t.match(await join('acme'), { socket: {} })
})

test('a client with a valid key stays connected when its address has sent many invalid keys', async (t) => {
  const { app, origin, ask } = await open(t, {}, { engine: await postgresSection(t) })
  const keyed = async () => {
    const { body } = await ask('acme')('POST /tenant/api-keys', { body: { name: 'realtime', scopes: [] } })
    const key = secretText(String(body['key']), 'an API key')
    const client = connect(t, origin, { headers: { 'x-api-key': key } })
    await client.next(({ type }) => type === 'ready')
    return { client, key, id: String(body['id']) }
  }
  const [valid, deleted] = [await keyed(), await keyed()]
  const codes: number[] = []
  while (codes.at(-1) !== 4429 && codes.length < 110) {
    const key = valid.key.replace(valid.id, randomUUID())
    codes.push((await connect(t, origin, { headers: { 'x-api-key': key } }).closed).code)
  }
  t.equal(codes.at(-1), 4429)
  await sql`alter table tenantry.api_keys disable trigger all`.execute(app.db)
  await sql`delete from tenantry.api_keys where id = ${deleted.id}`.execute(app.db)
  // Notices may be lost: keys and connections are checked again.
  await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'tenantry notices'`
    .execute(app.db)
  t.equal((await deleted.client.closed).code, 4401)
  await valid.client.settle()
  t.equal(valid.client.socket.readyState, 1)
})

test('a connection that could not be checked after a change is checked again until that succeeds', async (t) => {
  const { app, connect: join, ask } = await open(t, {}, { engine: await postgresSection(t) })
  const acme = ask('acme')
  t.match(await acme('PUT /tenant/rbac', { body: { enabled: true } }), { status: 200 })
  t.equal((await acme('POST /tenant/rbac/roles', { body: { name: 'reader', permissions: ['tasks:read'] } })).status, 201)
  const [reader, other] = [await join('acme', { role: 'reader' }), await join('acme', { permissions: ['tasks:read'] })]
  for (const client of [reader, other]) t.match(await client.ask({ type: 'watch', table: 'tasks' }), { type: 'ack' })

  const { get } = app.tenants
  let failing = false
  let failures = 0
  t.intercept(app.tenants, 'get', {
    value: (id: string) => {
      if (!failing) return get(id)
      failures++
      return Promise.reject(failure('databaseBusy'))
    }
  })
  /** Makes the change while the database is too busy for the checks after it. */
  const changeUnchecked = async (change: () => Promise<unknown>) => {
    failing = true
    failures = 0
    await change()
    await until('both connections could not be checked twice', () => failures >= 4)
    failing = false
  }
  await changeUnchecked(() =>
    app.events.change({ topic: 'roles', tenant: tenantRef('acme') }, async (transaction) => {
      await sql`update tenantry.tenant_roles set permissions = '{}' where tenant_id = 'acme' and name = 'reader'`.execute(transaction)
    })
  )
  let number = 0
  await until('the watch is silent', async () => {
    await sql`insert into tasks (tenant_id, number, title) values ('acme', ${++number}, 'x')`.execute(app.db)
    t.match(await other.change(), { id: number })
    await reader.settle()
    return !reader.messages.some(({ type, id }) => type === 'change' && id === number)
  })
  await changeUnchecked(() => app.tenants.update('acme', { status: 'suspended' }))
  for (const { closed } of [reader, other]) t.equal((await closed).code, 4403)
})

test('a user without a tenant is not told to send a header that only administrators may send', async (t) => {
  const { origin } = await open(t)
  const closedOf = async (token: string) => await connect(t, origin, { headers: { authorization: `Bearer ${token}` } }).closed
  const user = { code: 4403, reason: "This resource belongs to a tenant: the caller's token must have the tenant in its claim tenant_id" }
  t.same(await closedOf(signToken({ sub: 'eve' })), user)
  const late = connect(t, origin)
  late.socket.once('open', () => late.send({ type: 'auth', token: signToken({ sub: 'eve' }) }))
  t.same(await late.closed, user, 'with the token in the first message')
  t.match(await closedOf(signToken({ sub: 'root', role: 'admin' })), { code: 4403, reason: /X-Tenant-ID/ })
})

test('connections of a deleted tenant end if they are next checked when another tenant has its id', async (t) => {
  const { app, origin, connect: join } = await open(t)
  const [old, other] = [await join('acme'), await join('globex')]
  t.match(await old.ask({ type: 'join', room: 'a' }), { type: 'ack' })
  const headers = { authorization: `Bearer ${tokenOf('acme')}` }
  const stream = await fetch(`${origin}/realtime/events?room=a`, { headers })
  await app.events.change({ topic: 'tenant', tenant: tenantRef('acme') }, async (transaction) => {
    await sql`update tenantry.tenants set created_at = created_at + interval '1 second' where id = 'acme'`.execute(transaction)
  })
  t.equal((await old.closed).code, 4403)
  t.type(await stream.text(), 'string', 'the stream ends')
  t.match(await other.ask({ type: 'ping' }), { type: 'pong' }, 'another tenant')
  t.match(await (await join('acme')).ask({ type: 'join', room: 'a' }), { type: 'ack' }, 'a connection of the later tenant')
})
