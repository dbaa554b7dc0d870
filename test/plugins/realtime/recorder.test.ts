/** Changes are recorded while a client watches the table or may reconnect. A watch misses none after its `ack`. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import pg from 'pg'
import type { Test } from 'tap'
import { test } from 'tap'
import { failure } from '../../../lib/errors.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { TenantTable } from '../../../plugins/realtime/recorded-store.js'
import { createRecordedStore } from '../../../plugins/realtime/recorded-store.js'
import { createRecorder } from '../../../plugins/realtime/recorder.js'
import { gate } from '../../helpers/gate.js'
import { forEachEngine, postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { listen, testServer } from '../../helpers/server.js'
import { missSuccession } from '../../helpers/succession.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'
import { document, open, type Opened, ready, tokenOf } from './app.js'

const acmeRef = tenantRef('acme')

const rowsIn = async ({ app }: Pick<Opened, 'app'>, table: 'outbox' | 'changes') =>
  (await sql`select from ${sql.table(`tenantry.realtime_${table}`)}`.execute(app.db)).rows.length

async function session (t: Test, engine: unknown): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: Object(engine).postgres.connectionString })
  await client.connect()
  t.teardown(() => client.end())
  return client
}

test('a write is recorded from the first watch of its table and tenant on, also by plain SQL', (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, {}, { engine })
    const { app, connect, ask } = opened
    const insert = (tenant: string, number: number) =>
      sql`insert into tasks (tenant_id, number, title) values (${tenant}, ${number}, 'x')`.execute(app.db)
    await ask('acme')('POST /notes', { body: { title: 'unwatched' } })
    await insert('acme', 1)
    t.equal(await rowsIn(opened, 'outbox'), 0, 'no row')
    const client = await connect('acme', { permissions: ['tasks:read'] })
    t.match(await client.ask({ type: 'watch', table: 'tasks' }), { type: 'ack', position: 1 })
    await ask('acme')('POST /notes', { body: { title: 'of another table' } })
    await insert('globex', 2)
    await insert('acme', 3)
    t.match(await client.change(), { id: 3, position: 2 })
    t.equal(await rowsIn(opened, 'outbox') + await rowsIn(opened, 'changes'), 1)
  }, { role: 'owner' }))

test('an ack waits for transactions that began to write before, and for no others', async (t) => {
  const engine = await postgresSection(t)
  const { connect, ask } = await open(t, {}, { engine })
  const [earlier, later, other] = [await session(t, engine), await session(t, engine), await session(t, engine)]
  await earlier.query('begin')
  await earlier.query("insert into tasks (tenant_id, number, title) values ('globex', 1, 'x')")
  await other.query('begin')
  await other.query("insert into tenantry.tenants select (jsonb_populate_record(t, '{\"id\": \"other\"}')).* from tenantry.tenants t limit 1")
  const client = await connect('acme', { permissions: ['tasks:read'] })
  client.send({ type: 'watch', table: 'tasks', ref: 'first' })
  t.match(await client.ask({ type: 'watch', table: 'notes' }), { type: 'ack' }, 'a table without writes')
  await later.query('begin')
  await later.query("insert into tasks (tenant_id, number, title) values ('acme', 2, 'x')")
  await earlier.query("insert into tasks (tenant_id, number, title) values ('acme', 3, 'x')")
  await ask('acme')('POST /notes', { body: { title: 'meanwhile' } })
  t.match(await client.change(), { table: 'notes' })
  t.notOk(client.messages.some(({ ref }) => ref === 'first'))
  await earlier.query('commit')
  t.match(await client.next(({ ref }) => ref === 'first'), { type: 'ack' }, 'while two transactions are still writing')
  await later.query('commit')
  t.match(await client.next((message) => message['table'] === 'tasks' && message['id'] === 2), { action: 'created' })
})

test("an ack waits for a tenant's own requests with several statements, and not for those of another tenant", async (t) => {
  const engine = await postgresSection(t)
  const { app, connect } = await open(t, {}, { engine })
  const [written, ended] = [gate(), gate()]
  const request = app.engine.transaction({ tenant: tenantRef('globex') }, async (session) => {
    await session.rows({ text: "insert into tasks (tenant_id, number, title) values ('globex', 1, 'x')" })
    written.open()
    await ended.opened
  })
  await Promise.race([written.opened, request])
  const [acme, globex] = [await connect('acme', { permissions: ['tasks:read'] }), await connect('globex', { permissions: ['tasks:read'] })]
  globex.send({ type: 'watch', table: 'tasks', ref: 'own' })
  t.match(await acme.ask({ type: 'watch', table: 'tasks' }), { type: 'ack' })
  await globex.settle()
  t.notOk(globex.messages.some(({ ref }) => ref === 'own'))
  ended.open()
  await request
  t.match(await globex.next(({ ref }) => ref === 'own'), { type: 'ack' })
})

test("an ack waits for another tenant's transaction that writes to a table without tenants, which may cascade", async (t) => {
  const { app, connect } = await open(t, {}, { engine: await postgresSection(t) })
  const [written, ended] = [gate(), gate()]
  const request = app.engine.transaction({ tenant: tenantRef('globex') }, async (session) => {
    await session.rows({ text: "insert into tasks (tenant_id, number, title) values ('globex', 1, 'x')" })
    await session.rows({ text: 'insert into plain default values' })
    written.open()
    await ended.opened
  })
  await Promise.race([written.opened, request])
  const acme = await connect('acme', { permissions: ['tasks:read'] })
  acme.send({ type: 'watch', table: 'tasks', ref: 'first' })
  t.match(await acme.ask({ type: 'watch', table: 'notes' }), { type: 'ack' }, 'another table')
  t.notOk(acme.messages.some(({ ref }) => ref === 'first'))
  ended.open()
  await request
  t.match(await acme.next(({ ref }) => ref === 'first'), { type: 'ack' })
})

test('a transaction whose snapshot is older than the first watch is recorded', async (t) => {
  const engine = await postgresSection(t)
  const { connect } = await open(t, {}, { engine })
  const old = await session(t, engine)
  await old.query('begin isolation level repeatable read')
  await old.query('select from tasks')
  const client = await connect('acme', { permissions: ['tasks:read'] })
  t.match(await client.ask({ type: 'watch', table: 'tasks' }), { type: 'ack' })
  await old.query("insert into tasks (tenant_id, number, title) values ('acme', 1, 'x')")
  await old.query('commit')
  t.match(await client.change(), { id: 1 })
})

test('a client that reconnects finds its changes until the table is no longer recorded', async (t) => {
  const engine = await postgresSection(t)
  const opened = await open(t, {}, { engine })
  const { app, connect, ask } = opened
  const store = createRecordedStore(app.db)
  const acme = ask('acme')
  const first = await connect('acme')
  t.match(await first.ask({ type: 'watch', table: 'notes' }), { type: 'ack', position: 1 })
  first.socket.close()
  await first.closed
  await store.sweep()
  await acme('POST /notes', { body: { title: 'while away' } })
  const second = await connect('acme')
  await second.ask({ type: 'watch', table: 'notes', since: 1 })
  t.match(await second.change(), { position: 2, record: { title: 'while away' } })
  second.socket.close()
  await second.closed

  // A day later.
  await sql`update tenantry.realtime_recorded set until = clock_timestamp() - interval '1 second'`.execute(app.db)
  await store.sweep()
  await acme('POST /notes', { body: { title: 'unrecorded' } })
  t.equal(await rowsIn(opened, 'outbox'), 0)
  const third = await ready(t, await listen(await testServer(t, document, { engine })), tokenOf('acme'))
  const { watch } = await third.ask({ type: 'watch', table: 'notes', since: 2 })
  t.same(await third.next(({ type }) => type === 'gap'), { type: 'gap', watch, position: 3 })
  await acme('POST /notes', { body: { title: 'again' } })
  t.match(await third.change(), { watch, position: 4, record: { title: 'again' } })
})

test('a table that was not recorded for a while is a gap for its watchers', async (t) => {
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  const store = createRecordedStore(app.db)
  const lost: TenantTable[] = []
  const recorder = createRecorder({
    store,
    schema: app.engine.catalogue.schema,
    retentionSeconds: 60,
    lost: ({ tenant, table }) => lost.push({ tenant, table }),
    log: app.log
  })
  recorder.start()
  t.teardown(() => recorder.stop())
  const [notes, tasks] = [{ tenant: acmeRef, table: 'notes' }, { tenant: acmeRef, table: 'tasks' }]
  const [used, ended] = [await recorder.record(notes), await recorder.record(tasks)]
  ended.end()
  await recorder.renew()
  t.same(lost, [], 'nothing is lost while it is renewed')
  const expire = () => sql`update tenantry.realtime_recorded set until = clock_timestamp() - interval '1 second'`.execute(app.db)
  await expire()
  await recorder.renew()
  t.same(lost, [notes], 'an unused table is no longer recorded')
  const again = await recorder.record(notes)
  t.ok(again.start > used.start, 'a new recording starts later')
  await expire()
  recorder.recheck(acmeRef)
  t.ok((await recorder.record(notes)).start > again.start, 'a further watch begins a new recording')
  t.same(lost, [notes, notes], 'the earlier one has missed changes')
  recorder.recheck(acmeRef)
  await recorder.record(notes)
  await recorder.renew()
  t.equal(lost.length, 2, 'both go on')
})

test('a watch of a tenant that was deleted and created again receives its changes', async (t) => {
  const { app, connect } = await open(t, {}, { engine: await postgresSection(t) })
  const first = await connect('acme')
  t.match(await first.ask({ type: 'watch', table: 'notes' }), { type: 'ack' })
  await app.tenants.delete('acme')
  await first.closed
  await app.tenants.create({ id: 'acme', name: 'Acme', plan: 'large' })
  // A token of the second of the deletion counts as older.
  const later = { iat: Math.floor(Date.now() / 1000) + 1 }
  const second = await connect('acme', later)
  t.match(await second.ask({ type: 'watch', table: 'notes' }), { type: 'ack' })
  const ask = caller(t, app, { token: tokenOf('acme', { ...later, role: 'admin' }) })
  t.match(await ask('POST /notes', { body: { title: 'of the new tenant' } }), { status: 201 })
  t.match(await second.change(), { record: { title: 'of the new tenant' } })
})

test('a watch on a server that missed the deletion of its tenant receives the changes of the later one', async (t) => {
  const { app, connect } = await open(t, {}, { engine: await postgresSection(t) })
  const first = await connect('acme')
  t.match(await first.ask({ type: 'watch', table: 'notes' }), { type: 'ack' })
  await sql`delete from tenantry.realtime_recorded`.execute(app.db)
  await missSuccession(app, 'acme')
  t.equal((await first.closed).code, 4403)
  const second = await connect('acme')
  t.match(await second.ask({ type: 'watch', table: 'notes' }), { type: 'ack' })
  const ask = caller(t, app, { token: tokenOf('acme', { role: 'admin' }) })
  t.match(await ask('POST /notes', { body: { title: 'of the new tenant' } }), { status: 201 })
  t.match(await second.change(), { record: { title: 'of the new tenant' } })
})

test('a watch waits at most 30 seconds, and the next one may succeed', async (t) => {
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  let writers = [{ tenant: null, table: 'notes', writer: '3/1' }]
  const recorder = createRecorder({
    store: { ...createRecordedStore(app.db), writers: async () => writers },
    schema: '',
    retentionSeconds: 60,
    lost: () => {},
    log: app.log
  })
  recorder.start()
  t.teardown(() => recorder.stop())
  const { now } = performance
  const waiting = recorder.record({ tenant: acmeRef, table: 'notes' })
  const { restore } = t.intercept(performance, 'now', { value: () => now.call(performance) + 31_000 })
  await t.rejects(waiting, failure('databaseBusy'))
  restore()
  writers = []
  t.match(await recorder.record({ tenant: acmeRef, table: 'notes' }), { start: Number })
})

test('a change that passes the filter by chance is dropped, and changes no position', async (t) => {
  const opened = await open(t, {}, { engine: await postgresSection(t) })
  const { app, connect } = opened
  const client = await connect('acme', { permissions: ['tasks:read'] })
  await client.ask({ type: 'watch', table: 'tasks' })
  await sql`select setval(filter, -1) from unnest(tenantry.realtime_filters()) filter`.execute(app.db)
  await sql`insert into tasks (tenant_id, number, title) values ('globex', 1, 'x'), ('acme', 2, 'x')`.execute(app.db)
  t.match(await client.change(), { id: 2, position: 2 })
  await until('the outbox is empty', async () => await rowsIn(opened, 'outbox') === 0)
  t.equal(await rowsIn(opened, 'changes'), 1)
})

test('the gate of a table is open while a client may watch the table, also for servers of the previous version', async (t) => {
  const engine = await postgresSection(t)
  const { app, connect } = await open(t, {}, { engine })
  const store = createRecordedStore(app.db)
  const gates = async () =>
    (await sql<{ table: string, gate: string, open: boolean, condition: string }>`
      select table_name as "table", gate::text, pg_sequence_last_value(gate)::int::boolean as open, (
        select pg_get_triggerdef(oid) from pg_trigger where tgrelid = table_name::regclass and tgname = 'tenantry_changes') as condition
      from unnest(array['notes', 'tasks']) table_name, tenantry.realtime_gate(table_name) gate`.execute(app.db)).rows
  t.equal((await gates()).length, 2)
  for (const { table, gate, condition } of await gates()) t.match(condition, `'${gate}'::regclass`, `the trigger of ${table} reads the gate`)
  const isOpen = async () => Object.fromEntries((await gates()).map(({ table, open }) => [table, open]))
  t.same(await isOpen(), { notes: false, tasks: false })
  await (await connect('acme')).ask({ type: 'watch', table: 'notes' })
  await store.sweep()
  t.same(await isOpen(), { notes: true, tasks: false })
  // The previous version only adds the entry.
  await sql`insert into tenantry.realtime_recorded (tenant_id, table_name, until) values ('acme', 'tasks', now() - interval '1 s')`.execute(app.db)
  t.same(await isOpen(), { notes: true, tasks: true })
  await store.sweep()
  t.same(await isOpen(), { notes: true, tasks: false })
})

test('writes of a role without rights on the schema tenantry succeed, and are recorded', async (t) => {
  const engine = await postgresSection(t)
  const { connect } = await open(t, {}, { engine })
  const role = `clerk_${randomUUID().slice(0, 8)}`
  const writer = await session(t, engine)
  await writer.query(`create role ${role} bypassrls; grant insert on tasks to ${role}`)
  t.teardown(() => writer.query(`reset role; drop owned by ${role}; drop role ${role}`))
  const insert = (number: number) => writer.query(`set role ${role}; insert into tasks (tenant_id, number, title) values ('acme', ${number}, 'x')`)
  await insert(1)
  await writer.query('reset role')
  const client = await connect('acme', { permissions: ['tasks:read'] })
  t.match(await client.ask({ type: 'watch', table: 'tasks' }), { type: 'ack' })
  await insert(2)
  t.match(await client.change(), { action: 'created', id: 2 })
})

test('a watch of a partitioned table receives writes to the table and to its partitions', async (t) => {
  const database = await postgresDatabase(t)
  await database.admin(`create table parts (tenant_id text not null, number bigint not null, title text, primary key (tenant_id, number)) partition by range (number);
    create table parts_low partition of parts for values from (0) to (100)`)
  const engine = { provider: 'postgres', postgres: { connectionString: database.connectionString } } as const
  const { app, connect } = await open(t, { realtime: { tables: { parts: { trigger: true } } } }, { engine })
  await database.admin('create table parts_high partition of parts for values from (100) to (200)')
  const client = await connect('acme')
  const writer = await session(t, engine)
  await writer.query("begin; select set_config('app.tenant_id', 'acme', false); insert into parts_low values ('acme', 1, 'before')")
  client.send({ type: 'watch', table: 'parts', ref: 'first' })
  await until('it waits', async () => (await sql`select from tenantry.realtime_recorded`.execute(app.db)).rows.length === 1)
  await client.settle()
  t.notOk(client.messages.some(({ ref }) => ref === 'first'), 'a transaction writes to a partition')
  await writer.query('commit')
  t.match(await client.next(({ ref }) => ref === 'first'), { type: 'ack' })
  await sql`insert into parts values ('acme', 2, 'by the table'), ('acme', 102, 'by the table')`.execute(app.db)
  t.match([await client.change(), await client.change()], [{ table: 'parts', id: 2 }, { table: 'parts', id: 102 }])
  await writer.query("insert into parts_high values ('acme', 103, 'by the partition')")
  t.match(await client.change(), { table: 'parts', action: 'created', id: 103 })
  await sql`update parts set number = 3 where number = 103`.execute(app.db)
  t.match([await client.change(), await client.change()], [{ action: 'deleted', id: 103 }, { action: 'created', id: 3 }])
})

test('times of rows are in UTC in any session, which keeps its settings', async (t) => {
  const database = await postgresDatabase(t)
  await database.admin('create table visits (tenant_id text not null, id bigint not null, at timestamptz, primary key (tenant_id, id))')
  const engine = { provider: 'postgres', postgres: { connectionString: database.connectionString } } as const
  const { connect } = await open(t, { realtime: { tables: { visits: { trigger: true } } } }, { engine })
  const client = await connect('acme')
  t.match(await client.ask({ type: 'watch', table: 'visits' }), { type: 'ack' })
  const writer = await session(t, engine)
  const settings = "select current_setting('TimeZone') as zone, current_setting('app.tenant_id', true) as tenant"
  const insert = (id: number) => `insert into visits values ('acme', ${id}, '2026-01-01 12:00+00')`
  for (const [id, tenant] of [[1, 'acme'], [2, '']] as const) {
    await writer.query(`select set_config('TimeZone', 'Asia/Tokyo', false), set_config('app.tenant_id', '${tenant}', false)`)
    // A superuser needs no tenant for the policies.
    await writer.query('begin')
    await writer.query(insert(id))
    t.same((await writer.query(settings)).rows, [{ zone: 'Asia/Tokyo', tenant }])
    await writer.query('commit')
    t.same((await writer.query(settings)).rows, [{ zone: 'Asia/Tokyo', tenant }])
    t.match(await client.change(), { id, record: { at: '2026-01-01T12:00:00+00:00' } })
  }
})
