/** Tenants, the platform and several processes share the sending of webhooks. */
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { sql } from 'kysely'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createSecretCipher } from '../../../lib/secrets/cipher.js'
import { makeMasterKey, masterKeys, parseMasterKey } from '../../../lib/secrets/master-key.js'
import { rekeySecrets } from '../../../lib/secrets/rekey.js'
import { takeDue } from '../../../plugins/webhooks/store.js'
import { testApp } from '../../helpers/app.js'
import { fakeClock } from '../../helpers/clock.js'
import { advisoryWaits } from '../../helpers/locks.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { testMasterKey } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller, refused } from '../../http/caller.js'
import { open, type Receiver, receiver, verify } from './app.js'

const events = ['entity.*']
const to = ({ origin }: Receiver, name = 'out') => ({ name, url: `${origin}/`, events })

test('a tenant receives only its own events, the platform those of all', async (t) => {
  const [acme, globex, platform] = [await receiver(t), await receiver(t), await receiver(t)]
  const key = secretText('a signing secret of the platform', 'a signing secret')
  const { app, as, tell } = await open(t, await postgresSection(t), {
    webhooks: [{ name: 'all', url: `${platform.origin}/`, events: ['entity.updated', 'secret.*'], secret: key }],
    tenants: { acme: [to(acme)], globex: [to(globex), to(globex, 'twice')], silent: [{ ...to(acme), events: ['secret.rotated'] }] }
  })
  await tell('acme', 'a')
  await tell('globex', 'g')
  await tell('silent', 's')
  await tell('', 'p')
  await until('all have received it', () => acme.requests.length === 1 && globex.requests.length === 2 && platform.requests.length === 4)
  t.strictSame([acme.values(), globex.values(), platform.values().sort()], [['a'], ['g', 'g'], ['a', 'g', 'p', 's']])
  const tenants = { a: 'acme', g: 'globex', s: 'silent', p: undefined }
  for (const request of platform.requests) {
    const event = Object(verify(key, request))
    t.match(event, { type: 'entity.updated' })
    t.equal(event.tenant, tenants[event.data.value as keyof typeof tenants], 'the tenant of the event')
  }
  t.notOk('tenant' in JSON.parse(acme.requests[0]?.body ?? ''), 'a tenant knows its name')
  t.equal(new Set(globex.requests.map(({ headers }) => headers['webhook-id'])).size, 1, 'one event, one id')
  await until(
    'nothing remains',
    async () => (await app.db.selectFrom('tenantry.webhook_deliveries').select('id').where('status', '=', 'pending').execute()).length === 0
  )
  t.equal(acme.requests.length, 1)

  const { body: { data: [delivery] = [] } } = await as('acme')('GET /webhooks/deliveries')
  const id = String(delivery?.['id'])
  refused(t, await as('globex')(`POST /webhooks/deliveries/${id}/redeliver`), 404, 'NOT_FOUND')
  refused(t, await as()(`POST /webhooks/deliveries/${id}/redeliver`), 404, 'NOT_FOUND')
  refused(t, await as('acme')('POST /webhooks/deliveries/1/redeliver'), 400, 'VALIDATION_FAILED')
  refused(
    t,
    await as('acme')(`POST /webhooks/deliveries/${id}/redeliver`, { body: { url: 'http://127.0.0.1' } }),
    400,
    'VALIDATION_FAILED',
    'an unknown body'
  )
  refused(t, await as('acme')('GET /webhooks/deliveries?status=lost'), 400, 'VALIDATION_FAILED')
  refused(t, await as('acme')('GET /webhooks/deliveries?event=entity'), 400, 'VALIDATION_FAILED')
  t.equal((await as('acme')('GET /webhooks/deliveries?event=secret.rotated')).body.data?.length, 0)
  t.equal((await as()('GET /webhooks/deliveries?status=delivered&limit=3')).body.data?.length, 3)
  const user = caller(t, app, { token: signToken({ sub: 'u', role: 'user', tenant_id: 'acme', permissions: ['webhooks:read'] }) })
  t.equal((await user('GET /webhooks/deliveries')).status, 200)
  refused(t, await user('GET /webhooks/secret'), 403, 'FORBIDDEN')
  refused(t, await user(`POST /webhooks/deliveries/${id}/redeliver`), 403, 'FORBIDDEN')
  refused(t, await caller(t, app)('GET /webhooks/deliveries'), 401, 'TOKEN_MISSING')
  t.equal((await as('acme')(`POST /webhooks/deliveries/${id}/redeliver`)).status, 202)
  await until('it was sent again', () => acme.requests.length === 2)
  t.equal(acme.requests[1]?.headers['webhook-id'], acme.requests[0]?.headers['webhook-id'])
  t.same(
    await app.db.selectFrom('tenantry.audit_log').select(['tenant_id as tenant', 'user_id as user', 'target'])
      .where('action', '=', 'webhook.redeliver').execute(),
    [{ tenant: 'acme', user: 'ada', target: id }]
  )
})

test("a receiver that hangs uses only its tenant's slots", async (t) => {
  const [hangs, responses] = [await receiver(t), await receiver(t)]
  hangs.respond = () => {}
  const { app, tell } = await open(t, await postgresSection(t), {
    timeoutMs: 20_000,
    stopTimeoutMs: 100,
    tenants: { acme: [to(hangs)], globex: [to(responses)] }
  })
  await app.db.transaction().execute(async (transaction) => {
    for (let index = 0; index < 100; index++) {
      await app.webhooks.emit(transaction, {
        tenant: 'acme',
        type: 'entity.created',
        subject: `notes:${index}`,
        data: { value: index },
        at: new Date()
      })
    }
  })
  app.webhooks.wake()
  await until('its slots are taken', () => hangs.requests.length === 8)
  await tell('globex', 1, 2, 3)
  await until('the other is served', () => responses.requests.length === 3)
  t.strictSame(responses.values(), [1, 2, 3])
  t.equal(hangs.requests.length, 8, 'while the first still hangs')
})

test("a dead process's deliveries are taken over, and its late results are ignored", async (t) => {
  const hears = await receiver(t)
  const engine = await postgresSection(t)
  const tenants = { acme: [to(hears)] }
  const held: ServerResponse[] = []
  hears.respond = (_request, response) => {
    held.push(response)
  }
  const first = await open(t, engine, { tenants, timeoutMs: 20_000, stopTimeoutMs: 100 })
  await first.tell('acme', 1, 2)
  await until('the first has it', () => held.length === 1)
  const clock = fakeClock(Date.now() + 300_000)
  const room = { from: '', full: [], room: 64 }
  // Before the start of the second, for which a busy machine may take longer than the request of the first.
  const taken = await takeDue(first.app.db, { now: new Date(clock.now()), holder: randomUUID(), platform: room, tenants: room, each: 4 })
  t.strictSame(taken, [], 'a clock that is ahead ends no lease')
  hears.respond = (_request, response) => {
    response.end()
  }
  const second = await open(t, engine, { clock, tenants, timeoutMs: 20_000 })
  await sql`update tenantry.webhook_deliveries set next_attempt_at = next_attempt_at - interval '31 seconds' where holder is not null`.execute(
    second.app.db
  )
  second.forward(0)
  await until('the second has delivered both', () => hears.requests.length === 3)
  t.strictSame(hears.values(), [1, 1, 2])
  const log = async () =>
    (await second.as('acme')('GET /webhooks/deliveries')).body.data?.map(({ status, attempts }) => `${String(status)} ${String(attempts)}`)
      .sort()
  await until('the log contains it', async () => (await log())?.every((line) => line.startsWith('delivered')) === true)
  held[0]?.writeHead(500).end()
  await first.app.close()
  t.strictSame(await log(), ['delivered 1', 'delivered 2'])
})

test('a process that only writes wakes those that send', async (t) => {
  const hears = await receiver(t)
  const engine = await postgresSection(t)
  const tenants = { acme: [to(hears)] }
  const writes = await open(t, engine, { tenants, deliver: false })
  await open(t, engine, { tenants })
  await writes.tell('acme', 1)
  await until('it arrives', () => hears.requests.length === 1)
  const { app } = writes
  await app.db.transaction().execute((transaction) =>
    app.webhooks.callback(transaction, {
      tenant: tenantRef('acme'),
      url: `${hears.origin}/done?token=of-the-callback`,
      secret: null,
      trusted: false,
      type: 'workflow.completed',
      data: { value: 'run' },
      subject: 'run',
      at: new Date()
    })
  )
  app.webhooks.wake()
  await until('the callback arrives', () => hears.requests.length === 2)
  const [, callback] = hears.requests
  t.match(callback, { path: '/done?token=of-the-callback' })
  if (callback !== undefined) {
    t.match(verify(await app.webhooks.secretOf('acme'), callback), { type: 'workflow.completed', data: { value: 'run' } })
  }
  const rows = await app.db.selectFrom('tenantry.webhook_deliveries').selectAll().where('endpoint', '=', '').execute()
  t.match(rows, [{ url: `${hears.origin}/done`, sealed: Buffer }])
  t.notOk(rows[0]?.sealed?.includes('of-the-callback'))
  t.match((await writes.as('acme')('GET /webhooks/deliveries')).body.data?.find(({ event }) => event === 'workflow.completed'), {
    webhook: null,
    url: `${hears.origin}/done`
  })
})

test('the next event of an entity is sent after two of its deliveries have ended at the same moment', async (t) => {
  const hears = await receiver(t)
  const { app, as, tell } = await open(t, await postgresSection(t), { timeoutMs: 20_000, tenants: { acme: [to(hears)] } })
  hears.respond = (_request, response) => {
    response.writeHead(410).end()
  }
  await tell('acme', 1, 2)
  const failed = async () => (await as('acme')('GET /webhooks/deliveries?status=failed')).body.data ?? []
  await until('both have failed', async () => (await failed()).length === 2)

  const held: ServerResponse[] = []
  hears.respond = (_request, response) => {
    held.push(response)
  }
  for (const { id } of await failed()) await as('acme')(`POST /webhooks/deliveries/${String(id)}/redeliver`)
  await until('both are sent again', () => held.length === 2)
  hears.respond = (_request, response) => {
    response.end()
  }
  await tell('acme', 3)
  const statuses = async () => (await as('acme')('GET /webhooks/deliveries')).body.data?.map(({ status }) => status)
  await until('the next event waits', async () => (await statuses())?.length === 3)

  // Both results are written before either is committed.
  await sql`create function wait_for_test() returns trigger language plpgsql as
    $$ begin perform pg_advisory_xact_lock_shared(1); return null; end $$`.execute(app.db)
  await sql`create constraint trigger wait_for_test after update on tenantry.webhook_deliveries deferrable initially deferred
    for each row when (new.status = 'delivered') execute function wait_for_test()`.execute(app.db)
  await app.db.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock(1)`.execute(transaction)
    for (const response of held) response.end()
    const waits = sql<{ n: number }>`${sql.raw(advisoryWaits)}`
    await until('both results wait', async () => (await waits.execute(transaction)).rows[0]?.n === 2)
  })
  await until('the next event has arrived', () => hears.values().includes(3))
  await until('all are delivered', async () => (await statuses())?.every((status) => status === 'delivered') === true)
})

test('two processes deliver every event to an unreliable receiver, in the order of its entity', async (t) => {
  const engine = await postgresSection(t)
  const clock = fakeClock(Date.now())
  const hears = await receiver(t)
  const got = new Map<string, number[]>()
  let calls = 0
  hears.respond = ({ body }, response) => {
    const { data: { entity, value } } = JSON.parse(body)
    if (++calls % 7 === 0) return response.writeHead(500).end()
    got.set(entity, [...got.get(entity) ?? [], value])
    response.end()
  }
  const tenants = { acme: [to(hears)] }
  const apps = [await open(t, engine, { clock, tenants }), await open(t, engine, { clock, tenants })]
  const [first] = apps
  if (first === undefined) return t.fail('no app')
  const entities = Array.from({ length: 10 }, (_, index) => `notes:${index}`)
  await Promise.all(entities.map(async (entity, index) => {
    for (let value = 0; value < 20; value++) {
      const { app } = apps[(index + value) % 2] ?? first
      await app.db.transaction().execute((transaction) =>
        app.webhooks.emit(transaction, {
          tenant: 'acme',
          type: 'entity.updated',
          subject: entity,
          data: { entity, value },
          at: new Date(clock.now())
        })
      )
      app.webhooks.wake()
    }
  }))
  await until('nothing waits', async () => {
    for (const { forward } of apps) forward(250)
    return (await first.app.db.selectFrom('tenantry.webhook_deliveries').select('id').where('status', '=', 'delivered').execute())
      .length === 200
  })
  for (const entity of entities) t.strictSame([...new Set(got.get(entity))], Array.from({ length: 20 }, (_, value) => value), entity)
})

test("a new master key re-encrypts webhooks' secrets; PostgreSQL without one sends nothing, and a document that needs it does not start", async (t) => {
  const engine = await postgresSection(t)
  const hears = await receiver(t)
  const tenants = { acme: [to(hears)] }
  const before = await open(t, engine, { tenants, deliver: false })
  const secret = await before.app.webhooks.secretOf('acme')
  const { app } = before
  await app.db.transaction().execute((transaction) =>
    app.webhooks.callback(transaction, {
      tenant: tenantRef('acme'),
      url: `${hears.origin}/done`,
      secret: null,
      trusted: false,
      type: 'workflow.completed',
      data: { value: 'run' },
      subject: 'run',
      at: new Date()
    })
  )
  const made = makeMasterKey()
  const keys = masterKeys(made.key, [parseMasterKey(testMasterKey, 'SECRETS_MASTER_KEY')])
  t.match(await rekeySecrets(app.db, createSecretCipher(keys)), { moved: 2, unreadable: { length: 0 }, unfinished: false })
  await app.close()
  const after = await open(t, engine, { tenants, masterKey: secretText(made.text, 'the new master key') })
  t.equal(await after.app.webhooks.secretOf('acme'), secret)
  await until('the callback arrives', () => hears.requests.length === 1)
  if (hears.requests[0] !== undefined) t.match(verify(secret, hears.requests[0]), { type: 'workflow.completed' })

  const off = { routes: false, masterKey: undefined }
  t.notOk((await testApp(t, { engine, plugins: { webhooks: off } })).app.hasDecorator('webhooks'))
  await t.rejects(testApp(t, { engine, plugins: { webhooks: { ...off, webhooks: [to(hears)] } } }), /SECRETS_MASTER_KEY is missing/)
})

test('a stored callback that is too long fails without an attempt, and its text is not read', async (t) => {
  const engine = await postgresSection(t)
  const hears = await receiver(t)
  const before = await open(t, engine, { tenants: { acme: [] }, deliver: false })
  const { app } = before
  await app.db.transaction().execute((transaction) =>
    app.webhooks.callback(transaction, {
      tenant: tenantRef('acme'),
      url: `${hears.origin}/done`,
      secret: secretText('x'.repeat(200_000), 'a signing secret'),
      trusted: false,
      type: 'workflow.completed',
      data: { value: 'run' },
      subject: 'run',
      at: new Date()
    })
  )
  const keys = masterKeys(makeMasterKey().key, [parseMasterKey(testMasterKey, 'SECRETS_MASTER_KEY')])
  t.match(await rekeySecrets(app.db, createSecretCipher(keys)), { moved: 0, unreadable: { length: 0 }, unfinished: false })
  await app.close()
  const { app: sends } = await open(t, engine, { tenants: { acme: [] } })
  const stored = () => sends.db.selectFrom('tenantry.webhook_deliveries').select(['status', 'last_error as error', 'sealed']).execute()
  await until('it has ended, or will be tried again', async () => (await stored())[0]?.error !== null)
  t.strictSame(await stored(), [{ status: 'failed', error: 'the address or the secret of the callback is too long', sealed: null }])
  t.strictSame(hears.requests, [])
})
