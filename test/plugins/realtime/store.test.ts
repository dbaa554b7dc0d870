/** Changes in batches: their positions, their bounds, and reads from any position. */
import { sql } from 'kysely'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { isRecord } from '../../../lib/json/plain-value.js'
import { createRecordedStore } from '../../../plugins/realtime/recorded-store.js'
import { createChangeStore, type PositionResult } from '../../../plugins/realtime/store.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { listen, type TestDocument, testServer } from '../../helpers/server.js'
import { document, open, ready, tokenOf } from './app.js'

const [acme, globex] = [tenantRef('acme'), tenantRef('globex')]

test('changes are read from any position, in reads of at most 500', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app } = await open(t, {}, { engine })
    await createRecordedStore(app.db).enter([{ tenant: acme, table: 'tasks' }, { tenant: acme, table: 'notes' }], 600)
    const store = createChangeStore(app.engine)
    await sql`insert into tasks (tenant_id, number, title) select 'acme', n, 'x' from generate_series(1, 700) n`.execute(app.db)
    await sql`insert into notes (tenant_id, title) values ('acme', 'of another table')`.execute(app.db)
    t.match(await store.assignPositions(''), { count: 701, heads: [{ tenant: 'acme', position: 701 }] })
    const read: number[] = []
    let reads = 0
    for (let after = 150; after < 701; reads++) {
      const { changes, until } = await store.read(acme, 'tasks', after, 701)
      read.push(...changes.map(({ position }) => position))
      after = until
    }
    t.same(read, Array.from({ length: 550 }, (_, index) => 151 + index), 'each once and in order, from the middle of a batch')
    t.equal(reads, 2)
    t.same((await store.read(acme, 'notes', 0, 701)).changes.map(({ position, table }) => [position, table]), [[701, 'notes']])
  }))

test('a read up to a position within a batch has the changes before it, and none after it', async (t) => {
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  await createRecordedStore(app.db).enter([{ tenant: acme, table: 'tasks' }], 600)
  const store = createChangeStore(app.engine)
  await sql`insert into tasks (tenant_id, number, title) select 'acme', n, 'x' from generate_series(1, 250) n`.execute(app.db)
  t.match(await store.assignPositions(''), { count: 250 })
  for (const [after, head] of [[100, 137], [120, 137], [137, 137], [90, 250], [0, 1], [199, 201]] as const) {
    const { changes, until } = await store.read(acme, 'tasks', after, head)
    t.same(changes.map(({ position }) => position), Array.from({ length: head - after }, (_, index) => after + 1 + index), `${after} ${head}`)
    t.equal(until, head)
  }
})

test('rows with separators, with every digit and of any size arrive whole, or cut with their key', async (t) => {
  const { app, connect } = await open(t, { realtime: { tables: { tasks: { trigger: true } } } }, { engine: await postgresSection(t) })
  const client = await connect('acme')
  const { watch } = await client.ask({ type: 'watch', table: 'tasks', filter: { title: 'short' } })
  const all = await client.ask({ type: 'watch', table: 'tasks' })
  const untitled = await client.ask({ type: 'watch', table: 'tasks', filter: { title: null } })
  const next = (of: unknown) => client.next((message) => message['type'] === 'change' && message['watch'] === of)
  const title = '\u001c\u001d\u001e\u001f "quoted" \\ \n 🎉'
  await sql`insert into tasks (tenant_id, number, title) values ('acme', 1, ${title}), ('acme', 2, ${'x'.repeat(200_000)}), ('acme', 3, ${
    'y'.repeat(300_000)
  })`.execute(app.db)
  t.match(await next(all['watch']), { id: 1, record: { title } })
  t.match(await next(all['watch']), { id: 2, record: { title: /^x{200000}$/ } })
  const cut = await next(all['watch'])
  t.match(cut, { id: 3, truncated: true, record: { tenant_id: 'acme', number: 3 } })
  t.notOk(Object.hasOwn(Object(cut['record']), 'title'))
  await sql`update tasks set title = 'short' where number = 3`.execute(app.db)
  t.match(await next(watch), { id: 3, action: 'updated', record: { title: 'short' } }, 'a large row enters the filter')
  await sql`update tasks set title = ${'z'.repeat(300_000)} where number = 3`.execute(app.db)
  t.match(await next(watch), { id: 3, action: 'left', record: null }, 'and leaves it')
  await client.settle()
  t.notOk(client.messages.some((message) => message['watch'] === untitled['watch']), 'an omitted value is not null')
  const { rows } = await sql<{ bytes: number }>`select bytes from tenantry.realtime_changes`.execute(app.db)
  t.ok(rows.length > 1)
  t.ok(rows.every(({ bytes }) => bytes < 800_000), 'each batch is bounded')
})

const drafts: TestDocument = {
  tables: { ...document.tables, drafts: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, content: { type: 'json' } } } },
  realtime: { tables: { drafts: { trigger: true }, tasks: { trigger: true } } }
}

/** JSON that PostgreSQL stores, and cannot read: with NUL or half of a surrogate pair. */
const unreadable = (bytes: number, escape = String.raw`\u0000`) => `"${escape}${'x'.repeat(bytes)}"`

test('a row that PostgreSQL cannot read stops no change of a row, of its own tenant or another one', async (t) => {
  const { app, connect } = await open(t, drafts, { engine: await postgresSection(t) })
  const [own, other] = [await connect('acme'), await connect('globex')]
  await own.ask({ type: 'watch', table: 'drafts' })
  await other.ask({ type: 'watch', table: 'tasks' })
  let number = 0
  for (const [id, content] of [[1, unreadable(10)], [2, unreadable(300_000)], [3, unreadable(300_000, String.raw`\uDc00`)]] as const) {
    const truncated = content.length > 262_144 ? true : undefined
    await sql`insert into drafts (tenant_id, id, content) values ('acme', ${id}, ${content}::json)`.execute(app.db)
    await sql`insert into tasks (tenant_id, number, title) values ('globex', ${++number}, 'x')`.execute(app.db)
    t.match(await other.change(), { record: { number } })
    t.match(await own.next((message) => message['id'] === id && message['action'] === 'created'), { truncated })
    await sql`update drafts set content = ${content}::json where id = ${id}`.execute(app.db)
    await sql`delete from drafts where id = ${id}`.execute(app.db)
    await own.next(({ type, action }) => type === 'change' && action === 'deleted')
  }
  await sql`insert into drafts (tenant_id, id, content) values ('acme', 4, ${unreadable(300_000, String.raw`\\u0000\\\u0000`)}::json)`
    .execute(app.db)
  await sql`update drafts set content = '"short"' where id = 4`.execute(app.db)
  t.match(await own.next(({ record }) => isRecord(record) && record['content'] === 'short'), { id: 4, action: 'updated' })
})

test('a large row is cut when it is written, also if its JSON is longer than the body that wrote it', async (t) => {
  const { app } = await open(t, drafts, { engine: await postgresSection(t) })
  await createRecordedStore(app.db).enter([{ tenant: acme, table: 'drafts' }], 600)
  const content = JSON.stringify({ short: 1, numbers: Array.from({ length: 1000 }, () => 1e308) })
  await sql`alter table drafts alter content type jsonb, add column note text default 'kept'`.execute(app.db)
  await sql`insert into drafts (tenant_id, id, content) values ('acme', 1, ${content}::jsonb)`.execute(app.db)
  await sql`update drafts set note = 'changed'`.execute(app.db)
  await sql`update drafts set id = 2`.execute(app.db)
  await sql`delete from drafts`.execute(app.db)
  const { rows } = await sql<Record<string, unknown>>`select kind, record, before, cut, bytes from tenantry.realtime_outbox order by place`
    .execute(app.db)
  const [first, second] = [{ tenant_id: 'acme', id: 1, note: 'changed' }, { tenant_id: 'acme', id: 2, note: 'changed' }]
  t.strictSame(rows.map(({ kind, record, before }) => [kind, record, before]), [
    ['I', { ...first, note: 'kept' }, null],
    ['U', first, { ...first, note: 'kept' }],
    ['D', first, null],
    ['I', second, null],
    ['D', second, null]
  ])
  t.ok(rows.every(({ cut, bytes }) => cut === true && Number(bytes) > 40 && Number(bytes) < 200))
})

test('a run of positions is bounded in bytes, and each tenant has a share', async (t) => {
  const { app } = await open(t, drafts, { engine: await postgresSection(t) })
  await createRecordedStore(app.db).enter([{ tenant: acme, table: 'tasks' }, { tenant: globex, table: 'tasks' }], 600)
  const store = createChangeStore(app.engine)
  await sql`insert into tasks (tenant_id, number, title) select 'acme', n, ${'x'.repeat(250_000)} from generate_series(1, 100) n`
    .execute(app.db)
  await sql`insert into tasks (tenant_id, number, title) select 'globex', n, 'x' from generate_series(1, 50) n`.execute(app.db)
  // As an earlier version records them while the migration runs.
  await sql`update tenantry.realtime_outbox set bytes = 0 where place % 2 = 0`.execute(app.db)
  const runs: PositionResult[] = []
  do runs.push(await store.assignPositions('')); while (runs.at(-1)?.more === true)
  const counts = runs.map(({ count }) => count)
  t.ok(counts.every((count) => count <= 17 + 50), String(counts))
  t.equal(counts.reduce((sum, count) => sum + count), 150)
  t.match(runs[0]?.heads, [{ tenant: 'acme' }, { tenant: 'globex', position: 50 }], 'a tenant with large rows delays no other')
  const numbers: unknown[] = []
  for (let after = 0; after < 100;) {
    const { changes, until } = await store.read(acme, 'tasks', after, 100)
    numbers.push(...changes.map(({ record }) => JSON.parse(record).number))
    after = until
  }
  t.same(numbers, Array.from({ length: 100 }, (_, index) => index + 1))
})

test('large changes that an earlier version recorded are cut by the migration', async (t) => {
  const engine = await postgresSection(t)
  const { app } = await open(t, drafts, { engine })
  await createRecordedStore(app.db).enter([{ tenant: acme, table: 'drafts' }], 600)
  await sql`delete from tenantry.migrations where name like '%realtime_sizes'`.execute(app.db)
  await sql`alter table tenantry.realtime_outbox drop column bytes, drop column cut`.execute(app.db)
  await sql`drop function tenantry.cut_row`.execute(app.db)
  const row = `{"tenant_id":"acme","id":1,"content":${unreadable(300_000)}}`
  await sql`insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record, before)
    values ('acme', 'drafts', 'U', '{id}', ${row}::json, ${row}::json), ('acme', 'drafts', 'I', '{id}', '{"id":2}', null)`.execute(app.db)
  await app.close()
  const later = await testServer(t, { ...document, ...drafts }, { engine })
  const store = createChangeStore(later.engine)
  t.match(await store.assignPositions(''), { count: 2 })
  const record = '{ "tenant_id" : "acme", "id" : 1 }'
  t.match((await store.read(acme, 'drafts', 0, 2)).changes, [{ cut: true, record, before: record }, { cut: false, record: '{"id":2}' }])
})

test('a sweep removes whole batches, and the floor says up to which position', async (t) => {
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  await createRecordedStore(app.db).enter([{ tenant: acme, table: 'tasks' }], 600)
  const store = createChangeStore(app.engine)
  const write = async (from: number, to: number) => {
    await sql`insert into tasks (tenant_id, number, title) select 'acme', n, 'x' from generate_series(${from}::int, ${to}::int) n`.execute(app.db)
    await store.assignPositions('')
  }
  await write(1, 250)
  await sql`update tenantry.realtime_changes set at = at - interval '1 day'`.execute(app.db)
  await write(251, 260)
  t.equal(await store.sweep(new Date(Date.now() - 3_600_000)), 3)
  t.match(await store.standings(['acme']), [{ position: 260, floor: 250, oldest: null }])
  t.equal((await store.read(acme, 'tasks', 250, 260)).changes.length, 10)
})

test('one statement of a sweep removes thousands of batches of one tenant', async (t) => {
  const { app } = await open(t, {}, { engine: await postgresSection(t) })
  await sql`insert into tenantry.realtime_heads (tenant_id, position, stamp) select 'tenant' || n, 2000, n from generate_series(1, 150) n`
    .execute(app.db)
  await sql`insert into tenantry.realtime_changes (tenant_id, position, first, bytes, tables, changes, at)
    select 'tenant7', n, n, 0, '{}', '', now() - interval '1 day' from generate_series(1, 2000) n`.execute(app.db)
  const store = createChangeStore(app.engine)
  const hourAgo = new Date(Date.now() - 3_600_000)
  t.equal(await store.sweep(hourAgo), 2000)
  t.match(await store.standings(['tenant7', 'tenant8']), [{ floor: 2000 }, { floor: 0 }])
  await sql`insert into tenantry.realtime_changes (tenant_id, position, first, bytes, tables, changes, at)
    select 'tenant' || n, 2001, 2001, 0, '{}', '', now() - interval '1 day' from generate_series(1, 150) n`.execute(app.db)
  t.same([await store.sweep(hourAgo), await store.sweep(hourAgo), await store.sweep(hourAgo)], [100, 50, 0], 'of a hundred tenants at most')
})

test('changes that an earlier version kept are a gap after the migration', async (t) => {
  const engine = await postgresSection(t)
  const { app, connect, ask } = await open(t, {}, { engine })
  const client = await connect('acme')
  await client.ask({ type: 'watch', table: 'notes' })
  await ask('acme')('POST /notes', { body: { title: 'two' } })
  t.match(await client.change(), { position: 2 })
  await app.close()
  const earlier = await testServer(t, { ...document, realtime: { enabled: false } }, { engine })
  const { db } = earlier
  await sql`delete from tenantry.migrations where name like '%realtime_batches'`.execute(db)
  await sql`alter table tenantry.realtime_changes drop constraint realtime_changes_pkey, drop column first, drop column bytes, drop column tables,
    drop column changes, alter column position drop not null, add column place bigint generated always as identity, add column table_name text,
    add column kind text, add column key jsonb, add column record json, add column before jsonb, add column cut boolean, add primary key (tenant_id, place)`
    .execute(db)
  await sql`create unique index realtime_changes_order on tenantry.realtime_changes (tenant_id, position) where position is not null`.execute(db)
  await earlier.close()
  const back = await ready(t, await listen(await testServer(t, document, { engine })), tokenOf('acme'))
  const { watch } = await back.ask({ type: 'watch', table: 'notes', since: 1 })
  t.match(await back.next(({ type }) => type === 'gap'), { watch, position: 2 })
  t.match(await back.ask({ type: 'watch', table: 'notes', since: 2 }), { type: 'ack', position: 2 })
  await back.settle()
  t.notOk(back.messages.some(({ type }) => type === 'gap'), 'a client that has all of them misses nothing')
})
