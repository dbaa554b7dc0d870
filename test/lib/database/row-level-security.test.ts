import { randomUUID } from 'node:crypto'
import { sql, type Transaction } from 'kysely'
import { test } from 'tap'
import { createEngine, type EngineOptions } from '../../../lib/database/index.js'
import type { SystemTables } from '../../../lib/database/system-tables.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { tenantOwnedTables } from '../../../plugins/tenancy/erasure.js'
import { nameAfterSystem, systemNames } from '../../helpers/migrations.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { openEngine, rejection, withoutTenant } from './open.js'

const tables = { notes: { columns: { id: { type: 'integer', primaryKey: true } }, tenantScoped: true } } as const
const rows = [1, 2, 3].map((id) => `insert into notes values (${id}, '${id === 3 ? 'b' : 'a'}')`).join(';')
const seen = { name: 'seen', text: "select string_agg(id::text, ',' order by id) from notes" }
const insert = { name: 'insert', text: 'insert into notes (id, tenant_id) values ($1, $2)' }

test("each request reads and writes only its tenant's rows, on one connection", async (t) => {
  for (const preparedStatements of [true, false]) {
    const database = await postgresDatabase(t, { role: 'owner' })
    const engine = await openEngine(t, {
      provider: 'postgres',
      postgres: { connectionString: database.connectionString, rowLevelSecurity: true, preparedStatements, pool: { max: 1 } },
      tables,
      migrate: 'auto'
    })
    await database.admin(rows)
    t.ok(engine.rowLevelSecurity)
    const read = (tenant: string) => engine.text(seen, [], { tenant: tenantRef(tenant) })
    for (let round = 0; round < 2; round++) {
      t.equal(await read('a'), '1,2')
      t.equal(await read('b'), '3')
      t.equal(await read(''), null, 'the platform has no tenant rows')
    }
    t.strictSame(await Promise.all([read('b'), read('a'), read('b')]), ['3', '1,2', '3'])
    t.equal(
      await engine.transaction({ tenant: tenantRef('a') }, async (session) => {
        await session.text(insert, [4, 'a'])
        return session.text(seen, [])
      }),
      '1,2,4'
    )
    await t.rejects(engine.text(insert, [5, 'b'], { tenant: tenantRef('a') }), /row-level security/)
    await t.rejects(engine.transaction({ tenant: tenantRef('a') }, (session) => session.text(insert, [5, 'b'])), /row-level security/)
    t.equal(await read('b'), '3', 'after a rejection too')
    for (const text of ['*', "a' or true"]) {
      await t.rejects(read(text), /not a valid tenant id/)
      await t.rejects(engine.transaction({ tenant: tenantRef(text) }, (session) => session.text(seen, [])), /not a valid tenant id/)
      t.equal(await read('b'), '3', 'the connection is free')
    }
  }
})

test('the policies apply to every role, including the owner, until the session names a tenant', async (t) => {
  const database = await postgresDatabase(t, { role: 'owner' })
  await openEngine(t, { provider: 'postgres', postgres: { connectionString: database.connectionString }, tables, migrate: 'auto' })
  await database.admin(rows)
  t.match(await rejection(database.query('select id from notes')), { code: '42704' }, 'an error, and not an apparently empty table')
  t.match(await rejection(database.query("insert into notes values (9, 'a')")), { code: '42704' })
  t.match(await rejection(database.query("set app.tenant_id = 'b'; insert into notes values (9, 'a')")), { code: '42501' })
  t.strictSame(await database.query("set app.tenant_id = 'b'; select id from notes"), [{ id: 3 }])
  t.strictSame(await database.query("set app.tenant_id = '*'; select count(*)::int as n from notes"), [{ n: 3 }])
  await database.query('create policy open on notes using (true)')
  t.strictSame(
    await database.query("set app.tenant_id = 'b'; select id from notes"),
    [{ id: 3 }],
    'a policy that is added later does not open the table'
  )
})

test('without rowLevelSecurity the server works as the owner, and behind a pooler', async (t) => {
  for (const preparedStatements of [true, false]) {
    const database = await postgresDatabase(t, { role: 'owner' })
    const engine = await openEngine(t, {
      provider: 'postgres',
      postgres: { connectionString: database.connectionString, preparedStatements },
      tables,
      migrate: 'auto'
    })
    t.notOk(engine.rowLevelSecurity)
    await engine.text(insert, [1, 'a'], { tenant: tenantRef('a') })
    await engine.transaction(withoutTenant, (session) => session.text(insert, [2, 'b']))
    t.equal(await engine.text(seen, [], withoutTenant), '1,2')
    await engine.kysely.insertInto('tenantry.documents').values({ tenant_id: 'a', collection: 'c', id: '1', data: {} }).execute()
    t.equal((await engine.kysely.selectFrom('tenantry.documents').selectAll().execute()).length, 1)
  }
})

test("the server's own statements see every tenant, also with rowLevelSecurity", async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString, rowLevelSecurity: true, pool: { max: 1 } },
    migrate: 'auto'
  })
  for (const tenant of ['a', 'b']) {
    await engine.kysely.insertInto('tenantry.documents').values({ tenant_id: tenant, collection: 'c', id: '1', data: {} }).execute()
  }
  t.equal(await engine.text({ text: 'select count(*)::text from tenantry.documents' }, [], { tenant: tenantRef('a') }), '1')
  t.equal((await engine.kysely.selectFrom('tenantry.documents').selectAll().execute()).length, 2)
})

test('a role that bypasses policies is rejected at start', async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'superuser' })
  t.match(await rejection(createEngine({ provider: 'postgres', postgres: { connectionString, rowLevelSecurity: true } })), {
    message: /"postgres" bypasses row-level security/
  })
})

test('existing tables get policies too, in addition to their own', async (t) => {
  const database = await postgresDatabase(t, { empty: true, role: 'owner' })
  await database.query(`
    create table plain (id int, tenant_id text);
    create table typed (id int, tenant_id uuid);
    create table guarded (id int, tenant_id text, owner text);
    alter table guarded enable row level security;
    create policy own on guarded using (owner = 'me');
    create table shared (id int);
    create view seen as select * from plain`)
  const warnings: string[] = []
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString: database.connectionString, rowLevelSecurity: true },
    log: { info () {}, warn: (_object, message) => warnings.push(message) }
  })
  t.strictSame(await engine.pendingMigrations(), [...systemNames, nameAfterSystem('isolate_guarded_plain_typed')])
  const warning = /^guarded: the policy "own" of the application will bind the server too.*: drop policies that tenants replace$/
  t.match((await engine.migration.plan()).warnings, [warning])
  await engine.migration.apply()
  t.strictSame(await engine.pendingMigrations(), [])
  t.strictSame((await engine.migration.plan()).warnings, [], 'only before the change')
  t.match(warnings, [/not migrated/, warning], 'the log has it too')
  const uuid = '00000000-0000-4000-8000-000000000001'
  await database.admin(
    `insert into plain values (1, 'a'), (2, 'b'); insert into typed values (1, '${uuid}'), (2, gen_random_uuid()); insert into guarded values (1, 'a', 'me'), (2, 'a', 'you'), (3, 'b', 'me')`
  )
  const ids = (table: string, tenant: string) => engine.text({ text: `select string_agg(id::text, ',') from ${table}` }, [], { tenant: tenantRef(tenant) })
  t.equal(await ids('plain', 'a'), '1')
  t.equal(await ids('seen', 'b'), '2')
  t.equal(await ids('typed', uuid), '1')
  t.equal(await ids('guarded', 'a'), '1', 'both its own policy and the added one')
})

test('a table of another owner is not changed, and the plan says what to do', async (t) => {
  const database = await postgresDatabase(t, { role: 'owner' })
  await database.admin('create table notes (id int, tenant_id text); grant select on notes to public')
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString: database.connectionString }, migrate: 'auto' })
  const { migrations, warnings } = await engine.migration.plan()
  t.strictSame(migrations, [])
  t.match(warnings, [/notes has no policy.*its owner must run create policy/])
})

test("the server reads and writes the tenants' tables, and a tenant's session only its own rows", async (t) => {
  const connection = (options: object) => ({ provider: 'postgres' as const, postgres: { connectionString: '', ...options } })
  const cases: EngineOptions[] = [
    { provider: 'embedded' },
    connection({}),
    connection({ preparedStatements: false }),
    connection({ rowLevelSecurity: true }),
    connection({ rowLevelSecurity: true, preparedStatements: false })
  ]
  for (const options of cases) {
    const { postgres } = options
    const found = postgres && { ...postgres, connectionString: (await postgresDatabase(t, { role: 'owner' })).connectionString }
    const engine = await openEngine(t, { ...options, postgres: found, migrate: 'auto' })
    for (const tenant of ['a', 'b']) {
      await engine.events.change({ topic: 'tenant', tenant }, (transaction) => writeEverything(transaction, tenant))
    }
    const ofA = await engine.events.change(
      { topic: 'tenant', tenant: 'a' },
      (transaction) => transaction.deleteFrom('tenantry.api_keys').where('tenant_id', '=', 'a').returning('tenant_id').execute()
    )
    t.strictSame(ofA, [{ tenant_id: 'a' }])
    for (const table of tenantOwnedTables) {
      const rows = await engine.kysely.selectFrom(table).select('tenant_id').orderBy('tenant_id').execute()
      t.strictSame(rows.map(({ tenant_id: tenant }) => tenant), table === 'tenantry.api_keys' ? ['b'] : ['a', 'b'], table)
      if (postgres?.rowLevelSecurity === true) {
        t.equal(await engine.text({ text: `select string_agg(tenant_id, ',') from ${table}` }, [], { tenant: tenantRef('b') }), 'b', table)
      }
    }
    await engine.events.change(
      { topic: 'tenant', tenant: 'b' },
      (transaction) => transaction.deleteFrom('tenantry.tenants').where('id', '=', 'b').execute()
    )
    t.strictSame(
      await engine.kysely.selectFrom('tenantry.tenant_roles').select('tenant_id').execute(),
      [{ tenant_id: 'a' }],
      "a deleted tenant's rows are deleted too"
    )
  }
})

/** A row of the tenant in every table with tenant data. */
async function writeEverything (transaction: Transaction<SystemTables>, tenant: string): Promise<void> {
  const own = { tenant_id: tenant }
  await transaction.insertInto('tenantry.tenants').values({ id: tenant, name: tenant }).execute()
  await transaction.insertInto('tenantry.documents').values({ ...own, collection: 'c', id: '1', data: {} }).execute()
  await transaction.insertInto('tenantry.tenant_configs').values({ ...own, version: 1, document: '{}', created_by: 'u' }).execute()
  await transaction.insertInto('tenantry.secrets').values({ ...own, key: 'k', version: 1, value: Buffer.from('x') }).execute()
  await transaction.insertInto('tenantry.secret_earlier_values').values({
    ...own,
    key: 'k',
    version: 0,
    value: Buffer.from('x'),
    valid_until: new Date(0)
  }).execute()
  await transaction.insertInto('tenantry.audit_log').values({ ...own, action: 'secret.create', target: 'k' }).execute()
  await transaction.insertInto('tenantry_queue.job').values({ name: 'jobs', data: JSON.stringify({ tenant, task: 't' }) }).execute()
  const user = randomUUID()
  await transaction.insertInto('tenantry.users').values({
    ...own,
    id: user,
    email: 'a@example.com',
    password_hash: '$argon2id$',
    role: 'user'
  }).execute()
  await transaction.insertInto('tenantry.refresh_tokens').values({
    ...own,
    id: randomUUID(),
    user_id: user,
    secret: Buffer.from('s'),
    token: Buffer.from('t'),
    amr: ['pwd'],
    expires_at: new Date()
  }).execute()
  await transaction.insertInto('tenantry.user_links').values({
    ...own,
    kind: 'reset',
    email: 'a@example.com',
    user_id: user,
    expires_at: new Date()
  }).execute()
  await transaction.insertInto('tenantry.attempts').values({
    ...own,
    kind: 'password',
    subject: Buffer.from('x'),
    tries: [new Date()],
    ends_at: new Date()
  }).execute()
  await transaction.insertInto('tenantry.user_mfa').values({ ...own, user_id: 'u' }).execute()
  await transaction.insertInto('tenantry.revocations').values({
    ...own,
    subject: Buffer.from('u'),
    token: Buffer.from('t'),
    expires_at: new Date()
  }).execute()
  await transaction.insertInto('tenantry.api_keys').values({ ...own, name: 'k', hash: Buffer.from(tenant), scopes: ['*'], created_by: 'u' })
    .execute()
  await transaction.insertInto('tenantry.idempotency_keys').values({
    ...own,
    id: Buffer.from('k'),
    holder: randomUUID(),
    state: 'running',
    stranger: false,
    encrypted: false,
    content: Buffer.from('x'),
    leased_until: new Date(),
    expires_at: new Date()
  }).execute()
  await transaction.insertInto('tenantry.tenant_rbac').values({ ...own, enabled: true }).execute()
  await transaction.insertInto('tenantry.tenant_roles').values({ ...own, name: 'r', permissions: ['notes:read'] }).execute()
  await transaction.insertInto('tenantry.resource_limits').values({ ...own, rules: '[]', counters: 1 }).execute()
  await transaction.insertInto('tenantry.resource_usage').values({ ...own, user_id: 'u', resource: 'r', metric: 'm', ends_at: new Date() })
    .execute()
  await transaction.insertInto('tenantry.request_stats').values({
    ...own,
    hour: new Date(0),
    service: '',
    method: 'GET',
    route: '/r',
    status: 200,
    count: 1,
    buckets: [1],
    counts: [1]
  }).execute()
  const run = randomUUID()
  await transaction.insertInto('tenantry.workflow_runs').values({ ...own, id: run, definition: '{}', scope: '{}' }).execute()
  await transaction.insertInto('tenantry.workflow_steps').values({ ...own, run_id: run, step: 's', status: 'running' }).execute()
  await transaction.insertInto('tenantry.workflow_schedules').values({
    ...own,
    workflow: 'w',
    schedule: '0 0 1 1 * UTC',
    next_at: new Date()
  }).execute()
  const file = randomUUID()
  await transaction.insertInto('tenantry.files').values({
    ...own,
    id: file,
    status: 'pending',
    bucket: 'private',
    name: 'f',
    content_type: 'text/plain',
    size: 1,
    counted: 1,
    sha256: null,
    entity_type: null,
    entity_id: null,
    metadata: '{}',
    created_by: 'u',
    created_at: new Date(),
    expires_at: null
  }).execute()
  await transaction.insertInto('tenantry.file_transforms').values({
    ...own,
    file_id: file,
    name: 'n',
    content_type: 'image/png',
    size: 1,
    sha256: '0'.repeat(64),
    created_at: new Date()
  }).execute()
  await transaction.insertInto('tenantry.realtime_outbox').values({
    ...own,
    table_name: 'notes',
    kind: 'I',
    keys: ['id'],
    record: '{}',
    before: null
  }).execute()
  await transaction.insertInto('tenantry.realtime_recorded').values({ ...own, table_name: 'notes', start: 1, until: new Date() })
    .execute()
  await transaction.insertInto('tenantry.realtime_changes').values({
    ...own,
    position: 1,
    first: 1,
    bytes: 1,
    tables: ['notes'],
    changes: 'x'
  }).execute()
  await transaction.insertInto('tenantry.realtime_heads').values({ ...own, position: 1, stamp: 1 }).execute()
  await transaction.insertInto('tenantry.realtime_members').values({ ...own, room: 'r', id: file, instance_id: file, state: null })
    .execute()
  await transaction.insertInto('tenantry.realtime_messages').values({ ...own, instance_id: file, number: 1, messages: '[]' }).execute()
  await transaction.insertInto('tenantry.file_parts').values({ ...own, file_id: file, id: randomUUID(), start: 0, size: null }).execute()
  await transaction.insertInto('tenantry.agent_documents').values({
    ...own,
    id: 'd',
    version: randomUUID(),
    content_type: 'text/plain',
    metadata: '{}',
    chunks: 1,
    model: 'm',
    dimensions: 8,
    store: 'pgvector',
    created_at: new Date()
  }).execute()
  await sql`insert into tenantry.agent_chunks (tenant_id, document_id, position, content) values (${own.tenant_id}, 'd', 0, 'text')`
    .execute(transaction)
  await transaction.insertInto('tenantry.agent_stale_vectors').values({
    ...own,
    document_id: 'd',
    version: randomUUID(),
    due_at: new Date()
  }).execute()
  const batch = randomUUID()
  await transaction.insertInto('tenantry.agent_batches').values({
    ...own,
    id: batch,
    status: 'queued',
    total: 1,
    actor: '{}',
    created_at: new Date(),
    finished_at: null
  }).execute()
  await transaction.insertInto('tenantry.agent_batch_documents').values({
    ...own,
    batch_id: batch,
    position: 0,
    input: '{}',
    status: 'waiting',
    error: null
  }).execute()
  const conversation = randomUUID()
  await transaction.insertInto('tenantry.conversations').values({
    ...own,
    id: conversation,
    user_id: 'u',
    platform: false,
    title: 't',
    last_position: 1,
    messages: 1,
    bytes: 1,
    created_at: new Date(),
    updated_at: new Date()
  }).execute()
  await transaction.insertInto('tenantry.conversation_messages').values({
    ...own,
    conversation_id: conversation,
    position: 1,
    role: 'user',
    content: 'm',
    citations: null,
    bytes: 1,
    created_at: new Date()
  }).execute()
  const instance = randomUUID()
  await transaction.insertInto('tenantry.usage_requests').values({ ...own, day: '2026-01-01', api_calls: 1, bandwidth_bytes: 1 }).execute()
  await transaction.insertInto('tenantry.usage_counters').values({ ...own, counter: 'storage_bytes', period: 'total', amount: 1 }).execute()
  await transaction.insertInto('tenantry.usage_instances').values({ id: instance, last_batch: 1 }).execute()
  await transaction.insertInto('tenantry.usage_gauges').values({ ...own, instance_id: instance, gauge: 'rooms', value: 1, written: 1 })
    .execute()
  await transaction.insertInto('tenantry.usage_reservations').values({
    ...own,
    id: randomUUID(),
    instance_id: instance,
    counter: 'storage_bytes',
    period: 'total',
    amount: 1
  }).execute()
  await transaction.insertInto('tenantry.billing_tenants').values({ ...own, plan: 'pro' }).execute()
  await transaction.insertInto('tenantry.billing_subscriptions').values({ ...own, provider: 'payprov', id: 's' }).execute()
  await transaction.insertInto('tenantry.billing_events').values({ ...own, provider: 'payprov', id: tenant, received_at: new Date() })
    .execute()
  const at = new Date()
  const event = await transaction.insertInto('tenantry.webhook_events').values({
    ...own,
    type: 'entity.created',
    subject: 'notes:1',
    data: '{}',
    at
  }).returning('place').executeTakeFirstOrThrow()
  await transaction.insertInto('tenantry.webhook_deliveries').values({
    ...own,
    event: event.place,
    type: 'entity.created',
    subject: 'notes:1',
    endpoint: 'w',
    url: 'https://example.com',
    give_up_at: at,
    created_at: at
  }).execute()
  await transaction.insertInto('tenantry.webhook_secrets').values({ ...own, secret: Buffer.from('x'), created_at: at }).execute()
  await transaction.insertInto('tenantry.webhook_receipts').values({
    ...own,
    path: '/hook',
    id: 'i',
    holder: randomUUID(),
    held_until: null,
    received_at: at
  }).execute()
  await transaction.insertInto('tenantry.oauth_tokens').values({ ...own, key: 'crm_access_token' }).execute()
  await transaction.insertInto('tenantry.usage_notices').values({ ...own, metric: 'llm_tokens', period: '2026-01', at }).execute()
}
