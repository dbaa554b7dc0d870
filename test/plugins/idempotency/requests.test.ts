import { once } from 'node:events'
import { createServer } from 'node:http'
import { sql } from 'kysely'
import { test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { listen, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'
import { document, isReplay, keysOf, notesOf, pass, tenants, tokenOf, under } from './world.js'

const value = secretText('a value that no key reveals')
const otherValue = secretText('another value that no key reveals')

test('a route that only calls a service stores the response', async (t) => {
  let calls = 0
  const service = createServer((_request, response) =>
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ call: ++calls }))
  )
  await once(service.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => service.close())
  const baseUrl = `http://127.0.0.1:${Object(service.address()).port}`
  const app = await testServer(t, {
    routes: [{ method: 'post', path: '/sent', integrations: [{ type: 'here', action: 'call', params: {} }] }],
    customIntegrations: [{ name: 'here', baseUrl, actions: { call: { method: 'post', path: '/' } } }]
  }, { tenants })
  const acme = caller(t, app, { token: tokenOf('acme') })
  const first = await acme('POST /sent', { body: {}, ...under('sent') })
  const again = await acme('POST /sent', { body: {}, ...under('sent') })
  t.match(first, { status: 200, body: { call: 1 } })
  t.ok(isReplay(again))
  t.equal(again.text, first.text)
  t.equal(calls, 1)
})

test('a request whose response is sent in slices is executed once', async (t) => {
  let calls = 0
  const service = createServer((_request, response) => {
    calls++
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ text: 'x'.repeat(600_000) }))
  })
  await once(service.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => service.close())
  const baseUrl = `http://127.0.0.1:${Object(service.address()).port}`
  const app = await testServer(t, {
    workflows: [{ id: 'long', steps: [{ id: 'call', type: 'integration', integration: 'here', action: 'call' }] }],
    customIntegrations: [{ name: 'here', baseUrl, actions: { call: { method: 'post', path: '/' } } }]
  }, { tenants })
  // Only responses on a connection are sliced.
  const origin = await listen(app)
  const send = async () => {
    const response = await fetch(`${origin}/agent/workflow/run`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokenOf('acme')}`, 'content-type': 'application/json', ...under('long').headers },
      body: JSON.stringify({ ref: 'long', async: false })
    })
    return { status: response.status, text: await response.text() }
  }
  const first = await send()
  t.equal(first.status, 200)
  t.ok(first.text.length > 600_000)
  t.match(await send(), { status: 409, text: /TENANTRY_IDEMPOTENCY_ANSWER_LOST/ })
  t.equal(calls, 1)
})

test('an announced file whose response was lost is not announced again, and its storage is booked once', async (t) => {
  const app = await testServer(t, { files: { path: t.testdir() } }, { tenants })
  const acme = caller(t, app, { token: tokenOf('acme') })
  // Responses cannot be stored, as if the process died before.
  await sql`create function lost() returns trigger language plpgsql as $$ begin raise 'lost'; end $$`.execute(app.db)
  await sql`create trigger lost before update on tenantry.idempotency_keys for each row when (new.state = 'answered') execute function lost()`
    .execute(app.db)
  const announced = { body: { name: 'a.txt', contentType: 'text/plain', size: 5 }, ...under('announced') }
  t.equal((await acme('POST /files/presign', announced)).status, 201)
  await pass(app, 121)
  refused(t, await acme('POST /files/presign', announced), 409, 'IDEMPOTENCY_ANSWER_LOST')
  t.equal((await app.db.selectFrom('tenantry.files').select('id').execute()).length, 1)
  t.equal((await app.usage.summary('acme')).storage_bytes, 5)
})

test('a request repeated with its key is executed once', (t) =>
  forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, document, { engine, tenants })
    const acme = caller(t, app, { token: tokenOf('acme') })
    const platform = caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) })

    await t.test('it gets the first response; another body is a 409', async (t) => {
      for (
        const [ask, target, body, other] of [
          [acme, 'POST /notes', { text: 'one' }, { text: 'One' }],
          [acme, 'POST /several', { text: 'two' }, { text: 'Two' }],
          [acme, 'POST /mapped', { text: 'three' }, { text: 'Three' }],
          [acme, 'POST /tenant/api-keys', { name: 'CI' }, { name: 'CD' }],
          [acme, 'POST /tenant/rbac/roles', { name: 'editor', permissions: [] }, { name: 'reader', permissions: [] }],
          [acme, 'POST /tenant/secrets', { key: 'K', value }, { key: 'K', value: otherValue }],
          [platform, 'POST /tenants', { id: 'initech', name: 'Initech' }, { id: 'hooli', name: 'Hooli' }],
          [platform, 'POST /rbac/permissions', { name: 'notes:write' }, { name: 'notes:read' }],
          [platform, 'POST /rbac/roles', { name: 'writer' }, { name: 'reader' }]
        ] as const
      ) {
        const first = await ask(target, { body, ...under('k-1') })
        t.ok(first.status === 201 || target === 'POST /several', `${target}: ${first.status}`)
        t.notOk(isReplay(first), target)
        const again = await ask(target, { body, ...under('k-1') })
        t.ok(isReplay(again), `${target}: the replay is marked`)
        t.strictSame([again.status, again.text, again.headers['content-type'], again.headers['location']], [
          first.status,
          first.text,
          first.headers['content-type'],
          first.headers['location']
        ], target)
        refused(t, await ask(target, { body: other, ...under('k-1') }), 409, 'IDEMPOTENCY_MISMATCH', target)
        t.notOk(isReplay(await ask(target, { body: other, ...under('k-2') })), `${target} with another key`)
      }
      t.equal(await notesOf(t, app), 8, '1 and 2 and 1, each twice')
      t.match((await acme('GET /tenant/api-keys')).body['pagination'], { total: 2 })
      refused(
        t,
        await acme('POST /mapped?x=1', { body: { text: 'three' }, ...under('k-1') }),
        409,
        'IDEMPOTENCY_MISMATCH',
        'another query string'
      )
    })

    await t.test('keys belong to a tenant, a caller, a method and a path', async (t) => {
      const body = { text: 'shared' }
      const before = await notesOf(t, app)
      const asked = [
        acme,
        caller(t, app, { token: tokenOf('acme', 'bob') }),
        caller(t, app, { token: tokenOf('globex') }),
        caller(t, app, { token: signToken({ sub: 'ada', role: 'admin' }), tenant: 'acme' })
      ]
      for (const ask of asked) {
        t.match(await ask('POST /notes', { body, ...under('same') }), { status: 201, headers: { 'idempotency-replayed': undefined } })
      }
      t.match(
        await acme('POST /mapped', { body, ...under('same') }),
        { status: 201, headers: { 'idempotency-replayed': undefined } },
        'another path'
      )
      t.equal(await notesOf(t, app), before + 4)
      t.equal(await notesOf(t, app, 'globex'), 1)
      for (const ask of asked) {
        t.ok(isReplay(await ask('POST /notes', { body, ...under('same') })))
      }
      const stranger = caller(t, app, { tenant: 'acme' })
      t.match(
        await stranger('POST /notes', { body, ...under('same') }),
        { status: 201, headers: { 'idempotency-replayed': undefined } },
        "a caller without credentials does not get another caller's response"
      )
      t.ok(isReplay(await stranger('POST /notes', { body, ...under('same') })))
    })

    await t.test('a caller who lost its permission, or sends no token, gets no stored response', async (t) => {
      const writer = { sub: 'w', tenant_id: 'acme' }
      const body = { text: 'once' }
      t.equal(
        (await caller(t, app, { token: signToken({ ...writer, permissions: ['notes:write'] }) })('POST /mapped', { body, ...under('p') }))
          .status,
        201
      )
      refused(t, await caller(t, app, { token: signToken(writer) })('POST /mapped', { body, ...under('p') }), 403, 'FORBIDDEN')
      refused(t, await caller(t, app)('POST /tenant/api-keys', { body: { name: 'CI' }, ...under('k-1') }), 401, 'TOKEN_MISSING')
    })

    await t.test('errors are not stored', async (t) => {
      const before = await notesOf(t, app)
      refused(t, await acme('POST /notes', { body: { text: null }, ...under('e') }), 400, 'CONSTRAINT_VIOLATED')
      t.match(await acme('POST /notes', { body: { text: 'right' }, ...under('e') }), {
        status: 201,
        headers: { 'idempotency-replayed': undefined }
      })
      t.equal(await notesOf(t, app), before + 1)
      refused(t, await acme('POST /tenant/rbac/roles', { body: { name: 'editor', permissions: [] }, ...under('e') }), 409, 'CONFLICT')
      t.match(await acme('POST /tenant/rbac/roles', { body: { name: 'another', permissions: [] }, ...under('e') }), { status: 201 })
      t.match(
        await acme('POST /tenant/rbac/roles', { body: { nam: 'another' }, ...under('v') }),
        { status: 400 },
        'an invalid body uses no key'
      )
      t.match(await acme('POST /tenant/rbac/roles', { body: { name: 'valid', permissions: [] }, ...under('v') }), { status: 201 })
    })

    await t.test('a route that fails after its write does not write a second time', async (t) => {
      const before = await notesOf(t, app)
      const { status } = await acme('POST /called', { body: { text: 'called' }, ...under('c') })
      t.ok(status >= 500, `the service is down: ${status}`)
      t.equal(await notesOf(t, app), before + 1)
      refused(t, await acme('POST /called', { body: { text: 'called' }, ...under('c') }), 409, 'IDEMPOTENCY_ANSWER_LOST')
      t.equal(await notesOf(t, app), before + 1)
    })

    await t.test('a key is kept for 24 hours', async (t) => {
      const body = { text: 'day' }
      const first = await acme('POST /notes', { body, ...under('day') })
      await pass(app, 86_390)
      t.strictSame((await acme('POST /notes', { body, ...under('day') })).text, first.text)
      await pass(app, 20)
      const later = await acme('POST /notes', { body, ...under('day') })
      t.notOk(isReplay(later))
      t.not(later.text, first.text, 'another row')
      await app.db.deleteFrom('tenantry.idempotency_keys').execute()
    })

    await t.test('secrets of requests and responses are encrypted', async (t) => {
      const { body: { key } } = await acme('POST /tenant/api-keys', { body: { name: 'secret' }, ...under('s') })
      await acme('POST /tenant/secrets', { body: { key: 'S', value }, ...under('s') })
      await acme('POST /notes', { body: { text: 'plain' }, ...under('s') })
      const kept = await keysOf(app)
      t.strictSame(
        kept.map(({ state, encrypted }) => `${state} ${encrypted}`).sort(),
        ['answered false', 'answered true', 'answered true']
      )
      for (const { content } of kept) t.notOk(content.includes(String(key)) || content.includes(value))
      t.ok(kept.some(({ content }) => content.includes('plain')), 'the search finds existing data')
      const { rows } = await app.db.selectFrom('tenantry.idempotency_keys').selectAll().execute().then((rows) => ({ rows }))
      t.equal(
        new Set(rows.filter(({ encrypted }) => encrypted).map(({ content }) => content.subarray(0, 9).toString('hex'))).size,
        1,
        'they name their master key'
      )
    })

    await t.test('keys must be valid, and have no effect on requests that create nothing', async (t) => {
      for (const [key, label] of [['', 'none'], ['a b', 'a space'], ['x'.repeat(256), 'too long'], ['ü', 'not ASCII']] as const) {
        refused(t, await acme('POST /notes', { body: { text: 'x' }, ...under(key) }), 400, 'VALIDATION_FAILED', label)
        refused(
          t,
          await acme('POST /tenant/rbac/roles', { body: { name: 'x', permissions: [] }, ...under(key) }),
          400,
          'VALIDATION_FAILED',
          label
        )
      }
      t.match(await acme('POST /notes', { body: { text: 'x' }, ...under('x'.repeat(255)) }), { status: 201 })
      const before = (await keysOf(app)).length
      t.match(await acme('GET /notes', under('g')), { status: 200 })
      t.match(await acme('POST /tenant/limits/resources/check', { body: { resource: 'llm', metric: 'tokens' }, ...under('g') }), {
        status: 200
      })
      t.equal((await keysOf(app)).length, before)
    })

    await t.test('deleting a tenant deletes its keys', async (t) => {
      const globex = caller(t, app, { token: tokenOf('globex') })
      await globex('POST /notes', { body: { text: 'gone' }, ...under('gone') })
      t.ok((await keysOf(app)).some(({ tenant_id: id }) => id === 'globex'))
      t.match(await platform('DELETE /tenants/globex'), { status: 200 })
      t.notOk((await keysOf(app)).some(({ tenant_id: id }) => id === 'globex'))
    })
  }))
