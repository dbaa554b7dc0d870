import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createSecretCipher } from '../../../lib/secrets/cipher.js'
import { makeMasterKey, masterKeys, parseMasterKey, parseMasterKeys } from '../../../lib/secrets/master-key.js'
import { rekeySecrets } from '../../../lib/secrets/rekey.js'
import { createServer } from '../../../lib/server.js'
import { maxAnonymousBytes, maxAnonymousKeys, maxBytes, maxKeys } from '../../../plugins/idempotency/quota.js'
import { maxResponseBytes } from '../../../plugins/idempotency/service.js'
import { startInstances } from '../../helpers/instances.js'
import { untilBlocked } from '../../helpers/locks.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { testDocument, testMasterKey, testServer, testServers } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused, remoteCaller } from '../../http/caller.js'
import { document, isReplay, keysOf, notesOf, pass, tenants, tokenOf, under } from './world.js'

/** Resolves when a statement of the database waits for a lock. */
async function someoneWaits (app: FastifyInstance): Promise<void> {
  for (let waits = 0; waits === 0;) {
    const { rows: [row] } = await sql<
      { n: number }
    >`select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(app.db)
    waits = row?.n ?? 0
  }
}

test('of parallel requests with one key on two servers, one is executed', async (t) => {
  const [here, there] = await testServers(t, document, { engine: await postgresSection(t), tenants })
  const asks = [here, there].map((app) => caller(t, app, { token: tokenOf('acme') }))
  for (const [target, body] of [['POST /notes', { text: 'parallel' }], ['POST /tenant/api-keys', { name: 'parallel' }]] as const) {
    const responses = await Promise.all(
      Array.from({ length: 40 }, (_none, index) => asks[index % 2]!(target, { body, ...under('parallel') }))
    )
    t.equal(responses.filter((response) => response.status === 201 && !isReplay(response)).length, 1, `${target}: one is executed`)
    for (const response of responses) {
      if (response.status === 201) continue
      refused(t, response, 409, 'IDEMPOTENCY_RUNNING', target)
      t.match(response, { headers: { 'retry-after': '2' }, body: { retryAfter: 2 } })
    }
    const [first, again] = await Promise.all(asks.map((ask) => ask(target, { body, ...under('parallel') })))
    t.ok(isReplay(first!) && isReplay(again!), 'and both servers return its response')
    t.equal(first?.text, again?.text)
  }
  t.equal(await notesOf(t, here), 1)
  t.match((await asks[1]!('GET /tenant/api-keys')).body['pagination'], { total: 1 })
})

test('a request gets 409 RUNNING while another takes over its key from a dead process', async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants })
  const acme = caller(t, app, { token: tokenOf('acme') })
  const send = async () => await acme('POST /notes', { body: { text: 'taken over' }, ...under('dead') })
  t.equal((await send()).status, 201)
  // As a process leaves it that dies before its write.
  await sql`update tenantry.idempotency_keys set state = 'running', leased_until = now() - interval '1 s'`.execute(app.db)
  const responses = await app.db.transaction().execute(async (transaction) => {
    await sql`select from tenantry.idempotency_keys for update`.execute(transaction)
    const sent = [send(), send()]
    await untilBlocked(app.db, Promise.race(sent), 2)
    return { sent }
  }).then(({ sent }) => Promise.all(sent))
  const [first, second] = responses.toSorted((a, b) => a.status - b.status)
  t.equal(first?.status, 201)
  refused(t, second!, 409, 'IDEMPOTENCY_RUNNING')
  t.match(second, { headers: { 'retry-after': '2' } })
})

test('a process that is killed midway leaves no second row', async (t) => {
  const engine = await postgresSection(t)
  const app = await testServer(t, document, { engine, tenants })
  const [victim] = await startInstances(t, document, engine, 1)
  const dying = remoteCaller(t, victim!.address, { token: tokenOf('acme') })
  const acme = caller(t, app, { token: tokenOf('acme') })

  // A lock stops each request at one place; the process dies there.
  const killedAt = async (
    lock: (run: (text: string) => Promise<unknown>) => Promise<unknown>,
    target: string,
    body: object,
    key: string
  ) => {
    let asked: Promise<unknown> = Promise.resolve()
    await app.db.transaction().execute(async (transaction) => {
      await lock((text) => sql.raw(text).execute(transaction))
      asked = dying(target, { body, ...under(key) }).catch(() => 'gone')
      await someoneWaits(app)
      await victim!.stop('SIGKILL')
    })
    await asked
  }
  await killedAt((run) => run('lock table notes in share mode'), 'POST /notes', { text: 'never written' }, 'dead')
  t.equal(await notesOf(t, app), 0, 'it had written nothing')
  refused(
    t,
    await acme('POST /notes', { body: { text: 'never written' }, ...under('dead') }),
    409,
    'IDEMPOTENCY_RUNNING',
    'until it is considered dead'
  )
  await pass(app, 121)
  const response = await acme('POST /notes', { body: { text: 'never written' }, ...under('dead') })
  t.match(response, { status: 201, headers: { 'idempotency-replayed': undefined } }, 'then the key is free')
  t.equal((await acme('POST /notes', { body: { text: 'never written' }, ...under('dead') })).text, response.text)
  t.equal(await notesOf(t, app), 1)
})

test('a write whose key was taken over is rolled back', async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants })
  const acme = caller(t, app, { token: tokenOf('acme') })
  const platform = caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }), tenant: 'acme' })
  for (
    const [ask, target, body, table] of [
      [acme, 'POST /notes', { text: 'slow' }, 'notes'],
      [acme, 'POST /tenant/rbac/roles', { name: 'slow', permissions: [] }, 'tenantry.tenant_roles'],
      [platform, 'POST /publish/entity', { table: 'notes', data: { text: 'slow' } }, 'notes']
    ] as const
  ) {
    let slow: ReturnType<typeof acme> | undefined
    await app.db.transaction().execute(async (transaction) => {
      await sql.raw(`lock table ${table} in share mode`).execute(transaction)
      slow = ask(target, { body, ...under('slow') })
      await someoneWaits(app)
      // In the key's row, another request holds it now.
      await sql`update tenantry.idempotency_keys set holder = gen_random_uuid()`.execute(app.db)
    })
    refused(t, await slow!, 409, 'IDEMPOTENCY_RUNNING', target)
    t.strictSame((await sql.raw(`select 1 from ${table}`).execute(app.db)).rows, [], `${target}: nothing was written`)
  }
})

test('a committed write whose response was lost is not repeated', async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants })
  const acme = caller(t, app, { token: tokenOf('acme') })
  const made = { body: { name: 'lost' }, ...under('lost') }
  t.match(await acme('POST /tenant/api-keys', made), { status: 201 })
  // The process died after the commit.
  await sql`update tenantry.idempotency_keys set state = 'written', status = null, headers = null`.execute(app.db)
  refused(t, await acme('POST /tenant/api-keys', made), 409, 'IDEMPOTENCY_RUNNING')
  await pass(app, 121)
  refused(t, await acme('POST /tenant/api-keys', made), 409, 'IDEMPOTENCY_ANSWER_LOST')
  t.match((await acme('GET /tenant/api-keys')).body['pagination'], { total: 1 })

  const large = { body: { text: 'x'.repeat(maxResponseBytes) }, ...under('large') }
  t.match(await acme('POST /notes', large), { status: 201 })
  refused(t, await acme('POST /notes', large), 409, 'IDEMPOTENCY_ANSWER_LOST', 'a response that is too large to store')
  t.equal(await notesOf(t, app), 1)
  const sizes = (await keysOf(app)).map(({ content }) => content.length)
  t.ok(Math.max(...sizes) < maxResponseBytes)
})

test("a declared route stores its response in its write's transaction", async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants })
  // Only the transaction that writes the row records the key, as if the process died at the commit.
  await sql`create function only_with_a_note() returns trigger language plpgsql as $$ begin
    if not exists (select from notes where xmin = pg_current_xact_id()::xid) then raise 'too late'; end if;
    return new;
  end $$`.execute(app.db)
  await sql`create trigger only_with_a_note before update on tenantry.idempotency_keys for each row execute function only_with_a_note()`
    .execute(app.db)
  const acme = caller(t, app, { token: tokenOf('acme') })
  for (const target of ['POST /notes', 'POST /several', 'POST /mapped']) {
    const first = await acme(target, { body: { text: 'kept' }, ...under('kept') })
    const again = await acme(target, { body: { text: 'kept' }, ...under('kept') })
    t.ok(first.status < 300 && isReplay(again), target)
    t.strictSame([again.status, again.text, again.headers['location']], [first.status, first.text, first.headers['location']], target)
  }
  t.match((await keysOf(app)).map(({ state }) => state), ['answered', 'answered', 'answered'])
})

test('runs of workflows and writes of their steps are not repeated if the response was lost', async (t) => {
  const steps = [{ id: 'write', type: 'database' as const, operation: 'insert', table: 'notes', data: { text: '{{input.text}}' } }]
  const call = { id: 'call', type: 'integration' as const, integration: 'nowhere', action: 'call' }
  const app = await testServer(t, {
    ...document,
    queue: { workers: 0 },
    workflows: [{ id: 'write', steps }],
    routes: [
      ...document.routes ?? [],
      { method: 'post', path: '/later', workflow: { ref: 'write', async: true } },
      { method: 'post', path: '/now', workflow: { ref: 'write' } },
      { method: 'post', path: '/failing', workflow: { steps: [...steps, call] } }
    ]
  }, { engine: await postgresSection(t), tenants })
  const acme = caller(t, app, { token: tokenOf('acme') })
  // Responses cannot be stored, as if the process died before.
  await sql`create function lost() returns trigger language plpgsql as $$ begin raise 'lost'; end $$`.execute(app.db)
  await sql`create trigger lost before update on tenantry.idempotency_keys for each row when (new.state = 'answered') execute function lost()`
    .execute(app.db)
  const input = { text: 'once' }
  const run = { ref: 'write', input }
  const sent = [
    ['POST /later', input, 202],
    ['POST /now', input, 200],
    ['POST /failing', input, 502],
    ['POST /agent/workflow/run', { ...run, async: false }, 200],
    // In one batch.
    ...Array.from({ length: 5 }, () => ['POST /agent/workflow/run', run, 202] as const)
  ] as const
  const send = ([target, body]: typeof sent[number], index: number) => acme(target, { body, ...under(`lost-${index}`) })
  t.same((await Promise.all(sent.map(send))).map(({ status }) => status), sent.map(([,, status]) => status))
  await pass(app, 121)
  for (const response of await Promise.all(sent.map(send))) refused(t, response, 409, 'IDEMPOTENCY_ANSWER_LOST')
  t.equal(await notesOf(t, app), 3)
  t.match((await acme('GET /agent/workflow/runs')).body['pagination'], { total: 6 })
})

/** Stores keys, each of another caller. */
async function fill (app: FastifyInstance, tenant: string, count: number, stranger: boolean): Promise<void> {
  await sql`insert into tenantry.idempotency_keys (tenant_id, id, holder, state, stranger, encrypted, content, leased_until, expires_at)
    select ${tenant}, decode(md5(${String(stranger)} || n::text), 'hex'), gen_random_uuid(), 'answered', ${stranger}::boolean, false, 'x',
      now(), now() + interval '1 day' from generate_series(1, ${count}::int) n`.execute(app.db)
}

test('a tenant has a limited number of keys, and anonymous callers use none of them', async (t) => {
  const engine = await postgresSection(t)
  const app = await testServer(t, document, { engine, tenants })
  await fill(app, 'acme', maxAnonymousKeys, true)
  const stranger = caller(t, app, { tenant: 'acme' })
  refused(t, await stranger('POST /notes', { body: { text: 'x' }, ...under('full') }), 429, 'IDEMPOTENCY_FULL')
  t.match(await caller(t, app, { token: tokenOf('acme') })('POST /notes', { body: { text: 'x' }, ...under('full') }), { status: 201 })

  await fill(app, 'globex', maxKeys, false)
  const globex = caller(t, app, { token: tokenOf('globex') })
  const full = await globex('POST /notes', { body: { text: 'x' }, ...under('full') })
  refused(t, full, 429, 'IDEMPOTENCY_FULL')
  t.match(full.headers, { 'retry-after': '60' })
  t.equal(await notesOf(t, app, 'globex'), 0)
  t.match(await globex('POST /notes', { body: { text: 'x' } }), { status: 201 }, 'without a key it is executed')

  await pass(app, 90_000)
  t.equal((await keysOf(app)).length > maxKeys, true)
  await app.idempotency.sweep()
  t.strictSame(await keysOf(app), [], 'expired keys are removed')
})

/** Stores responses of the maximum size, up to one less than the bytes have room for. */
async function fillBytes (app: FastifyInstance, stranger: boolean, bytes: number): Promise<void> {
  await sql`insert into tenantry.idempotency_keys (tenant_id, id, holder, state, stranger, encrypted, content, leased_until, expires_at)
    select 'acme', decode(md5(n::text), 'hex'), gen_random_uuid(), 'answered', ${stranger}::boolean, false, decode(repeat('00', ${maxResponseBytes}), 'hex'),
      now(), now() + interval '1 day' from generate_series(1, ${bytes / maxResponseBytes - 1}::int) n`.execute(app.db)
}

/** Adds keys of the caller that has stored the only one. */
async function addKeys ({ db }: FastifyInstance, count: number): Promise<void> {
  await sql`insert into tenantry.idempotency_keys (tenant_id, id, holder, state, stranger, encrypted, content, leased_until, expires_at)
    select tenant_id, substr(id, 1, 16) || decode(md5(n::text), 'hex'), holder, state, false, encrypted, 'x', leased_until, expires_at
    from tenantry.idempotency_keys, generate_series(1, ${count}::int) n`.execute(db)
}

test('a caller uses up only its share of the keys of its tenant', async (t) => {
  const engine = await postgresSection(t)
  const [first, second] = [await testServer(t, document, { engine, tenants }), await testServer(t, document, { engine })]
  const note = { body: { text: 'x' } }
  t.match(await caller(t, first, { token: tokenOf('acme') })('POST /notes', { ...note, ...under('first') }), { status: 201 })
  // The other server has counted none of them yet.
  await addKeys(first, maxKeys / 4)
  const [ada, ben] = ['ada', 'ben'].map((sub) => caller(t, second, { token: tokenOf('acme', sub) }))
  refused(t, await ada!('POST /notes', { ...note, ...under('second') }), 429, 'IDEMPOTENCY_FULL')
  t.match(await ben!('POST /notes', { ...note, ...under('second') }), { status: 201 })
})

test('the key of a write whose later call fails counts', async (t) => {
  const engine = await postgresSection(t)
  const [first, second] = [await testServer(t, document, { engine, tenants }), await testServer(t, document, { engine })]
  const note = { body: { text: 'x' } }
  t.match(await caller(t, first, { token: tokenOf('acme') })('POST /notes', { ...note, ...under('first') }), { status: 201 })
  await addKeys(first, maxKeys / 4 - 4)
  const ada = caller(t, second, { token: tokenOf('acme') })
  const statuses: number[] = []
  for (let key = 0; key < 5; key++) statuses.push((await ada('POST /called', { ...note, ...under(`called-${key}`) })).status)
  t.strictSame([...new Set(statuses)], [502, 429])
})

test('callers without a tenant do not use up the keys of an administrator of the platform', async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants })
  await fill(app, '', maxKeys, false)
  const [admin, user] = ['admin', 'user'].map((role) => caller(t, app, { token: signToken({ sub: role, role }) }))
  t.match(await admin!('POST /tenants', { body: { id: 'umbrella', name: 'Umbrella' }, ...under('new') }), { status: 201 })
  refused(t, await user!('POST /called', { body: { text: 'x' }, ...under('new') }), 429, 'IDEMPOTENCY_FULL')
})

test('responses to anonymous callers do not use up the bytes for the keys of others', async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants })
  const [stranger, acme] = [caller(t, app, { tenant: 'acme' }), caller(t, app, { token: tokenOf('acme') })]
  await fillBytes(app, true, maxAnonymousBytes)
  const text = 'x'.repeat(maxResponseBytes - 100)
  t.match(await stranger('POST /notes', { body: { text }, ...under('last') }), { status: 201 })
  refused(t, await stranger('POST /notes', { body: { text }, ...under('full') }), 429, 'IDEMPOTENCY_FULL')
  t.match(await acme('POST /notes', { body: { text }, ...under('own') }), { status: 201 })
})

test('responses count by their bytes, of which a character may have several', async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants })
  const acme = caller(t, app, { token: tokenOf('acme') })
  await fillBytes(app, false, maxBytes)
  const text = '€'.repeat(maxResponseBytes / 3 - 100)
  t.match(await acme('POST /notes', { body: { text }, ...under('first') }), { status: 201 })
  t.match(await acme('POST /notes', { body: { text }, ...under('second') }), { status: 201 })
  refused(t, await acme('POST /notes', { body: { text }, ...under('third') }), 429, 'IDEMPOTENCY_FULL')
})

test('a response that is too large to store uses none of the bytes', async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants })
  const acme = caller(t, app, { token: tokenOf('acme') })
  await fillBytes(app, false, maxBytes)
  for (const key of ['first', 'second']) {
    t.match(await acme('POST /notes', { body: { text: 'x'.repeat(2 * maxResponseBytes) }, ...under(key) }), { status: 201 })
  }
})

test('row-level security applies to keys', async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const postgres = { connectionString, rowLevelSecurity: true }
  const app = await testServer(t, document, { engine: { provider: 'postgres', postgres }, tenants })
  for (const tenant of ['acme', 'globex']) {
    const ask = caller(t, app, { token: tokenOf(tenant) })
    const first = await ask('POST /notes', { body: { text: tenant }, ...under('rls') })
    t.equal(first.status, 201)
    t.equal((await ask('POST /notes', { body: { text: tenant }, ...under('rls') })).text, first.text)
  }
  const seen = await app.engine.transaction(
    { tenant: tenantRef('acme') },
    (session) => session.rows({ text: 'select tenant_id from tenantry.idempotency_keys' })
  )
  t.strictSame(seen, [{ tenant_id: 'acme' }])
})

test('stored responses are moved to a new master key', async (t) => {
  const engine = await postgresSection(t)
  const app = await testServer(t, document, { engine, tenants })
  const made = { body: { name: 'moved' }, ...under('moved') }
  const first = await caller(t, app, { token: tokenOf('acme') })('POST /tenant/api-keys', made)
  const masterKey = secretText(makeMasterKey().text)
  const keys = masterKeys(parseMasterKey(masterKey, 'SECRETS_MASTER_KEY'), parseMasterKeys(testMasterKey, 'SECRETS_PREVIOUS_KEYS'))
  t.match(await rekeySecrets(app.db, createSecretCipher(keys)), { moved: 1, unreadable: { length: 0 }, unfinished: false })
  const later = await testServer(t, document, { engine, env: { SECRETS_MASTER_KEY: masterKey } })
  const again = await caller(t, later, { token: tokenOf('acme') })('POST /tenant/api-keys', made)
  t.ok(isReplay(again))
  t.equal(again.text, first.text)
  // A server without the key of a response reports that.
  refused(t, await caller(t, app, { token: tokenOf('acme') })('POST /tenant/api-keys', made), 409, 'IDEMPOTENCY_ANSWER_LOST')
})

test('without a master key a request with secrets is rejected if it has an idempotency key', async (t) => {
  const engine = await postgresSection(t)
  const app = createServer(
    testDocument({
      ...document,
      customIntegrations: [],
      routes: document.routes?.slice(0, 1) ?? [],
      plugins: { secrets: false, webhooks: false, mfa: false }
    }, engine),
    { env: {}, logger: false }
  )
  t.teardown(() => app.close())
  await app.ready()
  await app.tenants.create({ id: 'acme', name: 'Acme' })
  const acme = caller(t, app, { token: tokenOf('acme') })
  refused(t, await acme('POST /tenant/api-keys', { body: { name: 'CI' }, ...under('k') }), 400, 'IDEMPOTENCY_UNAVAILABLE')
  t.match((await acme('GET /tenant/api-keys')).body['pagination'], { total: 0 })
  t.match(await acme('POST /tenant/api-keys', { body: { name: 'CI' } }), { status: 201 })
  const first = await acme('POST /notes', { body: { text: 'x' }, ...under('k') })
  t.equal((await acme('POST /notes', { body: { text: 'x' }, ...under('k') })).text, first.text)
  t.match(
    await caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) })('POST /tenants', {
      body: { id: 'b', name: 'B' },
      ...under('k')
    }),
    { status: 201 }
  )
})
