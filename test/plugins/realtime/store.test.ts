/** Changes in batches: their positions, their bounds, and reads from any position. */
import { sql } from 'kysely'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createRecordedStore } from '../../../plugins/realtime/recorded-store.js'
import { createChangeStore } from '../../../plugins/realtime/store.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { listen, testServer } from '../../helpers/server.js'
import { document, open, ready, tokenOf } from './app.js'

const acme = tenantRef('acme')

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
